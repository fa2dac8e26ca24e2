"""What a store does with memories: flat ones, the journal, persona memories, their history, search and embeddings."""
