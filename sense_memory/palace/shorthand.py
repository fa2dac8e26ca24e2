"""One memory as a piece of the compressed format: the head of its line and what stands behind the colon.

How a head is found. A value that speaks of what its key begins with (`vergel-prefers-vanilla-js`: "Vergel
prefers vanilla JS") is filed under that subject, here `vergel`, if it says all that the rest of the key says;
so the memories of one subject share a line. A value that begins with the end of its key ("Prefers vanilla
JS") is too. Else the head is the whole key (`voxrelay-voice`).

What becomes of the value. Behind a subject, `is`, `is a` and `prefers` go. `X over Y`, `X rather than Y`, `X
instead of Y` become `x>y` where they are choices; a reason goes into parentheses; filler and most articles
go (`palace.phrasing`). Two or three plain words about a subject become one `hyphenated-word`. Everything else
stays word for word: numbers, names, negations, conditions, quotes, code, addresses. Text that is not plainly
English, or already is shorthand, keeps its words; only white space is squeezed.

No value can begin a line or a header of its own: line breaks become `; `, and `[domain:` becomes `(domain:`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sense_memory.palace.phrasing import (
    BOUNDARIES,
    slug,
    with_choices,
    with_reasons,
    without_articles,
    without_filler,
    without_is,
)


if TYPE_CHECKING:
    from sense_memory.models import PersonaMemory


@dataclass(frozen=True, slots=True)
class Piece:
    """A memory in shorthand.

    Attributes:
        head: what the line begins with.
        text: what stands behind the colon; never empty.
    """

    head: str
    text: str


# ── Cleaning ────────────────────────────────────────────────────────────────────────────

_EMPTY: Final = "(empty)"
_BREAKS: Final = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_DROPPED: Final = re.compile(r"[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ufeff]")
_SIGNS: Final = ".,;:!?\u2026\u3001\u3002\uff01\uff1a\uff1b\uff1f"  # behind these a line break is a space
_SURROGATES: Final = re.compile(r"[\ud800-\udfff]")
_FORGED: Final = re.compile(r"[\[\uff3b]([\s\u200b-\u200f\u2060]*domain)", re.IGNORECASE)


def cleaned(text: str) -> str:
    """A text on one line, with nothing in it that could be taken for a header or hide what stands there."""
    text = _DROPPED.sub("", text)
    text = _BREAKS.sub(_joint, text.strip())
    return _FORGED.sub(r"(\1", _SURROGATES.sub("\ufffd", " ".join(text.split())))


def _joint(found: re.Match[str]) -> str:
    """What a line break becomes: a semicolon, unless a sign already ends the line before it."""
    before = found.string[: found.start()][-1:]
    return " " if before in _SIGNS else "; "


def header(domain: str, facet: str) -> str:
    """`[domain:people/facet:facts]`; brackets in names become parentheses."""
    return f"[domain:{_name(domain)}/facet:{_name(facet)}]"


def _name(text: str) -> str:
    return cleaned(text).replace("[", "(").replace("]", ")")


# ── The languages ───────────────────────────────────────────────────────────────────────

_ENGLISH: Final = frozenset(
    "the of and with because from which should would must never without every they their his her has have does "  # noqa: SIM905 - reads best as words
    "not this that are were been is was prefers prefer likes uses use used chose choose we our you your unless "
    "until than instead rather about before after when there for to teaches works lives speaks drinks hates "
    "wants needs owns runs keeps plays reads writes knows drives eats studies manages builds over between only "
    "most more less no cannot don't doesn't isn't it its be by at as if what who how my".split()
)
_FOREIGN: Final = frozenset(
    "de la el los las una der das den dem ein eine nicht mit für ist le les des du que qui est et pour dans não "  # noqa: SIM905 - reads best as words
    "nao uma com para por il lo gli che di con non della och att det som ett het een van niet zijn og på ikke av "
    "ja ei nie się na ile bir bu için çok nem és az egy die und sie wir auf im zu você está mais sur avec en es "
    "un op om te ook naar voor ik je hij zij ze não más pero muy sin sono ma più já ao da dos das no na "
    "mi tu yo ni ou au ce ne pas il elle nous vous".split()
) - {"no"}
_LETTERS: Final = re.compile(r"[^\W\d_]+(?:['\u2019][a-z]+)?")


def is_english(text: str) -> bool:
    """Whether the rules of English may be applied: more than a doubt means no."""
    words = [word.lower() for word in _LETTERS.findall(text)]
    letters = sum(len(word) for word in words)
    strange = sum(character > "\x7f" for word in words for character in word)
    english = sum(word in _ENGLISH for word in words)
    foreign = sum(word in _FOREIGN for word in words)
    return english > foreign * 1.5 and strange * 8 <= letters


# ── The piece ───────────────────────────────────────────────────────────────────────────

_LITERAL: Final = re.compile(
    r"`[^`]{0,500}`|\"[^\"]{0,500}\"|“[^”]{0,500}”|«[^»]{0,500}»|(?<![\w'])'[^']{0,500}'(?!\w)"
    r"|(?<!\S)(?:\S*(?:://|@|[\\{}<=_|~$]|\w\()|--?[A-Za-z])\S*(?<![.,;:!?])"
)
_HIDDEN: Final = re.compile(r"\x1a(\d+)\x1a")


def plain(memory: PersonaMemory) -> Piece:
    """A memory under its key, word for word: the format without shorthand."""
    return Piece(_name(memory.key) or "?", cleaned(memory.value) or _EMPTY)


def shorthand(memory: PersonaMemory) -> Piece:
    """A memory's piece of the compressed format."""
    piece = plain(memory)
    key, value = piece.head, piece.text
    if value == _EMPTY or not is_english(value):
        return piece
    literals: list[str] = []

    def hide(found: re.Match[str]) -> str:
        literals.append(found[0])
        return f"\x1a{len(literals) - 1}\x1a"

    hidden = without_filler(_LITERAL.sub(hide, value))
    head, said = _filed(key, hidden)
    said = _phrased(said, about_subject=head != key or said != hidden, decision=memory.facet == "decisions")
    said = _HIDDEN.sub(lambda found: literals[int(found[1])], said)
    return Piece(head, said or value)


