"""Backends of `MemoryIndex`, each behind a package of its own and imported when it is chosen."""
