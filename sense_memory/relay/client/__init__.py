"""One connection to a relay: the session, which does no I/O, and its driver."""
