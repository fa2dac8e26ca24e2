"""Questions about what holds now: "Where does Kaja live now?", "the latest version", "aktuell". Pure.

Such a question has an answer that replaced others: of the hits that have the same words of it, the newest is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Sequence

SAME_SHARE: Final = 0.4  # of the best score; a hit below it is about something else
_ENGLISH: Final = "current currently now nowadays latest newest presently still recent recently anymore"
_GERMAN: Final = """
aktuell aktuelle aktueller aktuelles aktuellen jetzt derzeit derzeitige derzeitigen momentan neueste neuesten neuester
neuestes zurzeit heutzutage noch inzwischen mittlerweile
"""
_FRENCH: Final = "actuel actuelle actuels actuelles actuellement maintenant desormais encore toujours"
_SPANISH: Final = "actual actuales actualmente ahora todavia aun"
_PORTUGUESE: Final = "atual atuais atualmente agora ainda"
_ITALIAN: Final = "attuale attuali attualmente adesso ancora"
_DUTCH: Final = "huidige actueel momenteel nu nieuwste nog"
NOW_WORDS: Final = frozenset(
    f"{_ENGLISH} {_GERMAN} {_FRENCH} {_SPANISH} {_PORTUGUESE} {_ITALIAN} {_DUTCH}".split()
)


class Aged(NamedTuple):
    """A hit as this module sees it.

    Attributes:
        words: the words of the question that it has, folded.
        score: as in its search.
        time: when its text was written, seconds since 1970.
    """

    words: frozenset[str]
    score: float
    time: float


def asks_for_now(question: str) -> bool:
    """Whether a question asks for what holds now.

    >>> asks_for_now("Where does Kaja live now?"), asks_for_now("Where did Kaja live?")
    (True, False)
    """
    return not NOW_WORDS.isdisjoint(words(question))


def newest_first(question: str, hits: Sequence[Aged]) -> list[int]:
    """The order of hits, by their places, in which the newest of those about one thing comes first.

    The first hit with a word of the question sets the thing: all hits with the same words of the question, and at least
    `SAME_SHARE` of its score, are about it.

    Args:
        question: any text; if it does not ask for what holds now, the order stays.
        hits: the best first.
    """
    places = list(range(len(hits)))
    if len(hits) < 2 or not asks_for_now(question):
        return places
    best = next((hit for hit in hits if hit.words - NOW_WORDS), None)
    if best is None:
        return places
    wanted, least = best.words - NOW_WORDS, SAME_SHARE * best.score
    same = [at for at in places if wanted <= hits[at].words and hits[at].score >= least]
    newest = sorted(same, key=lambda at: -hits[at].time)
    return [*newest, *(at for at in places if at not in same)]
