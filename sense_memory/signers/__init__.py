"""Signers that are not in this process: a bunker (NIP-46) holds the key, and is asked over relays."""
