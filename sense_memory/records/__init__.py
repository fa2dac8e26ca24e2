"""Records: plain fields to signed, encrypted events and back; encrypted caches beside the ledger."""
