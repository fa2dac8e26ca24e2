"""The palace: pure views over persona memories (sense-memory v2). No I/O, and no clock but a parameter."""
