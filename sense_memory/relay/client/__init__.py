"""One connection to a relay: the session without I/O, its requests, and the driver."""
