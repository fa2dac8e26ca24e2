"""Backends of `MemoryIndex`, each on another package; a backend is imported when it is chosen."""
