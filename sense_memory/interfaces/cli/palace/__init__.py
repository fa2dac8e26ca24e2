"""`palace`: what only the palace has, memories in domains and facets that fade, connect and contradict each other."""
