"""The embedded relay."""
