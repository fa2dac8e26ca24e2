"""The one JSON shape of each thing, for every door: command line, page, MCP and plain functions.

A door calls `shape_of(thing)` for what it prints or sends. It may choose which fields it sends, and cut long texts; it never
renames a field. docs/json.md is generated from the same declarations (`make json-docs`).

    shape_of(memory)                        # a model of the product: a dict
    shape_of(entries)                       # a list of models: a list of dicts
    shape_of(memory, then)                  # what depends on the moment is that of `then`
    shape_of(version, path="user_timezone") # a thing that does not know its own path

The rules hold for every shape: each field is always present; null stands for a value that is absent; times are ISO 8601 in
UTC; other numbers have at most six decimals; a memory has a `path`, a `key` (the last part of the path) and a `value`.

A new model gets a line in `table.py`, which says what differs from its own fields; a class that belongs to a door is declared
where it stands, by `@thing("its name")`. A class without a declaration has no shape, so no key or secret gets out by accident.
"""

from __future__ import annotations

from sense_memory.interfaces.shapes.conversion import shape_of
from sense_memory.interfaces.shapes.shape import Shape, names_of, shown_path, thing


__all__ = ["Shape", "names_of", "shape_of", "shown_path", "thing"]
