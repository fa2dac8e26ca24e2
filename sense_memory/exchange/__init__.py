"""The import from other programs (`read`, `plan_import`, `carry_out`) and the readable export (`write_readable`)."""

from __future__ import annotations

from sense_memory.exchange.execution import Imported, carry_out
from sense_memory.exchange.formats import NAMES, check_name, read, recognise
from sense_memory.exchange.import_plan import Fate, ImportPlan, Step, plan_import
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult
from sense_memory.exchange.readable import Exported, write_readable


__all__ = [
    "NAMES",
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
    "write_readable",
]
