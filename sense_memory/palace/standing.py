"""Which memories belong into every prompt, whatever is asked: preferences, instructions and limits that go on holding. Pure.

A preference is rarely found by a search, because a question does not name it: "Write the letter to Hana" shares no word with
"Hana prefers to be asked by Signal". So a prompt takes these memories by kind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory


_READ_CHARS: Final = 300  # of a text
_KINDS: Final = frozenset(
    (  # noqa: SIM905 - reads best as words
        "preference preferences instruction instructions rule rules guideline guidelines constraint constraints policy "
        "policies allergy allergies standing"
    ).split()
)
_STANDING: Final = re.compile(
    r"^(?:(?:please |always |never |do not |don['\u2019]t )|(?:answer|reply|respond|write|speak|call me|address) )"
    r"|\b(?:prefers?|preferred|must (?:not|never)|may not|is not allowed|are not allowed|is allergic|am allergic|allergy"
    r"|wants? (?:to be|me to|you to|no)|likes? to be|insists? on)\b"
    r"|^(?:bitte |immer |nie(?:mals)? |siempre |nunca |toujours |jamais )|\b(?:bevorzugt|prefiere|pr\u00e9f\u00e8re|allergisch|al\u00e9rgic[oa]|allergique)\b",
    re.IGNORECASE,
)


def has_standing_kind(memory: PersonaMemory) -> bool:
    """Whether the facet or a theme of a memory says that it is a standing preference, instruction or limit."""
    return memory.facet in _KINDS or not _KINDS.isdisjoint(memory.themes)


def is_standing(memory: PersonaMemory) -> bool:
    """As `has_standing_kind`, or its words say so."""
    return has_standing_kind(memory) or _STANDING.search(memory.value[:_READ_CHARS]) is not None
