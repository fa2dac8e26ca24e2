"""The protocol, without I/O and without a clock: events, keys, signers, NIP-44, addresses, frames, verdicts.

Each rule has one file. Every part may import this package, which imports only `limits` and `errors`.
"""
