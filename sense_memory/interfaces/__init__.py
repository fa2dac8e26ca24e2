"""Ways to reach a store from outside Python: the command line. Nothing imports from here."""
