"""The protocol, without I/O and without a clock: events, keys, signers, NIP-44, addresses, frames, verdicts.

One rule, one file. Anything may import from here; nothing here imports more than `limits` and `errors`.
"""
