"""Synchronisation of relays and the ledger: pull, push, comparison, live subscriptions, and the background."""
