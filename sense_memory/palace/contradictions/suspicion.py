"""Whether a later note ends what an earlier one says, in whatever words: a score.

What tells that something ended is evidence of six kinds: a turn of things ("sold", "no longer"), a hint at one ("now"), what
was done ("was closed"), a denial or an opposite, another word in the same place, another figure. How much evidence counts
depends on what else is found: how much both notes speak of one topic, how much of the earlier one is left unsaid, whether the
later one is a plan. So each such feature has a weight of its own, and one more for each kind of evidence. All are added up; a
score above 0 is a suspicion. "Mia drives an old van", then "Mia finally sold the van": the turn and the topic, `van`, raise the
score, what is left unsaid (`drives`, `old`) lowers it, and it stays above 0. A topic is what both notes name, but for the name
of somebody ("Mia sold the sofa"); a part of one word ("hives", "beehives"); or one sort of thing, such as a home or a job.

What is guaranteed: a suspicion and never more; the same two notes give the same answer. Why it is safe: a suspicion changes
nothing, and notes that may both hold have no score: about two people, two of a sort, two days, or a special case. The weights
are those of a logistic model. It was fitted by `fit_suspicion.py`, beside the tests, to pairs and profiles by authors who did
not know it, and to notes that hardly ever end each other; nothing was fitted to the pairs of further authors. What it costs:
some 60 µs where both share a topic. Pure.
"""

from __future__ import annotations

import re
from itertools import pairwise, takewhile
from math import exp, log1p
from typing import TYPE_CHECKING, Final

from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.claims import tells_how_many
from sense_memory.palace.contradictions.figures import DATES, Figure
from sense_memory.palace.contradictions.vocabulary import axis


if TYPE_CHECKING:
    from sense_memory.palace.contradictions.claims import Alignment, Clause, Word

EVIDENCE: Final = ("turn", "hint", "result", "denial", "slot", "figure")  # that something ended
_LEAST, _MOST = 0.5, 0.7  # the confidence of a suspicion
_CONDITIONS: Final = frozenset({"if", "when", "unless", "until", "while", "before", "after"})
_CIRCUMSTANCES: Final = (terms.LEADS | _CONDITIONS) - terms.words("from as to into instead until after nach")
_EVERYBODY: Final = terms.words("everyone everybody all")
_AFTER_NAMES: Final = (
    terms.AUXILIARIES | terms.NEGATORS | terms.RELATIONS.keys() | terms.words("n ne ya se s a hat war")
)
_NO_TOPIC: Final = terms.FIRST | terms.NO_TOPIC | {f"→{name}" for name in terms.RELATIONS}
_OF_SOMEBODY: Final = frozenset(
    {"home", "job", "pair", "health", "diet"}
)  # told of them in other words, without a topic
_THINGS: Final = terms.SCHEDULED | terms.OCCASIONS | terms.ATTRIBUTES
_TITLES: Final = terms.words("mr mrs ms herr frau mme")
_DIGITS: Final = re.compile(r"[\da-f]")  # those of hexadecimal numbers too
_MIN_PART_CHARS: Final = 4


def suspicion(pair: Alignment) -> float:
    """How surely a later note ends what an earlier one says: a confidence from 0.5 to 0.7, or 0 where it is not suspected."""
    score = _score(found) if (found := features(pair)) else 0.0
    return _LEAST + (_MOST - _LEAST) * (1 - exp(-score)) if score > 0 else 0.0


# ── What is found ───────────────────────────────────────────────────────────────────────


