"""Relays: the connections to them, what is pulled and published there, and the embedded one."""
