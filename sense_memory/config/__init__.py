"""Settings and where each value came from; an agent's key, its file and the keyring."""