def features(pair: Alignment) -> dict[str, float]:
    """What two notes share and what only one of them says, by the names of `_WEIGHTS`, and which `EVIDENCE` there is;
    nothing where there is none, where they share no topic, or where they may both hold.
    """
    before, after, old, new = pair.old_reading, pair.new_reading, pair.old, pair.new
    topic = (before.keys & after.keys) - _NO_TOPIC - _person(old, new)
    found = _evidence(pair, topic)
    if not any(found[kind] for kind in EVIDENCE) or _is_one_of_a_series(pair, found):
        return {}
    kinds = _kinds(before.keys) & _kinds(after.keys)
    akin_count = _akin_count(old.keys - after.keys, after.keys - before.keys)
    if not (topic or kinds & _OF_SOMEBODY or akin_count):
        return {}
    first, second = (side.words[0].key if side.words else "" for side in (old, new))
    same_start = takewhile(lambda words: words[0] == words[1], zip(old.row, new.row, strict=False))
    gaps = _gaps(pair)
    swaps_count = sum(bool(one and other) for one, other in gaps)
    found |= {
        "same start": log1p(max(0, len(list(same_start)) - 1)),
        "other subject": first not in after.keys and second not in before.keys,
        "other thing": swaps_count > 1,
        "a sort of it": bool(gaps and gaps[0][1] and not gaps[0][0]) and _is_sort(pair),
        "circumstance": _is_circumstance(after.clauses[0], before.keys)
        and not _is_circumstance(before.clauses[0]),
        "circumstance last": bool(gaps) and gaps[-1] == (0, 1) and _is_limited(new.words[-1:]),
        "instruction": all(clause.row[0] in terms.INSTRUCTING for clause in (old, new)),
        "other date": any(a and b and a.kind == b.kind and a.kind in DATES for a, b in pair.apart),
        "new is an event": "event" in after.flags,
    }
    if _may_both_hold(pair, found):
        return {}
    return {"bias": 1.0, **found} | {
        "unsaid": log1p(len(old.keys - after.keys - terms.NO_TOPIC)),
        "unsaid elsewhere": log1p(len(before.keys - after.keys - old.keys - terms.NO_TOPIC)),
        "all said again": before.keys <= after.keys,
        "new words": log1p(len(after.keys - terms.NO_TOPIC)),
        "new name": log1p(len(after.names - before.keys - terms.NO_TOPIC)),
        "one clause": len(after.clauses) == 1,
        "conditional": any(clause.joint in _CONDITIONS for clause in after.clauses),
        "topic": log1p(len(topic)),
        "definite": old.definite,
        "opposite": bool(pair.flips),
        "value": found["slot"] and pair.old_only[0].lead == pair.new_only[0].lead == "be",
        "same subject": bool(first) and first in after.keys,
        "share": len(pair.shared) / max(1, len(old.keys)),
        "kind": bool(kinds),
        "akin": log1p(akin_count),
        "one part": swaps_count == 1,
        "said otherwise": not gaps,
        "old is ongoing": "ongoing" in before.flags,
        "old is past": "past" in before.flags,
        "new is past": "past" in after.flags,
        "new is a plan": "plan" in after.flags,
    }


def _evidence(pair: Alignment, topic: frozenset[str]) -> dict[str, float]:
    """Which `EVIDENCE` there is, and whether what is denied is the topic."""
    before, after = pair.old_reading, pair.new_reading
    denials = [
        any(not part.polarity and part.keys & topic for part in note.clauses) for note in (before, after)
    ]
    is_denied = denials == [False, True]
    return {
        "turn": "turn" in after.flags,
        "hint": bool({"hint", "cause"} & after.flags),
        "old turned": "turn" in before.flags,
        "old is new": "hint" in before.flags,
        "result": "result" in after.flags,
        "denial": bool(pair.flips) or pair.old.polarity != pair.new.polarity or is_denied,
        "denied": is_denied,
        "slot": all(len({word.phrase for word in side}) == 1 for side in (pair.old_only, pair.new_only)),
        "figure": any(a and b and a.kind == b.kind for a, b in pair.apart),
    }


def _person(old: Clause, new: Clause) -> set[str]:
    """The first word, where it seems to name somebody, of whom much is true at once: with a capital and no article."""
    if not old.words or old.row[0] in terms.INSTRUCTING:
        return set()
    name = old.words[0].key
    said = [old.words[0], *(word for word in new.words if word.key == name)]
    is_thing = name in _THINGS or any(word.article or word.text[0].islower() for word in said)
    return set() if is_thing and name != "user" else {name}


def _kinds(keys: frozenset[str]) -> set[str]:
    """Which sorts of things some words are about: a home, a job."""
    return {kind for key in keys & terms.KINDS.keys() for kind in terms.KINDS[key]}


def _akin_count(one: frozenset[str], other: frozenset[str]) -> int:
    """How many words are a part of another: "hives" of "beehives", "miete" of "mieterhöhung"."""
    ones, others = (sorted(word for word in words if len(word) >= _MIN_PART_CHARS) for words in (one, other))
    ends = {word[:_MIN_PART_CHARS] for word in others} | {word[-_MIN_PART_CHARS:] for word in others}
    likely = (word for word in ones if not ends.isdisjoint((word[:_MIN_PART_CHARS], word[-_MIN_PART_CHARS:])))
    return sum(
        long.startswith(short) or long.endswith(short)
        for word in likely
        for other_word in others
        for short, long in [sorted((word, other_word), key=len)]
    )


