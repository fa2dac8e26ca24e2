"""Relays one runs or chooses oneself: presets, a strfry configuration, and the misbehaving ones of the tests.

Not part of the installed package. `README.md` here says what to look at in a relay.
"""
