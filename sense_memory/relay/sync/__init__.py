"""Synchronising relays and the ledger: pull, push, comparison, and the background."""