def _gaps(pair: Alignment) -> list[tuple[int, int]]:
    """How many words each clause has before, between and behind those that both say; nothing where these are in another order."""
    rows = [
        [item if isinstance(item, Figure) else axis(item)[0] for item in clause.row if item not in terms.STOP]
        for clause in (pair.old, pair.new)
    ]
    same = {*rows[0]} & {*rows[1]}
    if [item for item in rows[0] if item in same] != [item for item in rows[1] if item in same]:
        return []
    sizes: list[list[int]] = []
    for row in rows:
        spots = [-1, *(at for at, item in enumerate(row) if item in same), len(row)]
        sizes.append([end - start - 1 for start, end in pairwise(spots)])
    return list(zip(*sizes, strict=True))


# ── What may both hold ──────────────────────────────────────────────────────────────────


def _may_both_hold(pair: Alignment, found: dict[str, float]) -> bool:
    """Whether both notes can be true: "too"; two things, people, days, or a special case; another subject without a turn of
    things; "off" and "not on"; the same said again; one of several occasions; a sort that is denied ("tea", "no green tea").
    """
    before, after, old, new = pair.old_reading, pair.new_reading, pair.old, pair.new
    is_told = _is_told(found)
    is_occasion = old.keys & terms.OCCASIONS and any(word.article == "a" for word in old.words)
    is_sort = any(
        only and not note.polarity and note.words[-2:-1] == only and note.words[-1].lead == "" and not others
        for note, only, others in ((new, pair.new_only, pair.old_only), (old, pair.old_only, pair.new_only))
    )
    is_turned = old.polarity != new.polarity
    is_other = found["other subject"] or old.owned != new.owned
    is_other_figure = found["figure"] and not (found["same start"] or is_told)
    return bool(
        "added" in after.flags
        or _are_two(pair, found)
        or _is_one_more(pair, found)
        or _is_special(found)
        or (before.keys <= after.keys and is_other_figure)
        or (is_other and not is_told)
        or (pair.flips and (found["other subject"] or (is_turned and old.keys == new.keys)))
        or (len(after.clauses) == 1 and old.keys == new.keys and not (pair.apart or found["denial"]))
        or (found["other date"] and ("again" in new.row or is_occasion))
        or (is_turned and is_sort)
    )


def _is_told(found: dict[str, float]) -> bool:
    """Whether the later note tells that something changed, as the earlier one does not."""
    return found["turn"] > found["old turned"] or found["hint"] > found["old is new"]


def is_special_case(pair: Alignment) -> bool:
    """Whether the later note begins with when or for whom it holds, and tells no turn: "for uploads, retries are …"."""
    before, after = pair.old_reading, pair.new_reading
    is_limited = _is_circumstance(after.clauses[0], before.keys) and not _is_circumstance(before.clauses[0])
    return is_limited and "turn" not in after.flags


def _is_one_more(pair: Alignment, found: dict[str, float]) -> bool:
    """Whether somebody may have, do or need both: "supports PDF", "supports EPUB"; not "is red", "is in Rome", "prefers tea"."""
    is_else = any(found[name] for name in EVIDENCE if name != "slot") or found["instruction"]
    leads = {side[0].lead for side in (pair.old_only, pair.new_only) if side}
    is_only = terms.RELATIONS.get(pair.relation, "many") != "many" or leads & (terms.PLACING | {"be"})
    return bool(found["slot"]) and not (is_else or is_only)


def _is_special(found: dict[str, float]) -> bool:
    """Whether the later note is about another time or a special case: "on Sundays", "guide dogs", "at breakfast"."""
    is_told = _is_told(found)
    is_limited = found["a sort of it"] or found["circumstance last"]
    is_again = found["other date"] and (found["other thing"] or found["new is an event"])
    return bool(
        (found["circumstance"] and not found["turn"])
        or (not is_told and ((found["denial"] and is_limited) or is_again))
    )


def _is_sort(pair: Alignment) -> bool:
    """Whether what the later note puts first may limit the word behind it: "guide dogs"; not "the test shows Milo is …"."""
    word = next((word for word in pair.new.words if word.key in pair.shared), None)
    return word is not None and not (word.article or word.text[0].isupper())


def _is_circumstance(clause: Clause, known: frozenset[str] = frozenset()) -> bool:
    """Whether a clause begins with when or for whom it holds, of which nothing is known: "on Sundays", "for guests"."""
    first = next((item for item in clause.row if item not in terms.ARTICLES), "")
    if isinstance(first, Figure):
        return first.kind == "weekdays" or (first.kind == "weekday" and not clause.words)
    is_known = bool(clause.words) and clause.words[0].key in known
    return not (is_known or "cause" in clause.flags) and (
        first in _CIRCUMSTANCES or clause.joint in _CONDITIONS
    )


