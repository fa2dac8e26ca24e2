"""Records: plain fields in, signed and encrypted events out, and back; caches sealed beside the ledger."""
