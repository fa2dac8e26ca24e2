"""The search of the mind: its index, its hits, the search without an index, and which statement corrects which."""