def _is_limited(words: tuple[Word, ...]) -> bool:
    return any(word.lead in _CIRCUMSTANCES and word.text not in _EVERYBODY for word in words)


def _are_two(pair: Alignment, found: dict[str, float]) -> bool:
    """Whether the notes are about two people or things: Ana and Ben, Mr and Mrs Lind, room 5 and room 9, the red bike and the
    blue one, Tom from sales and Tom from support.
    """
    old, new = pair.old, pair.new
    numbers = pair.old_reading.numbered, pair.new_reading.numbered
    is_told = _is_told(found)
    is_changed = is_told or bool(found["result"])
    are_values = all(_are_values(clause, is_changed=is_changed) for clause in (old, new))
    return bool(
        (found["other subject"] and _is_named(old) and _is_named(new))
        or (all(numbers) and numbers[0].isdisjoint(numbers[1]) and not are_values)
        or (found["other date"] and (len(pair.apart) > 1 or found["slot"]) and not is_told)
        or (new.owned and not old.owned and _are_owned_apart(old, new))
        or _are_titled_apart(old, new)
        or _are_sorts(old, new, is_changed=is_changed)
    )


def _is_named(clause: Clause) -> bool:
    """Whether a clause seems to be about something with a name: "Ana is …", "Ben no longer …", "Ben's …", "the Rome office"."""
    verb = str(clause.row[1]) if len(clause.row) > 1 else ""
    is_told = clause.owned or verb in _AFTER_NAMES or verb.endswith("s")
    return any(word.text[0].isupper() and (word.article or is_told) for word in clause.words[:1])


def _are_owned_apart(old: Clause, new: Clause) -> bool:
    """Whether one note is about somebody, and the other about what is theirs: Anna, and Anna's brother."""
    return [word.key for word in old.words[:1]] == [word.key for word in new.words[:1]] and any(
        word.key in terms.SEVERAL and word.key not in old.keys for word in new.words[1:2]
    )


def _are_titled_apart(old: Clause, new: Clause) -> bool:
    """Whether two people have one name: Mr Lind and Mrs Lind."""
    titles = [
        {name: title for title, name in pairwise(clause.row) if title in _TITLES} for clause in (old, new)
    ]
    return any(titles[1].get(name, title) != title for name, title in titles[0].items())


def _are_sorts(old: Clause, new: Clause, *, is_changed: bool) -> bool:
    """Whether a word before the first one that both share, or behind it, tells which of several is meant."""
    if not (old.words[1:] and new.words[1:]) or old.row[0] in terms.INSTRUCTING:
        return False
    (one, second), (other, second_other) = old.words[:2], new.words[:2]
    if one.key != other.key:
        is_one_phrase = not (second.lead or second_other.lead)
        return (
            second.key == second_other.key
            and is_one_phrase
            and not (_is_named(old) and _is_named(new))
            and one.key not in new.keys
            and other.key not in old.keys
        )
    lead = _lead_behind(old)
    is_place = is_changed and lead in terms.PLACING
    is_same = second.key in new.keys or second_other.key in old.keys
    return lead != "" and lead == _lead_behind(new) and not (is_place or is_same)


def _lead_behind(clause: Clause) -> str:
    """The preposition right behind the first word that carries content, if there is one."""
    at = clause.row.index(first) + 1 if (first := clause.words[0].text.lower()) in clause.row else -1
    following = clause.row[at] if 0 < at < len(clause.row) else ""
    return following if isinstance(following, str) and following in terms.LEADS else ""


def _are_values(clause: Clause, *, is_changed: bool) -> bool:
    """Whether the numbers behind names tell a version or a new place, and not what the clause is about: "runs on Node 16"."""
    lead = _lead_behind(clause) if clause.words else ""
    is_open = is_changed or clause.row[0] in terms.INSTRUCTING
    for at, word in enumerate(clause.words):
        if word.key[0] == "#":
            name = clause.words[at - 1]
            is_about = (
                at < 1 + 1
                or (word.phrase == 0 and not is_open)
                or (lead and word.phrase == clause.words[1].phrase)
            )
            is_place = is_changed and name.lead in {"in", "to", "at", "on"}
            if is_about or (name.text.lower() in terms.IDENTIFYING and not is_place):
                return False
    return True


