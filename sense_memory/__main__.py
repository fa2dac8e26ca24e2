"""`python -m sense_memory`: the command line."""

from __future__ import annotations

from sense_memory.interfaces.cli import main


main()
