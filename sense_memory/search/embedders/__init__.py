"""Embedders, which turn texts into vectors; each is imported when it is chosen."""
