"""Which of two statements corrects the other: "Correction: the dentist is on Thursday, not on Monday." Pure.

A later statement corrects an earlier one if the palace's rules find that it contradicts the earlier one, or if it says
itself that something changed ("no longer", "instead of", "was moved to", …) and is about the same. A question corrects
nothing. What is corrected is still found: it only ranks behind its correction, so a wrong guess costs places and hides
nothing. Cost: some 0.3 ms for each text that is read for the first time.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from sense_memory.mind.beliefs import as_memory
from sense_memory.palace.contradictions.claims import read
from sense_memory.palace.contradictions.detection import compare_readings
from sense_memory.search.tokens import STOP_WORDS, stemmer, words


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory
    from sense_memory.palace.contradictions.claims import Reading

MAX_CHARS: Final = 200  # of a text that is compared; a longer one says too much to be corrected as a whole
_SHARE: Final = 0.5  # of the words of the shorter statement, which a correction shares
_says_so = re.compile(
    r"\b(?:correction|corrected|i meant|i mean|was wrong|were wrong|mistaken|no longer|not \w+(?: \w+){0,5} any ?more|instead"
    r"|rather than|(?:was|is|been|has|have|had|were) (?:now )?(?:moved|changed|rescheduled|postponed|extended|replaced|switched)"
    r"|(?:moved|changed|switched|rescheduled|postponed|extended|renamed) (?:\w+ ){0,6}(?:to|from|by)|from now on)\b"
    r"|^\W*(?:actually|sorry|wait|update)\b",
    re.IGNORECASE,
).search
_says_now = re.compile(r"\b(?:now|these days|nowadays|by now|currently)\b", re.IGNORECASE).search
_CUES: Final = """
correct correction mean meant wrong mistaken longer more instead move moved change changed reschedule postpone extend replace
switch now day these actually sorry wait update not
"""


def corrects(new: str, old: str) -> bool:
    """Whether a statement corrects an earlier one of the same speaker.

    >>> corrects("Correction: the dentist is on Thursday.", "My dentist is on Monday at nine.")
    True
    >>> corrects("Is the dentist on Thursday now?", "My dentist is on Monday at nine.")
    False
    """
    if max(len(new), len(old)) > MAX_CHARS or new.rstrip().endswith("?") or old.rstrip().endswith("?"):
        return False
    said, before = _terms(new), _terms(old)
    is_near = len(said & before) >= _SHARE * min(len(said), len(before)) > 0
    if not is_near:
        return False
    if _says_so(new) or (_says_now(new) and _opening(new) == _opening(old)):
        return True
    found = compare_readings(*_read("old", old), *_read("new", new))
    return found is not None and (found.acts or _opening(new) == _opening(old))


@lru_cache(4_096)
def _terms(text: str) -> frozenset[str]:
    """The stems of a statement, without stop words and words that only say that something changed."""
    stem, stops = stemmer("english"), STOP_WORDS["english"]
    return frozenset(stem(word) for word in words(text) if word not in stops) - _CUE_STEMS


@lru_cache(4_096)
def _read(key: str, text: str) -> tuple[PersonaMemory, Reading]:
    memory = as_memory(key, text, 0.0)
    return memory, read(memory)


def _opening(text: str) -> list[str]:
    return words(text)[:2]


_CUE_STEMS: Final = frozenset(map(stemmer("english"), _CUES.split()))
