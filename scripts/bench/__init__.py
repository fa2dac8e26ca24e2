"""The benchmark: every figure has a floor next to it, measured in the same run on the same machine.

The figures use the public API only. A floor does the same work with the libraries alone: no store, no session, no
checks other than the work itself. `python -m scripts.bench` runs it.
"""
