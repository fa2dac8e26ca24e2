"""The benchmark: every figure stands beside its floor, measured in the same run on the same machine.

What is measured goes through the public API only. A floor does the same work with the libraries alone:
no store, no session, no checks that are not part of the work. `python -m scripts.bench` runs it.
"""
