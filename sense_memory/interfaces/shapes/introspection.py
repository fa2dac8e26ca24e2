"""An introspection of which a door shows the first findings: what is not shown is not converted, and still counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sense_memory.interfaces.shapes.conversion import shape_of
from sense_memory.interfaces.shapes.views import FINDINGS, counted_findings


if TYPE_CHECKING:
    from sense_memory.models import IntrospectionReport


def first_findings(report: IntrospectionReport, limit: int, **limits: int) -> dict[str, Any]:
    """The shape of a report with the first findings of each list; `counts` has the numbers of all.

    Args:
        report: what introspection found.
        limit: how many of each list are shown.
        limits: by the name of a list, how many of it are shown at most.
    """
    shown = {name: getattr(report, name)[: min(limit, limits.get(name, limit))] for name in FINDINGS}
    return {
        **shape_of(report.model_copy(update=shown)),
        "counts": counted_findings(report, report.created_at),
    }
