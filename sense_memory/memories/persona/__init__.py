"""The palace memories of a store: read from a ledger, edited, merged and reviewed.

These modules connect the ledger's events with the pure views of `palace` and `search`. They are imported when a persona
memory is first needed, so a program with flat memories alone never loads them.
"""
