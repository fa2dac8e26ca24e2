"""The one prompt of a mind: what is read for it, how its parts share a budget, and the messages that a model gets."""
