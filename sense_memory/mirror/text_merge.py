"""Merging of a file that was changed on two machines: by sections, from the last version that both knew.

Guaranteed: every section that one side added or changed is in the result, word for word; what one side deleted and the
other left alone is gone; where both sides changed the same section, both texts stand there, and a sentence in the language
of the file says so. There are no conflict markers, because a harness would read them as text or fail at them. With the
sides exchanged the result has the same sections. Pure.

The cost grows with the number of sections between the first and the last that differ, and with the square of how often one
of these is repeated, up to a bound; a file whose edits lie far apart between thousands of equal lines may then have more in
both texts than was changed in both.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Final

from sense_memory.mirror.sections import SectionKind, TextSection, is_markdown, sections_of, suffix_of


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NOTE: Final = (
    "Changed on two machines at once: one version stands above this sentence, the other below it. "
    "Keep what holds, and delete this sentence."
)
FIELD_NOTE: Final = "changed on two machines at once; the other version of the field above:"
_BOM: Final = "\ufeff"
_COMMENTS: Final = {  # how a line of a format becomes a comment
    **dict.fromkeys(("yaml", "yml", "toml", "py", "sh", "rb", "conf", "cfg", "ini", "properties"), "# {}"),
    **dict.fromkeys(("js", "ts", "jsx", "tsx", "jsonc", "json5", "go", "rs", "c", "h", "java"), "// {}"),
    **dict.fromkeys(("html", "xml", "svg"), "<!-- {} -->"),
    **dict.fromkeys(("org", "rst", "adoc", "tex"), "{}"),
}
_MAX_PAIRS_COUNT: Final = 1_000_000  # of equal sections in two texts that are compared, some 0.3 s
_WHOLE: Final = frozenset({"json", "ipynb", "csv", "tsv"})  # formats that both texts of a line would break
_marker = re.compile(r"\s*([-*+]|\d{1,9}[.)])\s+").match


@dataclass(frozen=True, slots=True)
class MergedText:
    """The result of a merge.

    Attributes:
        text: the merged text.
        conflicts: how many sections both sides had changed, each of which now stands there in both texts.
    """

    text: str
    conflicts: int = 0


def merged(base: str, ours: str, theirs: str, name: str) -> MergedText | None:
    """Merge two texts of a file; None for a format that cannot hold both texts of a section.

    Args:
        base: the last version that both sides knew; empty if there is none.
        ours: one side; where both texts of a section stand there, this one comes first.
        theirs: the other side.
        name: of the file, whose suffix says the format.
    """
    for side, other in ((ours, theirs), (theirs, ours)):
        if other in {base, side}:
            return MergedText(side)
    if suffix_of(name) in _WHOLE:
        return None
    bare = [text.removeprefix(_BOM) for text in (base, ours, theirs)]
    marks = [text.startswith(_BOM) for text in (base, ours, theirs)]
    before, one, two = (sections_of(text, name) for text in bare)
    halves = zip(_halves(before or _shared(one, two)), _halves(one), _halves(two), strict=True)
    merges = [_Merge(*half, name, _line_end(bare[1])) for half in halves]
    text = _with_ends("".join(merge.text() for merge in merges), *bare)
    return MergedText((_BOM if _kept(*marks) else "") + text, sum(merge.conflicts for merge in merges))


def _halves(sections: Sequence[TextSection]) -> tuple[list[TextSection], list[TextSection]]:
    """The front matter, and the rest."""
    is_field = [section.kind is SectionKind.FIELD for section in sections]
    count = sum(is_field)
    return list(sections[:count]), list(sections[count:])


def _shared(one: Sequence[TextSection], two: Sequence[TextSection]) -> list[TextSection]:
    """The sections that two texts share: what stands for the version that both knew where there is none."""
    return [one[place] for place in sorted(_spelled(one, two))]


def _kept(base: bool, ours: bool, theirs: bool) -> bool:
    """A property of the merged text: that of the side that changed it."""
    return theirs if ours == base else ours


def _line_end(text: str) -> str:
    return "\r\n" if 2 * text.count("\r\n") > text.count("\n") else "\n"


def _with_ends(text: str, base: str, ours: str, theirs: str) -> str:
    """A text with the line ends and the final line end of the side that changed them."""
    sides = base or ours, ours, theirs
    if not text:
        return text
    if all(side.count("\r\n") in {0, side.count("\n")} for side in sides):
        ends = [_line_end(side) == "\r\n" for side in sides]
        text = text.replace("\r\n", "\n").replace("\n", "\r\n" if _kept(*ends) else "\n")
    is_ended = _kept(*(side.endswith("\n") for side in sides))
    if is_ended and not text.endswith("\n"):
        return text + _line_end(text or ours)
    return text if is_ended else text.removesuffix("\n").removesuffix("\r")


# ── Edits ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Edit:
    """One change of a side: the sections of the base from `start` to `end` became others."""

    start: int
    end: int
    sections: Sequence[TextSection]
    is_ours: bool

    def meets(self, start: int, end: int) -> bool:
        """Whether the change touches a range of the base, or both insert at the same place."""
        return max(self.start, start) < min(self.end, end) or self.start == self.end == start == end


def _matches(before: Sequence[TextSection], after: Sequence[TextSection]) -> list[tuple[int, int, int]]:
    """The runs of sections that two texts have in common, in order: where each begins in either, and how long it is."""
    first = _common(before, after)
    last = _common(before[first:][::-1], after[first:][::-1])
    one = [section.words for section in before[first : len(before) - last]]
    two = [section.words for section in after[first : len(after) - last]]
    counts = Counter(two)
    # Above this, sections that are repeated often only count beside others: otherwise some files would take minutes.
    is_much = sum(counts[words] for words in one) > _MAX_PAIRS_COUNT
    inner = SequenceMatcher(None, one, two, autojunk=is_much).get_matching_blocks()
    found = [(start + first, low + first, count) for start, low, count in inner if count]
    return [(0, 0, first), *found, (len(before) - last, len(after) - last, last)]


def _edits(before: Sequence[TextSection], after: Sequence[TextSection], *, is_ours: bool) -> list[_Edit]:
    found: list[_Edit] = []
    start = low = 0
    for end, high, count in _matches(before, after):
        if (start, low) != (end, high):
            found.append(_Edit(start, end, after[low:high], is_ours))
        start, low = end + count, high + count
    return found


def _spelled(before: Sequence[TextSection], after: Sequence[TextSection]) -> dict[int, TextSection]:
    """By place in the base, the unchanged sections as one side has them, which may differ in blank lines."""
    matches = _matches(before, after)
    return {start + step: after[low + step] for start, low, count in matches for step in range(count)}


# ── The merge ───────────────────────────────────────────────────────────────────────────


class _Merge:
    """A merge of sections.

    Attributes:
        conflicts: how many sections both sides had changed.
    """

    def __init__(
        self,
        before: Sequence[TextSection],
        ours: Sequence[TextSection],
        theirs: Sequence[TextSection],
        name: str,
        line_end: str,
    ) -> None:
        self._before, self._name, self._line_end = before, name, line_end
        self._ours, self._theirs = _spelled(before, ours), _spelled(before, theirs)
        edits = _edits(before, ours, is_ours=True) + _edits(before, theirs, is_ours=False)
        self._edits = sorted(edits, key=lambda edit: (edit.start, edit.end, not edit.is_ours))
        self.conflicts = 0

    def text(self) -> str:
        """The merged text."""
        parts: list[Sequence[TextSection]] = []
        place = 0
        for group in self._groups():
            start, end = min(edit.start for edit in group), max(edit.end for edit in group)
            parts += (self._unchanged(place, start), *self._of_group(group))
            place = max(place, end)
        parts.append(self._unchanged(place, len(self._before)))
        return self._joined(parts)

    def _groups(self) -> Iterator[list[_Edit]]:
        """The changes in their order, those that meet together."""
        group: list[_Edit] = []
        start = end = -1
        for edit in self._edits:
            if group and edit.meets(start, end):
                group.append(edit)
                end = max(end, edit.end)
                continue
            if group:
                yield group
            group, start, end = [edit], edit.start, edit.end
        if group:
            yield group

    def _unchanged(self, start: int, end: int) -> list[TextSection]:
        found = []
        for place in range(start, end):
            was = self._before[place]
            ours, theirs = self._ours.get(place, was), self._theirs.get(place, was)
            found.append(theirs if ours.text == was.text else ours)
        return found

    def _of_group(self, group: Sequence[_Edit]) -> list[Sequence[TextSection]]:
        """The sections of changes that meet."""
        ours = [section for edit in group if edit.is_ours for section in edit.sections]
        theirs = [section for edit in group if not edit.is_ours for section in edit.sections]
        if not (ours and theirs) and len({edit.is_ours for edit in group}) == 1:
            others = self._theirs if group[0].is_ours else self._ours
            return [self._spaced([*ours, *theirs], group[-1].end - 1, others)]
        first = _common(ours, theirs)
        last = _common(ours[first:][::-1], theirs[first:][::-1])
        one, two = ours[first : len(ours) - last], theirs[first : len(theirs) - last]
        inserted = all(edit.start == edit.end for edit in group)
        middle = self._both(one, two, are_new=inserted)
        return [ours[:first], *middle, ours[len(ours) - last :]]

    def _spaced(
        self, sections: list[TextSection], place: int, others: dict[int, TextSection]
    ) -> list[TextSection]:
        """Sections with the blank lines after them as the other side has them, where that side changed them."""
        if not sections or place not in others:
            return sections
        last, was, other = sections[-1], self._before[place], others[place]
        blank, wanted = _after(was), _after(other)
        if _after(last) == blank != wanted:
            text = last.text[: len(last.text) - len(blank)] + wanted
            sections = [*sections[:-1], replace(last, text=text)]
        return sections

    def _both(
        self, one: Sequence[TextSection], two: Sequence[TextSection], *, are_new: bool
    ) -> list[Sequence[TextSection]]:
        """Two texts for one place; one alone where it has all of the other."""
        if _is_within(one, two):
            return [two]
        if _is_within(two, one):
            return [one]
        known = {section.words for section in one}
        rest = [section for section in two if section.words not in known]
        if one[-1].kind is SectionKind.FIELD:
            return self._fields(one, rest)
        if are_new:
            return [one, rest]
        self.conflicts += 1
        note = self._note(rest[0]) if rest else None
        return [one, rest] if note is None else [one, [note], rest]

    def _fields(self, one: Sequence[TextSection], two: Sequence[TextSection]) -> list[Sequence[TextSection]]:
        """Fields of the front matter, in which a name may stand only once: its other value becomes a comment."""
        names = {_field_name(section) for section in one}
        found: list[Sequence[TextSection]] = [one]
        for section in two:
            if _field_name(section) not in names:
                found.append([section])
                continue
            self.conflicts += 1
            lines = [FIELD_NOTE, *section.words.rstrip("\n").split("\n")]
            text = "".join(f"# {line}{self._line_end}" for line in lines)
            found.append([TextSection(SectionKind.FIELD, text, text.rstrip("\r\n"))])
        return found

    def _note(self, beside: TextSection) -> TextSection | None:
        """The sentence between two texts, in the language of the file; None if the format has no place for one."""
        if not is_markdown(self._name):
            comment = _COMMENTS.get(suffix_of(self._name))
            kind, words = SectionKind.LINE, None if comment is None else comment.format(NOTE)
        elif beside.kind is SectionKind.ITEM and (marker := _marker(beside.text)):
            kind, words = SectionKind.ITEM, f"{marker[0]}*{NOTE}*"
        elif beside.kind is SectionKind.ROW:
            kind, words = SectionKind.ROW, f"| *{NOTE}* |"
        else:
            kind, words = SectionKind.PARAGRAPH, f"*{NOTE}*"
        return None if words is None else TextSection(kind, words + self._line_end, words)

    def _joined(self, parts: Sequence[Sequence[TextSection]]) -> str:
        """The text of some parts; where two parts meet, no line and no paragraph runs into the next."""
        text = ""
        last: TextSection | None = None
        for part in filter(None, parts):
            if last is not None:
                text += self._between(text, last, part[0])
            text += "".join(section.text for section in part)
            last = part[-1]
        return text

    def _between(self, text: str, last: TextSection, following: TextSection) -> str:
        ends = "" if text.endswith("\n") else self._line_end
        is_apart = text.replace("\r", "").endswith("\n\n")
        runs_on = {SectionKind.PARAGRAPH, SectionKind.ROW, SectionKind.ITEM}
        kinds = last.kind, following.kind
        if is_apart or last.kind not in runs_on or following.kind not in runs_on:
            return ends
        if following.kind is SectionKind.PARAGRAPH or (SectionKind.ROW in kinds and len({*kinds}) > 1):
            return ends + self._line_end
        return ends


def _after(section: TextSection) -> str:
    """The line ends at the end of a section."""
    text = section.text
    return text[len(text.rstrip("\r\n")) :]


def _common(one: Sequence[TextSection], two: Sequence[TextSection]) -> int:
    """How many sections two texts have in common at their beginnings."""
    count = 0
    for first, second in zip(one, two, strict=False):
        if first.words != second.words:
            break
        count += 1
    return count


def _is_within(one: Sequence[TextSection], two: Sequence[TextSection]) -> bool:
    """Whether all sections of a text stand in another, in the same order."""
    left = iter(section.words for section in two)
    return all(section.words in left for section in one)


def _field_name(section: TextSection) -> str:
    return section.words.partition(":")[0].strip()
