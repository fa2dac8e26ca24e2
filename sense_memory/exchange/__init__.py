"""The import from other programs (`read`, `plan_import`, `carry_out`), and exports of what people can read or of a part.

`write_readable` writes plain text, and `write_part` the events of some memories; `MemoryStore.export` writes all events.
"""

from __future__ import annotations

from sense_memory.exchange.execution import Imported, carry_out
from sense_memory.exchange.export_filter import ExportFilter
from sense_memory.exchange.formats import NAMES, check_name, read, recognise
from sense_memory.exchange.import_plan import Fate, ImportPlan, Step, plan_import
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult
from sense_memory.exchange.partial_events import write_part
from sense_memory.exchange.readable import OWN_FORMATS, Exported, write_readable


__all__ = [
    "NAMES",
    "OWN_FORMATS",
    "ExportFilter",
    "Exported",
    "Fate",
    "ImportPlan",
    "Imported",
    "Item",
    "ItemKind",
    "Problem",
    "ReaderResult",
    "Step",
    "carry_out",
    "check_name",
    "plan_import",
    "read",
    "recognise",
    "write_part",
    "write_readable",
]
