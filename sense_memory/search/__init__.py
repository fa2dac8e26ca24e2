"""Search: one lexical index under everything that searches. Pure: no I/O, no clock but a parameter."""
