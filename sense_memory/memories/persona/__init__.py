"""Persona memories in the store: the palace of a ledger, kept open, edited, merged and reviewed.

This is the wiring between the ledger's events and the pure views of `palace` and `search`. Nothing is
imported before a persona memory is asked for: a flat memory never pays for it.
"""