def _phrased(said: str, *, about_subject: bool, decision: bool) -> str:
    said = with_reasons(said)
    if about_subject:
        said = re.sub(r"^[Pp]refers (?!to )", "prefers ", said)
    said = with_choices(said, bare=decision)
    if about_subject:
        said = _unframed(said)
    said = without_articles(without_is(_uncapitalised(said)))
    if said.endswith(".") and not _DOT_STAYS.search(said):
        said = said[:-1]
    return _hyphenated(said) if about_subject else said


_DOT_STAYS: Final = re.compile(r"\.\.$|(?:^|[\s(])(?:[A-Za-z]\.)+$|\b(?:etc|Jr|Sr|Inc|Ltd|Co|approx)\.$")
_FRAME: Final = re.compile(r"^(?:(?:is|are) (?:an? |the )?|[Pp]refers (?!to )|wants (?=no ))(?=\S)")
# Said of a person, `is asked` and `asked` are opposites: the participle keeps its verb.
_PASSIVE: Final = re.compile(
    r"(?:is|are) (?:not )?(?:\w+ly |also |still |now |often )*(?:\w+ed|\w+en|\w*(?:paid|sent|told|held|kept|made|built|left"
    r"|lost|found|taught|brought|bought|hurt|cut|set|put|let|run|won|led|fed|met|read|said|sold|heard|hit|spent"
    r"|thought|caught|stood|drawn|known|shown|worn|born|done|seen|fought|bound|wound|struck|shut|spread))\b"
)
_DETERMINED: Final = re.compile(
    r"^[A-Z][a-z]+ (?=(?:the|an?|every|each|all|any|your|my|our|his|her|its|their|this|that|these|at|in|on|by) )"
)
_MODAL_NAMES: Final = frozenset({"i", "may", "will", "can", "mark", "us", "it"})


def _unframed(said: str) -> str:
    """Without the verb that only joins a subject to what is said of it: `is a`, `prefers`."""
    if _PASSIVE.match(said):
        return said
    shorter = _FRAME.sub("", said)
    if said.lower().startswith("prefers ") and " over " in shorter:
        return said
    if re.match(r"(?:few|little|lot|bit|couple|number|one|only|first|last|same)\b", shorter):
        return said
    return shorter


def _uncapitalised(said: str) -> str:
    """The capital that only begins a sentence goes, where the word surely is no name."""
    first = said.split(" ", 1)[0]
    plain = first.isalpha() and first[1:] == first[1:].lower() and first.lower() not in _MODAL_NAMES
    article = first in {"The", "A", "An"} and said[len(first) + 1 : len(first) + 2].isupper()  # The Hague
    if plain and not article and (first.lower() in BOUNDARIES or _DETERMINED.match(said)):
        return first.lower() + said[len(first) :]
    return said


