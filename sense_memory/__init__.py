"""sense-memory."""
