"""`palace`: commands for the palace alone, whose memories fade, connect and contradict each other."""
