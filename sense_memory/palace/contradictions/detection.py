"""Contradictions between memories of one domain and facet (sense-memory v2, "Contradiction Detection").

A new text ends an old one if it is the old text with one thing changed: a denial, an opposite, a figure, or what
fills one place, where that can have one filler only. So the two clauses in which the texts are nearest are aligned, and
`difference` names the one thing in which they differ. `sureness` then asks whether all else is the same, word for word. Where
it is not, `suspicion` scores the two texts.

What is guaranteed: the same two memories have the same result. A contradiction has a kind, a
reason to read, and a confidence. From `ACT_BOUND` on, the old memory is superseded; below the bound, the contradiction
is a suggestion for introspection.

Why it is safe: a wrong act costs more than a missed one, so every word that is not the same, every further sentence, a plan
and the past keep a difference below the bound.

What it costs: a memory is read in some 0.15 ms. Comparing two costs less than 1 µs where they share nothing, some 30 µs where
they share words. Pure: no model, no clock.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby, pairwise, product
from typing import TYPE_CHECKING, Final

from sense_memory.models import PersonaMemory
from sense_memory.palace.contradictions import vocabulary as terms
from sense_memory.palace.contradictions.claims import Alignment, read, tells_how_many
from sense_memory.palace.contradictions.figures import DATES, Figure
from sense_memory.palace.contradictions.suspicion import is_special_case, suspicion
from sense_memory.palace.contradictions.vocabulary import is_city, stem


if TYPE_CHECKING:
    from collections.abc import Callable

    from sense_memory.palace.contradictions.claims import Clause, Reading, Word
    from sense_memory.palace.contradictions.figures import Item

ACT_BOUND: Final = 0.75
TURN: Final = "turn"  # the kind of what the later text as a whole seems to end
_SURE, _DOUBTFUL = 0.9, 0.5
_REASON_CHARS: Final = 60
_FEELINGS: Final = frozenset({"±like", "±trust", "±good", "±support"})
# Verbs that say how things are. Others tell a deed: who opens something may close it too.
_STATES: Final = frozenset({"±like", "±trust", "±support", "±work", "±pass"})
_REASONS: Final = frozenset({"because", "since"})


@dataclass(frozen=True, slots=True)
class Contradiction:
    """That one memory contradicts another.

    Attributes:
        old: path of the existing memory.
        new: path of the new one.
        kind: `negation`, `antonym`, `sentiment`, `value`, `number`, `date` or `turn`.
        confidence: 0 to 1.
        reason: a fragment to read, such as `lives in: Berlin → Lisbon`; it quotes the memories.
        acts: whether the old memory is superseded; `compare` says so from a confidence of `ACT_BOUND` on.
    """

    old: str
    new: str
    kind: str
    confidence: float
    reason: str = field(repr=False)
    acts: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "confidence", min(1.0, max(0.0, self.confidence)))


@dataclass(frozen=True, slots=True)
class Difference:
    """What two clauses differ in.

    Attributes:
        kind: as a `Contradiction` has it.
        text: a fragment to read, of any length.
        changed: the words and figures that it consists of, as `Clause.row` has them.
        confidence: how surely both cannot be true at once; 0 where they may well.
    """

    kind: str
    text: str
    changed: frozenset[Item] = frozenset()
    confidence: float = _SURE


def compare(old: PersonaMemory, new: PersonaMemory) -> Contradiction | None:
    """Whether a new memory contradicts an existing one.

    Two memories are never compared if they have different domains or facets, or the same key; if one is superseded; if
    they are linked as contradicting or dismissed; or if they are two versions of one concurrent edit.

    Args:
        old: the existing memory.
        new: the new one.

    Returns:
        The contradiction, or None.
    """
    return compare_readings(old, read(old), new, read(new))


def _are_comparable(old: PersonaMemory, new: PersonaMemory) -> bool:
    """Whether two memories may be compared at all; see `compare`."""
    return (
        old.facet == new.facet
        and old.domain == new.domain
        and old.key != new.key
        and not (old.superseded_by or new.superseded_by)
        and not (_is_linked(old, new) or _is_linked(new, old))
    )


def _is_linked(one: PersonaMemory, other: PersonaMemory) -> bool:
    links = one.conflict_of, *one.dismissed, *(one.contradicts or ())
    return any(links) and other.path in links


def compare_readings(
    old: PersonaMemory,
    old_reading: Reading,
    new: PersonaMemory,
    new_reading: Reading,
) -> Contradiction | None:
    """As `compare`, for memories that were read already."""
    if old_reading.keys.isdisjoint(new_reading.keys) or not _are_comparable(old, new):
        return None
    pair = Alignment.of(old_reading, new_reading)
    found = difference(pair)
    sure = sureness(pair, found) or suspicion(pair)
    if not sure or ((pair.apart or pair.flips) and _are_numbered_apart(old_reading, new_reading)):
        return None
    if sure < ACT_BOUND and is_special_case(pair):
        return None
    if found is None:
        return turned(old, new, sure)
    return Contradiction(old.path, new.path, found.kind, sure, _short(found.text), sure >= ACT_BOUND)


def turned(old: PersonaMemory, new: PersonaMemory, confidence: float = _DOUBTFUL) -> Contradiction:
    """The suspicion that a new memory as a whole ends an existing one."""
    reason = f"perhaps no longer true: {_quoted(old.value)}"
    return Contradiction(old.path, new.path, TURN, confidence, reason, acts=False)


def between(old: str, new: str) -> str:
    """How a new text contradicts an old one of the same facet, for examples of the rules; nothing if it does not.

    >>> between("Nora works at Siemens", "Nora works at Bosch")
    'acts: works at: Siemens → Bosch'
    >>> between("Nora likes tea", "Nora likes juice")
    ''
    >>> between("Nora speaks German", "Nora speaks French")
    ''
    """
    where = {"domain": "world", "facet": "facts", "created_at": 1.0}
    first, second = (
        PersonaMemory.model_validate(where | {"key": key, "value": value})
        for key, value in (("note", old), ("new-note", new))
    )
    found = compare(first, second)
    return "" if found is None else f"{'acts' if found.acts else 'suspected'}: {found.reason}"


# ── When a difference is sure ───────────────────────────────────────────────────────────

_GAP: Final = ""  # where a frame has left out what changed
# Said of a claim as a whole, and of when it began: no part of its frame.
_WORDLESS: Final = terms.words("do does did got really per n ne gezogen")
_UNSAID: Final = terms.NEGATORS | terms.ADVERBS | terms.BE | _WORDLESS
_BEFORE_DATE, _BEFORE_NAME = terms.words("on in at to for"), terms.words("mr mrs ms dr") | terms.ARTICLES
_ANY: Final = re.compile(r"\s*(?:an?|many|several|most|few|one|two|three|another)\b", re.IGNORECASE)
_PART: Final = re.compile(
    r".*\b(?:some\w*|half|partly|often|usually|certain|various|lots|can be)\b", re.IGNORECASE
)


def sureness(pair: Alignment, found: Difference | None) -> float:
    """How surely a difference ends the old text: 0 unless all else in the two clauses is the same, and neither tells of the
    past or of a plan; no more than a suspicion where another clause may matter. A reason or a "since …" never matters.

    >>> between("Nora works at Siemens in Munich", "Nora no longer works at Siemens")
    'suspected: now denied: “Nora works at Siemens in Munich”'
    >>> between("Karl smokes", "Karl no longer smokes since May"), between("Karl smokes", "Karl does not smoke because he is ill")
    ('acts: now denied: “Karl smokes”', 'suspected: now denied: “Karl smokes”')
    >>> between("Sessions last two hours", "Sessions of guests last eight hours")
    ''
    """
    if found is None:
        return 0.0
    moods = (pair.old.flags | pair.new.flags) & {"past", "event"}
    moods |= (pair.old_reading.flags | pair.new_reading.flags) & {"plan", "added"}
    if moods or (pair.apart and any(map(_is_which, (pair.old, pair.new)))):
        return 0.0
    inflected = _inflection(pair)
    if _frame(pair.old, found.changed, inflected) != _frame(pair.new, found.changed, inflected):
        return 0.0
    is_all = (
        _is_said_of_it(pair)
        and _are_others_the_same(pair)
        and not _is_written_apart(pair)
        and not _is_named_apart(pair)
    )
    return found.confidence if is_all else min(found.confidence, _DOUBTFUL)


def _frame(clause: Clause, changed: frozenset[Item], inflected: Callable[[str], str] = str) -> list[Item]:
    """The words of a clause in order, in the form by which they are compared, with a gap for what changed."""
    frame: list[Item] = []
    for item in clause.row:
        is_date = isinstance(item, Figure) and item.kind in DATES
        before = _BEFORE_DATE if is_date else _BEFORE_NAME if item in changed else ()
        while frame and frame[-1] in before:
            frame.pop()
        if item in changed:
            frame.append(_GAP)
        elif item not in _UNSAID:
            frame.append(inflected(item) if isinstance(item, str) else item)
    return [item for item, _ in groupby(frame)]


def _is_said_of_it(pair: Alignment) -> bool:
    """Whether what changed is said of one certain thing, and is what the clause says of it: not of one of several, nor a
    mere attribute.

    >>> between("Anna has a big dog", "Anna has a small dog"), between("Some doors are open", "Some doors are closed")
    ('suspected: big → small', 'suspected: open → closed')
    """
    clauses = pair.old, pair.new
    subject = pair.old.words[: 1 + pair.old.owned]
    is_one_of_several = any(word.key in terms.SEVERAL and not word.text.endswith("s") for word in subject)
    is_any = any(_ANY.match(clause.text) for clause in clauses)
    predicates = [{word.key for word in clause.words if word.lead == "be"} | _STATES for clause in clauses]
    is_aside = pair.flips and not all(pair.flips[0][0] in keys for keys in predicates)
    is_part = pair.old.joint in {"who", "which"} or any(_PART.match(clause.text) for clause in clauses)
    return not (is_part or is_one_of_several or (not pair.apart and (is_any or is_aside)))


def _is_which(clause: Clause) -> bool:
    """Whether a figure precedes the first auxiliary, and so tells which thing is meant.

    >>> between("The 5 kg bag is cheap", "The 10 kg bag is cheap")
    ''
    """
    verb = next((at for at, item in enumerate(clause.row) if item in terms.AUXILIARIES), 0)
    return any(isinstance(item, Figure) for item in clause.row[:verb])


def _are_others_the_same(pair: Alignment) -> bool:
    """Whether all other clauses of the old text are said again, and those of the new text were said or give a reason."""
    known, said = ({clause.row for clause in note.clauses} for note in (pair.old_reading, pair.new_reading))
    others = [(one, said, _REASONS) for one in pair.old_reading.clauses if one is not pair.old]
    # "Not because …" may deny the reason only.
    reasons = _REASONS | {"so"} if pair.new.polarity else frozenset({"since", "so"})
    others += [(one, known, reasons) for one in pair.new_reading.clauses if one is not pair.new]
    is_same = all(one.row in rows or one.joint in reasons for one, rows, reasons in others)
    return (
        is_same
        and pair.old_reading.whole
        and pair.new_reading.whole
        and pair.old.joint == pair.new.joint
        and pair.old.row not in said
    )


def _inflection(pair: Alignment) -> Callable[[str], str]:
    """How words are compared: without a last "s" beside another number ("one bike", "two bikes") or a denial ("eats", "does
    not eat"); else as written: Simon is not Simone.
    """
    return _singular if pair.apart or pair.old.polarity != pair.new.polarity else str


@lru_cache(4_096)
def _singular(word: str) -> str:
    if stem(word) == word:  # Mrs, HTTPS, Kay
        return word
    return "have" if word == "has" else re.sub("(?<=ss|sh|ch)es$|(?<!s)s$", "", re.sub("ies$|y$", "i", word))


def _is_written_apart(pair: Alignment) -> bool:
    """Whether words stem alike and name others: Luca and Lucas, my sister and my sisters, the dog and dogs.

    >>> between("Simone sings", "Simon no longer sings"), between("Ben likes the dog", "Ben does not like dogs")
    ('suspected: now denied: “Simone sings”', 'suspected: now denied: “Ben likes the dog”')
    """
    owned = pair.old.words[1 : 1 + pair.old.owned]
    return any(
        one.article or other.article or one in owned or (one.text[0].isupper() and other.text[0].isupper())
        for one, other in product(pair.old.words, pair.new.words)
        if one.key == other.key and one.text.lower() != other.text.lower() and one.key[0] not in "±→"
    )


def _is_named_apart(pair: Alignment) -> bool:
    """Whether only their keys say whom two texts are about: `nora-allergy` and `ben-allergy`."""
    old, new = pair.old_reading, pair.new_reading
    one, other = old.named[:1], new.named[:1]
    is_said = not (old.keys | new.keys | terms.KEY_NOISE).isdisjoint(one + other)
    return one != other and old.named[1:] == new.named[1:] != () and not is_said


def _are_numbered_apart(old: Reading, new: Reading) -> bool:
    """Whether only the numbers in their keys say which things two texts are about: `run-3` and `run-4`, "the loss is 0.3"."""
    numbers = [{word for word in note.named if word.isdigit()} for note in (old, new)]
    names = [[word for word in note.named if not word.isdigit()] for note in (old, new)]
    if not all(numbers) or numbers[0] == numbers[1] or names[0] != names[1]:
        return False
    if any(word in _NOTES and next_one.isdigit() for word, next_one in pairwise(old.named)):
        return False  # `user-fact-12`: the number is of the note
    said = [{*map(stem, _KEY_WORD.findall(note.text.lower()))} for note in (old, new)]
    are_values = any(given & words for given, words in zip(numbers, said, strict=True))  # `age-31`
    return (
        not are_values and bool({*names[0]} - terms.KEY_NOISE) and said[0].union(said[1]).isdisjoint(names[0])
    )


_KEY_WORD: Final = re.compile(r"[^\W_]+")
_NOTES: Final = frozenset(map(stem, ("fact", "memory", "mem", "memo", "note")))


# ── Differences ─────────────────────────────────────────────────────────────────────────


def difference(pair: Alignment) -> Difference | None:
    """The one difference of two clauses, if it can be told.

    >>> between("Telemetry is enabled", "Telemetry is off"), between("Telemetry is off", "Telemetry is not enabled")
    ('acts: enabled → off', '')
    >>> between("House 1 is open", "House 2 is closed"), between("The red house is open", "The blue house is closed")
    ('', '')
    """
    opposed = len(pair.flips) + (pair.old.polarity != pair.new.polarity)
    is_denied_twice = not (pair.old.polarity or pair.new.polarity)  # neither in Rome nor in Oslo
    if opposed + len(pair.apart) > 1 or is_denied_twice or not pair.shared:
        return None
    if opposed:
        return _opposite(pair)
    if pair.apart:
        return _figure(pair)
    return _reversed(pair) or _filler(pair)


def _opposite(pair: Alignment) -> Difference | None:
    """The same clause affirmed and denied: by a negation, or by a word for the opposite."""
    if len(pair.shared) < 2:
        return None
    if pair.flips:
        name, one, other = pair.flips[0]
        kind = "sentiment" if name in _FEELINGS else "antonym"
        sure = _SURE if name != "±good" else _DOUBTFUL  # what is useful may be ugly
        return Difference(kind, f"{one} → {other}", frozenset({one, other}), sure)
    said, when = (pair.new_reading.text, "was") if pair.new.polarity else (pair.old_reading.text, "now")
    return Difference("negation", f"{when} denied: {_quoted(said)}")


def _figure(pair: Alignment) -> Difference | None:
    """The same clause with another figure.

    >>> between("The cache TTL is 10 minutes", "The cache TTL is 1 hour")
    'acts: 10 minutes → 1 hour'
    >>> between("The VoxRelay deadline is March 3", "The VoxRelay deadline is 17 March")
    'acts: march 3 → 17 march'
    >>> between("I have a dentist appointment on 4 May", "I have a dentist appointment on 9 May")
    ''
    >>> between("The inspector comes on 4 May", "The inspector comes again on 9 May")
    ''
    >>> between("The load is 3", "The load is 4"), between("Value number 3 of load", "Value number 4 of load")
    ('acts: 3 → 4', '')
    >>> between("Ana has 3 cats", "Ana has 4 cats"), between("Motor 3 from the shop hums", "Motor 4 from the shop hums")
    ('acts: 3 → 4', '')
    """
    one, other = pair.apart[0]
    if one is None or other is None or one.kind != other.kind:
        return None
    text, changed = f"{one.text} → {other.text}", frozenset({one, other})
    if one.kind not in DATES:
        is_bound = _BOUND.search(f"{pair.old.text} {pair.new.text}")
        if not (tells_how_many(pair.old, one) and tells_how_many(pair.new, other)):
            return Difference("number", text, changed, 0.0)
        return Difference("number", text, changed, _DOUBTFUL if is_bound else _SURE)
    said = {key.lstrip("±→") for key in pair.shared}
    is_occasion = not said.isdisjoint(terms.OCCASIONS)
    is_any = any(word.article == "a" for word in pair.old.words)
    is_known = not is_any and (not is_occasion or (pair.old.definite and pair.new.definite))
    is_once = "now" in pair.new_reading.flags or (not is_occasion and not said.isdisjoint(terms.SCHEDULED))
    is_only = len(pair.old.figures) == 1 and "again" not in pair.new.row
    sure = _DOUBTFUL if one.kind == "weekdays" else _SURE
    return Difference("date", text, changed, sure * (is_once and is_known and is_only))


_BOUND: Final = re.compile(
    r"\b(?:at least|(?:more|less|fewer) than|over|under|above|below|mindestens|über|unter|au moins|al menos|m[aá]i?s de)\b"
    r"|[<>≤≥]|\d\+",
    re.IGNORECASE,
)


def _reversed(pair: Alignment) -> Difference | None:
    """`A over B` against `B over A`.

    >>> between("We chose Orpheus over Kokoro", "We chose Kokoro over Orpheus")
    'acts: We chose Orpheus over Kokoro → We chose Kokoro over Orpheus'
    """
    leads = terms.OVER_PREFERRED if pair.relation == "prefers" else terms.OVER
    if leads.isdisjoint(pair.old.text.lower().split()[1:]):
        return None
    old, new = (_frame(clause, frozenset()) for clause in (pair.old, pair.new))
    if old == new or Counter(old) != Counter(new):
        return None
    return Difference("value", f"{pair.old.text} → {pair.new.text}", frozenset(old[1:]))


def _filler(pair: Alignment) -> Difference | None:
    """The same clause with another filler of one phrase.

    >>> between("My favourite colour is blue", "My favourite colour is green")
    'acts: favourite colour: blue → green'
    >>> between("Lisa lives in Rome", "Lisa lives in Trastevere"), between("Lisa lives in Rome", "Lisa lives in Oslo")
    ('suspected: lives in: Rome → Trastevere', 'acts: lives in: Rome → Oslo')
    """
    phrases = [{word.phrase for word in side} for side in (pair.old_only, pair.new_only)]
    if any(len(numbers) != 1 for numbers in phrases):
        return None
    one, other = (
        tuple(word for word in side.words if word.phrase in numbers)
        for side, numbers in zip((pair.old, pair.new), phrases, strict=True)
    )
    named = tuple(
        word for word in pair.old.words if word.key in pair.shared and word.text.lower() not in terms.FIRST
    )
    about = pair.relation.replace("_", " ") or _written(named)
    text = f"{about}: {_written(one)} → {_written(other)}"
    changed = frozenset(word.text.lower() for word in (*pair.old_only, *pair.new_only))
    return Difference("value", text, changed, _exclusive(pair, one, other))


def _written(phrase: tuple[Word, ...]) -> str:
    return " ".join(token.text.removeprefix("#") for token in phrase)


def _exclusive(pair: Alignment, one: tuple[Word, ...], other: tuple[Word, ...]) -> float:
    """How surely a phrase cannot have both fillers at once; 0 where it may well.

    >>> between("Team A lives in Rome", "Team D lives in Oslo"), between("Lisa lives in Vancouver", "Lisa lives in Canada")
    ('', 'suspected: lives in: Vancouver → Canada')
    >>> between("I work at Stripe", "I work at a bank"), between("Agent X is active", "Agent Y is inactive")
    ('', '')
    >>> between("Nora prefers short answers", "Nora prefers honest answers")
    'suspected: prefers: short answers → honest answers'
    """
    words, others = (tuple(stem(word.text.lower()) for word in phrase) for phrase in (one, other))
    is_subject = any(word.key[0] == "→" for word in one + other)  # what differs stands before the relation
    if is_subject or not _differ(words, others):
        return 0.0
    if terms.STATUSES.issuperset(word.text.lower() for word in one + other):
        return _DOUBTFUL
    leads = {one[0].lead, other[0].lead}
    is_alike = (one[0].article == "a") == (other[0].article == "a")  # not one of a sort beside a certain one
    are_names = is_alike and _is_name(one) and _is_name(other)
    values = terms.RELATIONS.get(pair.relation)
    if values != "many" and values and leads <= {"→", "be"}:
        is_one = values == "one" or (values == "place" and is_city(words) and is_city(others))
        is_thing = pair.relation == "works_at" and pair.old.words[0].article  # "the fix works for Chrome"
        return _SURE if are_names and is_one and not is_thing else _DOUBTFUL * is_alike
    return _attribute(pair, leads, are_names=are_names, is_kind=_describes(one) == _describes(other))


def _attribute(pair: Alignment, leads: set[str], *, are_names: bool, is_kind: bool) -> float:
    """How surely it is told what an attribute of somebody is: "her email is …"; not of one of several.

    >>> between("The license is MIT", "The license is Apache"), between("Nora's wife is Karla", "Nora's wife is Austrian")
    ('suspected: license: MIT → Apache', 'suspected: Nora wife: Karla → Austrian')
    """
    heads = {word.phrase: word for word in pair.old.words if word.key in pair.shared}  # its last word
    only = pair.shared & terms.ONLY
    attributes = terms.ATTRIBUTES & {word.key for word in heads.values()} | only
    is_any = any(word.article == "a" for word in pair.old.words if word.key in attributes)
    is_own = are_names or attributes - terms.NAMED
    if not (attributes and is_own and (leads == {"be"} or leads <= terms.PLACING)) or is_any:
        return 0.0
    told = {heads[word.phrase].text for word in pair.old.words if word.key in only}
    is_several = any(head.endswith("s") and stem(head) != head for head in told)  # favourite foods
    is_lasting = leads == {"be"} or attributes - terms.NAMED  # "my wife is in Rome"
    is_owned = len(pair.shared) > 1
    # "job 3.txt", "branch v2": which one is meant, or the value
    is_numbered = any(
        word.phrase in heads and any(sign.isdigit() for sign in word.text) for word in pair.old_only
    )
    is_sure = is_kind and is_owned and is_lasting and not (is_several or is_numbered)
    return _SURE if is_sure else _DOUBTFUL * (is_kind or is_owned)


_DESCRIBING: Final = re.compile(
    r"[a-zß-ÿ]\w{2,}(?:(?<!e)ed|ing|[ai]ble|[ts]ive|ic|ful|less|ous|al)|"
    r"[A-Z]\w+(?:ian|ish|ese)|American|Czech|Dutch|French|German|Greek|Swiss"
)


def _describes(phrase: tuple[Word, ...]) -> bool:
    """Whether a phrase seems to say how a thing is, and does not name it: "protected", "Austrian", "slow"."""
    return phrase[-1].key[0] == "±" or _DESCRIBING.fullmatch(phrase[-1].text) is not None


_NAME_LIKE: Final = re.compile(r"[^\W\d_]*[A-ZÀ-ÞŠŽ\d@/.#+][\w@/.#+-]*")


def _is_name(phrase: tuple[Word, ...]) -> bool:
    """Whether a phrase has capitals, figures or signs, behind an article in all its words."""
    like = [_NAME_LIKE.fullmatch(token.text) is not None for token in phrase]
    return all(like) if phrase[0].article else like[0] or like[-1]


def _differ(old: tuple[str, ...], new: tuple[str, ...]) -> bool:
    """Whether two values differ, and neither says more than the other or is its beginning."""
    if len(old) == len(new) == 1 and (old[0].startswith(new[0]) or new[0].startswith(old[0])):
        return False
    return not (set(old) <= set(new) or set(new) <= set(old))


def _short(text: str, limit: int = 2 * _REASON_CHARS) -> str:
    text = "".join(filter(str.isprintable, " ".join(text[:400].split())))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _quoted(text: str) -> str:
    return f"“{_short(text, _REASON_CHARS)}”"
