"""Settings, and where each value came from; an agent's secret key, its key file and the system's keyring."""
