"""What a user holds: `MemoryStore`, with its palace, its journal and its relays."""

from sense_memory.store.memory_store import MemoryStore


__all__ = ["MemoryStore"]
