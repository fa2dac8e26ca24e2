"""The words of all memories: each word has a term, the stem that its forms share.

A text becomes *codes*. A code is a term and the form of its word (`search.tokens.form_of`) in one number, so that a search
can tell "tires" from "tired", although both have the stem "tire".

An unknown word may still be the beginning of a known word, a part of a compound, or a form with another stem; `like`
finds these words in the vocabulary, without reading the memories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sense_memory.search.tokens import asides, chunks, form_of, is_unspaced, kin_of, stemmer, words, words_of


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import TypeAlias

    IsUsed: TypeAlias = Callable[[int], bool]  # whether a term stands in what is searched

COMPOUND_CHARS: Final = 10  # a shorter word is not taken apart as a compound
PART_CHARS: Final = 4  # the shortest part of a compound
RECENT_NAMES_COUNT: Final = 1_000  # whole texts whose terms are cached
MAX_LIKE: Final = 64  # words that one beginning may stand for
FORM_BITS: Final = 2  # of a code: the lowest bits are the form, the others the term
_LINKS: Final = ("", "s", "n", "es", "en", "er", "e")  # what German puts between the parts of a compound


def _always(_: int) -> bool:
    return True


class Vocabulary:
    """Words, and the terms they belong to.

    Args:
        language: of words in Latin letters.
    """

    def __init__(self, language: str = "english") -> None:
        self.language = language
        self._stem = stemmer(language)
        self._words: dict[str, int] = {}  # codes
        self._numbered: dict[str, int] = {}  # terms
        self._loaded = ""  # terms of a dump, split when needed: most queries have only known words
        self._recent_names: dict[str, int] = {}  # codes of whole texts: many memories have the same themes
        self._all = _JoinedWords(1)
        self._long = _JoinedWords(COMPOUND_CHARS)

    @property
    def count(self) -> int:
        """The number of terms, which are numbered from 0."""
        return len(self._terms)

    @property
    def _terms(self) -> dict[str, int]:
        if self._loaded:
            self._numbered = {term: number for number, term in enumerate(_lines(self._loaded))}
            self._loaded = ""
        return self._numbered

    def add(self, text: str) -> tuple[list[int], list[int]]:
        """The codes of a text, in order, and other codes that find the text; adds new words."""
        return self._codes_of(text), [self._code(word) for word in asides(text)]

    def _codes_of(self, text: str) -> list[int]:
        pieces = chunks(text)
        if pieces is None:
            return [self._code(word) for word in words(text)]
        # A known word stays one word wherever it stands alone; other parts are cut one by one.
        known = [*map(self._words.get, pieces), None]
        codes, start = list[int](), 0
        while (end := known.index(None, start)) < len(pieces):
            codes += known[start:end]  # type: ignore[arg-type]
            bare = pieces[end].strip("'.,:")  # which no word begins or ends with
            code = self._words.get(bare)
            codes += [self._code(word) for word in words_of(bare)] if code is None else (code,)
            start = end + 1
        return codes + known[start:-1]  # type: ignore[operator]

    def _code(self, word: str) -> int:
        code = self._words.get(word)
        return self._learn(word) if code is None else code

    def _term(self, word: str) -> int:
        """The term of a known word."""
        return self._words[word] >> FORM_BITS

    def form(self, word: str) -> int:
        """The form of a folded word, known or not."""
        return self._form(word, self._stem(word))

    def _form(self, word: str, stem: str) -> int:
        return form_of(word, stem) if self.language == "english" else 0

    def stems(self, text: str) -> list[str]:
        """The stems of a text's words, in order, known or not; adds no words."""
        return [self._stem(word) for word in words(text)]

    def add_name(self, text: str, longest: int) -> int | None:
        """The code of a text as a whole, added if new; None where the text has no words, or more than `longest`."""
        term = self._recent_names.get(text)
        if term is None:
            stems = self.stems(text)
            if not 0 < len(stems) <= longest:
                return None
            term = self._terms.setdefault(" ".join(stems), len(self._terms)) << FORM_BITS
            if len(self._recent_names) == RECENT_NAMES_COUNT:
                self._recent_names.clear()
            self._recent_names[text] = term
        return term

    def names_in(self, text: str, longest: int) -> set[int]:
        """The terms of whole texts, added with `add_name`, that another text contains."""
        stems = self.stems(text)
        spans = (
            " ".join(stems[at : at + size])
            for size in range(1, min(len(stems), longest) + 1)
            for at in range(len(stems) - size + 1)
        )
        return {term for span in spans if (term := self._terms.get(span)) is not None}

    def find(self, word: str) -> int | None:
        """The term of a folded word; None if no memory has it in any form."""
        code = self._words.get(word)
        return self._terms.get(self._stem(word)) if code is None else code >> FORM_BITS

    def starting(self, beginning: str, is_used: IsUsed = _always) -> set[int]:
        """The terms of the used words with this beginning, at most `MAX_LIKE` words."""
        return {self._term(word) for word in self._all.starting(beginning, self._wanted(is_used))}

    def compounds(self, word: str, is_used: IsUsed = _always) -> set[int]:
        """The used terms of compounds that begin or end with a word, and of the word's own parts if it is a compound."""
        if len(word) < PART_CHARS or not word.isalpha() or is_unspaced(word):
            return set()
        own = self.find(word)
        found = {self._term(other) for other in self._long.edged(word, self._wanted(is_used))}
        if (own is None or not is_used(own)) and len(word) >= COMPOUND_CHARS - 2:
            found |= self._parts(word, is_used)
        return found - {own}

    def kin(self, word: str, is_used: IsUsed = _always) -> set[int]:
        """The used terms of known words that are of one root with a word: of "allergic" for "allergy"."""
        others = kin_of(word) if self.language == "english" else ()
        return {self._term(other) for other in others if self._is_used(other, is_used)} - {self.find(word)}

    def relatives(self, word: str, is_used: IsUsed = _always) -> set[int]:
        """For an unknown word: its used completions, else used words that differ in the last letters only."""
        if len(word) < PART_CHARS or is_unspaced(word):
            return set()
        for cut in range(4):
            beginning = word[: len(word) - cut]
            if len(beginning) < max(PART_CHARS, len(word) // 2 + 1):
                break
            longest = len(word) + (4 if cut else 8)
            like = self._all.starting(beginning, self._wanted(is_used))
            found = {self._term(other) for other in like if len(other) <= longest}
            if found:
                return found
        return set()

    def _wanted(self, is_used: IsUsed) -> Callable[[str], bool]:
        return lambda word: is_used(self._term(word))

    def _parts(self, word: str, is_used: IsUsed) -> set[int]:
        for at in range(len(word) - PART_CHARS, PART_CHARS - 1, -1):
            if not self._is_used(word[at:], is_used):
                continue
            for link in _LINKS:
                head = word[:at].removesuffix(link)
                if word[:at].endswith(link) and self._is_used(head, is_used):
                    return {self._term(head), self._term(word[at:])}
        return set()

    def _is_used(self, word: str, is_used: IsUsed) -> bool:
        return word in self._words and is_used(self._term(word))

    def _learn(self, word: str) -> int:
        stem = self._stem(word)
        code = self._terms.setdefault(stem, len(self._terms)) << FORM_BITS | self._form(word, stem)
        self._words[word] = code
        self._all.add(word)
        self._long.add(word)
        return code

    def dump(self) -> dict[str, object]:
        """Everything as plain values."""
        return {
            "language": self.language,
            "words": "\n".join(self._words),
            "of": list(self._words.values()),
            "terms": self._loaded or "\n".join(self._numbered),
        }

    @classmethod
    def load(cls, dumped: dict[str, object]) -> Vocabulary:
        """A vocabulary from the result of `dump`."""
        self = cls(str(dumped["language"]))
        found, self._loaded = _lines(dumped["words"]), str(dumped["terms"])
        self._words = dict(zip(found, dumped["of"], strict=True))  # type: ignore[call-overload]
        self._all.extend(found)
        self._long.extend(found)
        return self


def _lines(text: object) -> list[str]:
    return str(text).split("\n") if text else []


class _JoinedWords:
    """Many words in one text, so that one call of `str.find` searches all of them."""

    def __init__(self, shortest: int) -> None:
        self._shortest, self._text = shortest, "\n"
        self._new: list[str] = []

    def add(self, word: str) -> None:
        if len(word) >= self._shortest:
            self._new.append(word)

    def extend(self, many: Iterable[str]) -> None:
        self._new += [word for word in many if len(word) >= self._shortest]

    def starting(self, beginning: str, is_wanted: Callable[[str], bool]) -> Iterator[str]:
        """The first wanted words with a beginning."""
        text, at, left = self._whole(), 0, MAX_LIKE
        while left and (at := text.find("\n" + beginning, at)) >= 0:
            end = text.index("\n", at + 1)
            if is_wanted(text[at + 1 : end]):
                left -= 1
                yield text[at + 1 : end]
            at = end

    def edged(self, part: str, is_wanted: Callable[[str], bool]) -> Iterator[str]:
        """The wanted words that begin or end with a part and are longer by another part, among the first that have it."""
        text, at, left = self._whole(), 0, MAX_LIKE
        while left and (at := text.find(part, at)) >= 0:
            begin, end = text.rindex("\n", 0, at) + 1, text.index("\n", at)
            is_edge = at == begin or at + len(part) == end
            if is_wanted(text[begin:end]):
                left -= 1
                if is_edge and end - begin >= len(part) + PART_CHARS:
                    yield text[begin:end]
            at = end

    def _whole(self) -> str:
        if self._new:
            self._text += "\n".join(self._new) + "\n"
            self._new = []
        return self._text