def _hyphenated(said: str) -> str:
    """Two or three plain words as one; one lone word and all longer texts as they are."""
    words = said.split(" ")
    plain = all(re.fullmatch(r"[A-Za-z]+(?:-[A-Za-z]+)*", word) for word in words)
    function = (
        any(
            word.lower() in BOUNDARIES and not (word == "no" and index == 0)
            for index, word in enumerate(words)
        )
        or "longer" in words
    )
    return slug(said) if 2 <= len(words) <= 3 and plain and not function else said


# ── The head ────────────────────────────────────────────────────────────────────────────

_WORD: Final = re.compile(r"[^\W_]+")
_SUBJECT_VERBS: Final = frozenset(
    "is are was were has had does did will would can cannot could should must may might wants prefers doesn't "  # noqa: SIM905 - reads best as words
    "isn't can't won't hasn't wasn't accepts asks attends avoids becomes begins believes belongs bikes brings buys "
    "calls came chose comes cooks costs counts creates dislikes drinks drives eats enjoys expects feels finds "
    "gave gets gives goes got grows hates helps holds keeps knows learns leaves likes lives loves made maintains "
    "makes manages matters means meets moved moves needs never offers only opened opens owns paints pays picked plays prefers "
    "publishes puts reads receives refuses rejects remains renders rents requires returns runs said says sells "
    "sends serves shows signs sings sleeps speaks starts stays stores studies supports takes teaches thinks "
    "took tracks trains translates travels trusts uses visits walks wants watches wears weighs went works worked "
    "writes wrote".split()
)


_OPENING_ARTICLE: Final = re.compile(
    r"^(?:The|the|An?|an?) (?=[a-z]+(?:['\u2019]s)? )(?!few\b|little\b|lot\b|couple\b|only\b|one\b|more\b)"
)


def _filed(key: str, value: str) -> tuple[str, str]:
    """The head under which a value is filed, and the value without what the head says already."""
    keys = list(_WORD.finditer(key))
    names = [word[0].lower() for word in keys]
    label = re.match(r"([^:\x1a.,;]{1,60}): (?=\S)", value)
    if label and {word[0].lower() for word in _WORD.finditer(label[1])} <= set(names):
        return key, value[label.end() :]
    bare = _OPENING_ARTICLE.sub("", value)
    subject = _subject(names, bare)
    if subject:
        count, end = subject
        rest = bare[end:].lstrip(" ")
        head = key[: keys[count - 1].end()] if _covers(rest, names[count:]) else key
        return head, rest
    for start in range(1, len(names) - 1):
        if _begins_with(value, names[start:]):
            return key[: keys[start - 1].end()], value
    return key, value


def _subject(names: list[str], value: str) -> tuple[int, int] | None:
    """How many words of the key a value begins with as its subject, and where what it says of it begins."""
    words = list(_WORD.finditer(value))
    for count, (name, word) in enumerate(zip(names, words, strict=False), 1):
        gap = value[words[count - 2].end() if count > 1 else 0 : word.start()]
        if word[0].lower() != name or gap not in {"", " ", "-", "_"}:
            break
        following = re.match(r"(?:['\u2019]s)?(?= (\S+))", value[word.end() :])
        if following is None:
            continue
        if following[0] or following[1].lower().rstrip(",") in _SUBJECT_VERBS:
            return count, word.end() + following.end()
    return None


def _covers(text: str, names: list[str]) -> bool:
    """Whether a text says all these words of a key, in whatever form: `no` as `not`, `coauthor` as `co-author`."""
    lower = text.lower()
    words = {word[0] for word in _WORD.finditer(lower)}
    joined = "".join(word[0] for word in _WORD.finditer(lower))
    denied = re.search(r"\b(?:no|not|never|without|cannot)\b|n['\u2019]t\b", lower)
    return all(
        name in words or (len(name) > 3 and name in joined) or (name in {"no", "not", "never"} and denied)
        for name in names
    )


def _begins_with(value: str, names: list[str]) -> bool:
    words = [word[0].lower() for word in _WORD.finditer(value[:200])]
    return len(names) > 1 and words[: len(names)] == names
