"""What a store does with memories: flat ones, the journal, palace memories, their history, search and embeddings."""
