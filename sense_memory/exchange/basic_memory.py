"""basic-memory: a folder of Markdown notes with observations and relations. Pure.

* An observation (`- [category] text #tag (context)`) becomes a memory with its line word for word; category and tags are
  themes, and it is connected with its note.
* What else the note says, word for word, is the memory of the note.
* A relation (`- implements [[Search Design]]`) and any other `[[link]]` is a connection from the memory of the note to the
  other note, which is found by title, permalink, path or file name. Without such a note the name is a theme.
* Type and tags are themes; other properties are a memory beside the note. `created` is the date; from `modified` on the memory fades.

As in basic-memory, lines of tasks (`- [x]`), of times (`[00:12]`), of links and in code or quotes are no observations.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from sense_memory.exchange import front_matter, items, markdown
from sense_memory.exchange.items import Item, ItemKind, ReaderResult, UniquePaths
from sense_memory.limits import MAX_LINKS_COUNT


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sense_memory.exchange.front_matter import FrontMatter
    from sense_memory.exchange.import_files import Source, SourceFiles

_MARKS: Final = (
    b"title:",
    b"type:",
    b"permalink:",
)  # the front matter of every note that basic-memory writes
_KEY_CHARS: Final = 200  # of a key, so that a number fits behind it where two titles begin alike
_KNOWN: Final = {"title", "type", "permalink", "tags", *front_matter.DATES, *front_matter.CHANGED}
_bullet = re.compile(r"[ \t]*[-*+][ \t]+").match
_category = re.compile(r"\[([^\[\]()]+)\][ \t]+(?=\S)").match
_clock = re.compile(r"\d{1,3}:\d{2}(?::\d{2})?(?:[.,]\d{1,3})?(?:\s+-\s+\d{1,3}:\d{2}.*)?").fullmatch
_tag = re.compile(r"(?<!\S)#([^\s#]+)").findall
_tag_or_category = partial(re.compile(r"^\[[^\[\]()]+\]|(?<!\S)#[^\s#]+").sub, "")
_link = re.compile(r"\[\[([^\[\]]+)\]\]").findall
_heading = re.compile(r"(#{1,6})[ \t]+\S").match
_fence = re.compile(r"[ \t]*(`{3,}|~{3,})").match


def is_note(head: bytes) -> bool:
    """Whether a file begins with the front matter of basic-memory.

    Args:
        head: the first bytes of the file.
    """
    lines = head.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    begins = [line for line in lines[1:] if line.startswith(_MARKS)]
    return lines[0].rstrip() == b"---" and {line.partition(b":")[0] + b":" for line in begins} == set(_MARKS)


@dataclass(slots=True)
class _Note:
    """A note: its file, its front matter, its observations, the rest of its text, and its path in the palace."""

    source: Source
    matter: FrontMatter
    observations: list[tuple[int, str]] = field(default_factory=list)
    rest: list[tuple[int, str]] = field(default_factory=list)  # each with its line in the file
    path: str = ""

    @property
    def title(self) -> str:
        found = self.matter.values.get("title")
        return found if isinstance(found, str) and found.strip() else self.source.path.stem

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.rest).strip("\r\n").rstrip()

    @property
    def first(self) -> int:
        """The line of the file on which the rest begins; 0 if there is none."""
        return next((number for number, line in self.rest if line.strip()), 0)


def read(files: SourceFiles) -> ReaderResult:
    """Read the notes of a project of basic-memory."""
    reading = ReaderResult(
        "notes of basic-memory", problems=list(files.problems), left_out=Counter(files.left_out)
    )
    names, notes = UniquePaths(), list[_Note]()
    for source in files.sources:
        matter = markdown.read_note(source, reading)
        if matter is None:
            continue
        note = _split(source, matter)
        domain, facet = markdown.place_of_folder(source)
        note.path = names.assign(f"{domain}/{facet}/{items.name_of(note.title, _KEY_CHARS)}", source.shown)
        notes.append(note)
    index = {name: note.path for note in notes for name in _names(note)}
    for note in notes:
        reading.items += _memories(note, index, names, reading)
    return reading


def _split(source: Source, matter: FrontMatter) -> _Note:
    """Separate the observations of a note from the rest of its text."""
    note, fence, continues = _Note(source, matter), "", False
    emptied = -1  # the last heading below which an observation was, as a place in the rest
    heading = -1
    for number, line in enumerate(matter.body.split("\n"), matter.body_line):
        mark = _fence(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip().startswith(fence):
            fence = ""
        point = None if fence or mark else _bullet(line)
        if point and _is_observation(line[point.end() :].strip()):
            note.observations.append((number, line[point.end() :].strip()))
            emptied = heading
        elif not point and not fence and continues and line[:1] in {" ", "\t"} and line.strip():
            begin, said = note.observations.pop()
            note.observations.append((begin, f"{said}\n{line.strip()}"))
            continue
        else:
            if not fence and (found := _heading(line)):
                _remove_emptied(note, emptied, len(found[1]))
                emptied, heading = -1, len(note.rest)
            note.rest.append((number, line))
        continues = bool(point) and bool(note.observations) and note.observations[-1][0] == number
    _remove_emptied(note, emptied, 0)
    return note


def _remove_emptied(note: _Note, heading: int, next_level: int) -> None:
    """Remove the last heading of the rest if all below it was observations: it would stand there without a text.

    A title stays, and so does a heading with others below it.
    """
    if heading < 0 or any(line.strip() for _, line in note.rest[heading + 1 :]):
        return
    found = _heading(note.rest[heading][1])
    if found and len(found[1]) > 1 and next_level <= len(found[1]):
        del note.rest[heading:]


def _is_observation(text: str) -> bool:
    if re.match(r"\[.*?\]\(.*?\)$|\[\[.*?\]\]", text) or re.match(r"\[[ xX-]\](\s|$)", text):
        return False
    return bool(_category_of(text)) or (bool(_tag(text)) and not _link(text))


def _category_of(text: str) -> str:
    match = _category(text)
    name = match[1].strip() if match else ""
    return "" if _clock(name) or (len(name) == 1 and not name.isalnum()) else name


def _names(note: _Note) -> Iterator[str]:
    """The names under which relations may mention a note."""
    stem = note.source.name.rpartition(".")[0]
    for name in (note.title, note.matter.values.get("permalink"), stem, note.source.path.stem):
        if isinstance(name, str) and name.strip():
            yield name.strip().casefold()


def _target(link: str) -> str:
    """The name in a link, without heading, shown text, extension and scheme."""
    name = link.partition("|")[0].partition("#")[0].strip().removeprefix("memory://")
    return re.sub(r"\.md$", "", name, flags=re.IGNORECASE).casefold()


def _memories(
    note: _Note, index: dict[str, str], names: UniquePaths, reading: ReaderResult
) -> Iterable[Item]:
    values, kind = note.matter.values, note.matter.values.get("type")
    links, loose = _links("\n".join((*note.matter.lines.values(), note.text)), index)
    typed = [kind] if isinstance(kind, str) and kind not in {"", "note"} else []
    common = [*typed, *front_matter.texts(values.get("tags"))]
    dates: dict[str, Any] = front_matter.changed_of(values)
    at = front_matter.date_of(values)
    fields = {
        "themes": items.themes_of([*common, *loose]),
        "connections": tuple(link for link in links if link != note.path)[:MAX_LINKS_COUNT],
        **dates,
    }
    text = note.text or note.title
    shown, line = note.source.shown, note.first or 1
    yield Item(ItemKind.PALACE, note.path, text, shown, line, at, items.document_origin(shown, line), fields)
    place = note.path.rpartition("/")[0]
    for number, said in note.observations:
        category = _category_of(said)
        bare = _tag_or_category(said).strip() or said
        others, names_of_others = _links(said, index)
        wanted = [category] * bool(category) + [*_tag(said), *common, *names_of_others]
        themes = items.themes_of([*wanted, note.title])
        path = names.assign(f"{place}/{items.key_of(bare)}", said, themes)
        if not path:
            reading.left_out["duplicates"] += 1
            continue
        connected = {"connections": tuple(dict.fromkeys((note.path, *others)))[:MAX_LINKS_COUNT]}
        origin = items.document_origin(shown, number)
        yield Item(
            ItemKind.PALACE, path, said, shown, number, at, origin, {"themes": themes, **connected, **dates}
        )
    reading.left_out["permalinks"] += "permalink" in values
    rest = "\n".join(lines for name, lines in note.matter.lines.items() if name not in _KNOWN)
    if path := rest and names.assign(
        f"{place}/{items.name_of(f'{note.title[:_KEY_CHARS]} properties')}", rest
    ):
        origin, beside = items.document_origin(shown, 2), {"connections": (note.path,), **dates}
        yield Item(ItemKind.PALACE, path, rest, shown, 2, at, origin, beside)


def _links(text: str, index: dict[str, str]) -> tuple[list[str], list[str]]:
    """The paths of the notes that a text mentions, and the names of those that are not there."""
    found, loose = dict[str, None](), list[str]()
    for link in _link(re.sub(r"(?s)(`{3,}|~{3,}).*?(?:\1|\Z)|`[^`\n]*`", " ", text)):
        name = _target(link)
        path = index.get(name) or index.get(name.rpartition("/")[2])
        if path:
            found[path] = None
        elif name:
            loose.append(link.partition("|")[0].strip())
    return list(found), loose