def _is_one_of_a_series(pair: Alignment, found: dict[str, float]) -> bool:
    """Whether a number or a code may tell which one of several is meant, and nothing tells of a change: "value 3 of load",
    `draft-3.txt` and `draft-4.txt`, `0xc62` and `0x1f9`.
    """
    is_instruction = pair.old.row[0] == pair.new.row[0] in terms.INSTRUCTING
    if _is_told(found) or found["result"] or is_instruction:
        return False
    old, new = ([word.text for word in side] for side in (pair.old_only, pair.new_only))
    is_coded = old != new and [_DIGITS.sub("", word) for word in old] == [
        _DIGITS.sub("", word) for word in new
    ]
    return is_coded or any(
        one is not None
        and other is not None
        and not (tells_how_many(pair.old, one) and tells_how_many(pair.new, other))
        for one, other in pair.apart
    )


# ── The weights ─────────────────────────────────────────────────────────────────────────
# Of each feature: its weight, and what is added to it with each kind of `EVIDENCE`.
_WEIGHTS: Final = {
    "bias": (4.99, 1.42, 1.06, 0.13, 0.11, 0.18, -0.61),
    "old turned": (-1.18, -0.16, 0.38, -0.28, -0.84, 0.61, 1.08),
    "old is new": (0.16, -0.32, -1.03, -0.25, -0.51, -0.15, 2.14),
    "denied": (0.44, -0.79, -0.35, 0.87, 0.44, -1.42, -0.68),
    "same start": (0.87, -0.86, 0.00, 0.39, -0.14, -0.26, -1.53),
    "other subject": (-0.41, 0.67, 0.04, -0.69, 2.18, -0.93, 2.49),
    "other thing": (-0.26, 0.15, 0.02, 0.87, 0.36, -1.58, -2.03),
    "a sort of it": (-0.75, 0.14, 0.89, -0.62, 1.69, 0.54, -0.28),
    "circumstance": (-1.06, -1.06, -2.98, -0.77, 0.38, -0.82, -0.83),
    "circumstance last": (0.01, -0.41, 1.24, 0.98, -0.35, -1.42, 1.84),
    "instruction": (1.54, 1.17, 0.00, -2.12, 0.00, 0.20, 0.17),
    "other date": (-0.14, -0.88, -0.13, 0.97, -1.30, 0.58, -0.14),
    "new is an event": (-0.22, 0.05, -0.20, -0.08, 0.52, 0.89, 0.35),
    "unsaid": (-2.09, -0.50, -0.59, -0.56, -0.26, 0.82, 0.71),
    "unsaid elsewhere": (-2.13, -0.89, -0.64, -0.78, -0.66, 0.03, -0.88),
    "all said again": (-1.54, -0.83, -1.32, -0.72, 1.33, 2.90, 3.11),
    "new words": (-2.85, -0.01, 0.04, 0.02, 0.15, 0.42, 1.24),
    "new name": (0.36, 0.19, 0.09, 0.29, -0.65, -0.43, -1.22),
    "one clause": (-0.86, 0.27, 0.36, -0.08, -0.74, -0.39, -0.35),
    "conditional": (-0.97, 0.29, 0.28, 0.01, 0.04, -0.56, 0.49),
    "topic": (1.05, 0.70, 0.46, 0.01, 0.86, 0.10, 0.88),
    "definite": (0.49, -0.43, -0.44, -0.17, -0.41, 0.04, -0.16),
    "opposite": (0.19, -1.19, 0.34, -0.67, 0.19, -1.30, -2.94),
    "value": (0.87, -2.34, 0.57, 0.03, -0.92, 0.87, -0.50),
    "same subject": (-0.09, -0.00, 0.13, 0.09, -0.42, 0.22, -0.06),
    "share": (-0.23, 1.82, 0.95, 0.34, 0.56, -0.98, -1.21),
    "kind": (0.17, -0.26, 0.50, 0.74, -0.30, -0.22, -0.11),
    "akin": (0.36, 1.28, 0.48, 2.02, 2.55, -1.39, -0.19),
    "one part": (0.05, 0.16, 0.35, 0.11, -0.16, -0.93, -0.58),
    "said otherwise": (0.61, -0.25, -0.14, -0.15, -0.55, -1.09, -0.64),
    "old is ongoing": (1.37, 0.80, -0.16, 0.29, 0.27, -0.21, -0.17),
    "old is past": (-1.75, -0.02, -0.72, 0.11, -0.29, -0.14, 0.66),
    "new is past": (0.26, 0.39, -0.83, 0.19, 0.34, 0.20, -2.35),
    "new is a plan": (-0.76, 0.04, 0.09, 0.35, 0.45, -0.09, 0.09),
}


def _score(found: dict[str, float]) -> float:
    columns = [0, *(at for at, kind in enumerate(EVIDENCE, 1) if found[kind])]
    return sum(
        value * sum(weights[at] for at in columns)
        for name, weights in _WEIGHTS.items()
        if (value := found.get(name))
    )
