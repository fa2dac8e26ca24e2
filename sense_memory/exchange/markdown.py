"""Markdown: curated notes (`MEMORY.md`, `CLAUDE.md`), daily notes and folders of notes (Obsidian). Pure.

* A curated note becomes many memories. Each item of a bulleted list is one memory, with the lines below it. Everything
  between two such lists, headings or rules is one memory: text, numbered lists, tables, code, and a list below a line
  that ends in a colon. The nearest heading names the facet. The file names the domain, unless a heading above is self,
  people, projects, world or skills. The other headings above become themes.
* A daily note (`2026-11-20.md`) becomes journal entries of that day, one for each heading.
* Any other note of a folder becomes one memory: the top folder is its domain, the folders below are its facet, and the
  file name is its key.

If a list item begins with a label (`**Editor:** Helix`), the label is the key; otherwise its first words are. A day at the
beginning of a list item or heading (`## 2026-11-10`, `[2026-11-04] …`) is the date, and is left out of names.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from sense_memory.errors import InvalidInput
from sense_memory.exchange import front_matter, items
from sense_memory.exchange.import_files import MAX_NOTE_BYTES, read_source, text_of
from sense_memory.exchange.items import Item, ItemKind, Problem, ReaderResult, UniquePaths
from sense_memory.limits import MAX_LINKS_COUNT, MAX_NAME_CHARS, MAX_THEMES_COUNT


if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from sense_memory.exchange.front_matter import FrontMatter
    from sense_memory.exchange.import_files import Source, SourceFiles

OPENCLAW: Final = "an OpenClaw workspace"
DOMAINS: Final = frozenset({"self", "people", "projects", "world", "skills"})
NOTES: Final = frozenset({".md", ".markdown", ".mdown", ".mdx", ".txt"})
_CURATED: Final = frozenset(
    {"memory", "claude", "claude.local", "agents", "gemini", "user", "soul", "identity", "tools", "dreams"}
)
_OF_A_PROJECT: Final = frozenset({"claude", "claude.local", "agents", "gemini"})
_PLACES: Final = {"user": "people", "soul": "self", "identity": "self", "tools": "skills"}
_INSTRUCTIONS: Final = frozenset({"heartbeat", "bootstrap", "boot"})  # of OpenClaw: no memories
_TAGS: Final = ("tags", "tag", "keywords", "themes", "categories", "topics")
_NAMES: Final = ("aliases", "alias", "title")
_FACET: Final = "notes"
_COMMENT_LINES: Final = 200  # a longer comment is read as text

_heading = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)").match
_point = re.compile(r" {0,1}[-*+][ \t]+(?=\S)").match
_fence = re.compile(r" {0,3}(`{3,}|~{3,})").match
_rule = re.compile(r" {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$").match
_label = re.compile(
    r"(?:\*\*|__)?([^\s*_`:\[(][^*`:\[(]{0,40}?)(?::(?:\*\*|__)|(?:\*\*|__)?:)(?=\s+\S)"
).match
_tag = re.compile(r"(?<![\w/#&])#([^\W\d_][\w/-]*)").findall
_wiki = re.compile(r"\[\[([^\[\]|#^]+)(?:[#^][^\[\]|]*)?(?:\\?\|[^\[\]]*)?\]\]").findall
_link = re.compile(r"\[[^\[\]]*\]\(<?([^()<>\s]+\.(?:md|markdown))(?:#[^()\s]*)?>?\)", re.IGNORECASE).findall
_day_name = re.compile(r"\d{4}-?\d{2}-?\d{2}(?:[-_ ].*)?").fullmatch
_day_first = re.compile(
    r"(?:\*\*|__)?[\[(]?(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}(?::\d{2})?)?[\])]?:?(?:\*\*|__)?(?:[ \t]*[:\u2013\u2014-])?(?:[ \t]+|$)"
).match
_clock = re.compile(r"(?<!\d)([01]?\d|2[0-3])[:.]([0-5]\d)(?!\d)").search


# ── Parts of a note ─────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class MarkdownSection:
    """A heading and the lines below it, up to the next heading.

    Attributes:
        titles: the titles of the headings above and of this heading, by level.
        heading: the line of the heading, word for word; empty before the first heading.
        line: the number of the first line below the heading.
        lines: the lines below the heading.
    """

    titles: tuple[str, ...]
    heading: str
    line: int
    lines: list[str] = field(default_factory=list)


def sections(text: str, first_line: int = 1) -> list[MarkdownSection]:
    """The sections of a note; a heading inside a code block is text."""
    found = [MarkdownSection((), "", first_line)]
    levels: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate(text.split("\n"), first_line):
        fence = _fence_after(fence, line)
        match = None if fence else _heading(line.rstrip("\r"))
        if match is None:
            found[-1].lines.append(line)
            continue
        levels = [level for level in levels if level[0] < len(match[1])]
        levels.append((len(match[1]), _title_in(line[match.end() :])))
        found.append(MarkdownSection(tuple(title for _, title in levels), line.rstrip("\r"), number + 1))
    return found


def _title_in(rest: str) -> str:
    """The title of a heading, without closing number signs."""
    title = rest.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1] in " \t" else title


def _fence_after(fence: str, line: str) -> str:
    """The opening fence of the code block that is open after a line; empty if none is open."""
    match = _fence(line)
    if not fence:
        return match[1] if match else ""
    closes = match is not None and match[1][0] == fence[0] and len(match[1]) >= len(fence)
    return "" if closes and not line.strip().strip(fence[0]) else fence


@dataclass(slots=True)
class MarkdownBlock:
    """The lines that become one memory.

    Attributes:
        line: the number of the first line.
        is_point: whether the block is an item of a list.
        lines: the unchanged lines.
        introduces: whether the next list belongs to this block, because its text ends in a colon.
    """

    line: int
    is_point: bool
    lines: list[str] = field(default_factory=list)
    introduces: bool = False

    def add(self, number: int, line: str) -> None:
        """Append a line."""
        self.line = self.line if self.lines else number
        self.lines.append(line)
        if line.strip() and not line.startswith((" ", "\t")) and _point(line) is None:
            self.introduces = not self.is_point and line.rstrip().rstrip("*_").endswith(":")

    @property
    def text(self) -> str:
        """The text, without the bullet of the list item and without surrounding blank lines."""
        lines = list(self.lines)
        if self.is_point:
            mark = _point(lines[0])
            width = len(mark[0]) if mark else 0
            lines = [lines[0][width:], *(_dedented(line, width) for line in lines[1:])]
        return "\n".join(lines).strip("\r\n").rstrip()


def _dedented(line: str, width: int) -> str:
    blank = len(line) - len(line.lstrip(" "))
    return line[min(blank, width) :]


def blocks(section: MarkdownSection, left_out: Counter[str]) -> list[MarkdownBlock]:
    """The blocks of a section; HTML comments are left out and counted."""
    found: list[MarkdownBlock] = []
    fence, is_after_blank, comment_end = "", False, 0
    for number, line in enumerate(section.lines, section.line):
        if not fence and number >= comment_end and line.lstrip().startswith("<!--"):
            size = _comment(section.lines[number - section.line :])
            left_out["comments"] += size > 0
            comment_end = number + size
        if number < comment_end:
            continue
        was_code = bool(fence)
        fence = _fence_after(fence, line)
        current = found[-1] if found else None
        is_point = not was_code and _point(line) is not None and not _rule(line.rstrip())
        if not was_code and _rule(line.rstrip("\r")):
            current = None
            if found:
                found.append(MarkdownBlock(number, is_point=False))
        else:
            is_new = current is None or (current.is_point and is_after_blank and _is_outside(line, was_code))
            if is_new or (is_point and not (current and current.introduces)):
                found.append(current := MarkdownBlock(number, is_point))
            if current is not None:
                current.add(number, line)
        is_after_blank = not line.strip()
    return [_trimmed(block) for block in found if any(line.strip() for line in block.lines)]


def _comment(lines: Sequence[str]) -> int:
    """The number of lines of the comment that begins here; 0 if it does not end, or text follows on its last line."""
    for size, line in enumerate(lines[:_COMMENT_LINES], 1):
        _, end, rest = line.partition("-->")
        if end:
            return 0 if rest.strip() else size
    return 0


def _is_outside(line: str, was_code: bool) -> bool:
    """Whether a line after a blank line is no part of the list item above."""
    return not was_code and bool(line.strip()) and not line.startswith((" ", "\t"))


def _trimmed(block: MarkdownBlock) -> MarkdownBlock:
    while block.lines and not block.lines[0].strip():
        del block.lines[0]
        block.line += 1
    return block


# ── Curated notes ───────────────────────────────────────────────────────────────────────


def is_curated(source: Source) -> bool:
    """Whether a note, by its name, has many memories, such as `MEMORY.md` and `CLAUDE.md`."""
    return _stem(source) in _CURATED


def is_daily(source: Source) -> bool:
    """Whether a note is named after a day."""
    return _day_name(source.path.stem) is not None and items.day_in(source.path.stem) is not None


def _stem(source: Source) -> str:
    return source.path.stem.casefold()


def curated(source: Source, note: FrontMatter, domain: str = "") -> ReaderResult:
    """The memories of a curated note."""
    reading = ReaderResult("a note")
    names, place = UniquePaths(), domain or _domain_of(source)
    at, tags = front_matter.date_of(note.values), items.themes_of(_tags(note.values))
    found = sections(note.body, note.body_line)
    title = _title(found)
    with_text, unfit = set[tuple[str, ...]](), dict.fromkeys(items.unfit_themes(_tags(note.values)))
    for section in found:
        days, above = _undated(section.titles)
        _, titles = _undated(name for name in section.titles if name != title)
        home, facet = _place(titles, place)
        headings = _unnamed(above, {home, facet, *_names_of(source)})
        for block in blocks(section, reading.left_out):
            with_text |= {section.titles[:size] for size in range(1, len(section.titles) + 1)}
            text = block.text
            own_days, (undated,) = _undated([text], otherwise=text)
            then = next(iter((*own_days, *days[::-1])), at)
            label = _label(undated) if block.is_point else None
            named = titles[-1] if titles and not block.is_point and not own_days else ""
            key = items.slug(label[1] if label else named) if label or named else items.key_of(undated)
            wanted = (*headings, *tags, *_tag(_prose(text)), *_wiki(_prose(text)))
            themes = items.themes_of(wanted)
            unfit |= dict.fromkeys(items.unfit_themes(wanted))
            path = names.assign(f"{home}/{facet}/{key}", text, themes)
            if not path:
                reading.left_out["duplicates"] += 1
                continue
            origin = items.document_origin(source.shown, block.line)
            reading.items.append(
                Item(ItemKind.PALACE, path, text, source.shown, block.line, then, origin, {"themes": themes})
            )
    bare = (section for section in found if section.heading and section.titles not in with_text)
    reading.left_out["headings without text"] += sum(bool(section.titles[-1]) for section in bare)
    if unfit:
        limits = f"a theme has at most {MAX_NAME_CHARS} characters, and a memory {MAX_THEMES_COUNT} themes"
        reading.notes.append(f"{source.shown}: {limits}; cut or left out: {'; '.join(unfit)}")
    rest = _properties(source, note)
    if path := rest and names.assign(_properties_path(source, f"{place}/{_FACET}"), rest):
        reading.items.append(_properties_item(source, note, path, {}))
    return reading


def _undated(texts: Iterable[str], otherwise: str = "") -> tuple[list[float], list[str]]:
    """The days with which texts begin, and the texts without these days.

    A text that is only a day is left out, or replaced by `otherwise`.
    """
    days, rest = list[float](), list[str]()
    for text in texts:
        match = _day_first(text)
        day = items.time_of(match[1]) if match else None
        if match is None or day is None:
            rest.append(text)
        else:
            days.append(day)
            rest += filter(None, [text[match.end() :].strip() or otherwise])
    return days, rest


def _title(found: Sequence[MarkdownSection]) -> str:
    """The title of the whole note: its only heading of the first level, if there are headings below it; or empty."""
    tops = [section.titles[0] for section in found if len(section.titles) == 1]
    is_only = len(set(tops)) == 1 and any(len(section.titles) > 1 for section in found)
    return tops[0] if is_only else ""


def _place(titles: Sequence[str], domain: str) -> tuple[str, str]:
    slugs = [items.place_of(title) for title in titles]
    named = [name for name in slugs if name in DOMAINS]
    home = named[0] if named else domain
    last = slugs[-1] if slugs else _FACET
    return home, "facts" if last in DOMAINS else last


def _unnamed(titles: Iterable[str], names: Container[str]) -> list[str]:
    """The headings that none of the names holds with all its words; they become themes."""
    return [
        title
        for title in titles
        if not any(map(str.isalnum, title)) or items.slug(title, len(title)) not in names
    ]


def _names_of(source: Source) -> tuple[str, str]:
    """The name of a note with and without its extension, as its title may repeat it."""
    return items.slug(source.path.name, len(source.name)), items.slug(source.path.stem, len(source.name))


def _domain_of(source: Source) -> str:
    stem = _stem(source)
    if stem in _OF_A_PROJECT:
        folder = source.shown.rpartition("/")[0].rpartition("/")[2]
        return items.place_of(folder or stem)
    return _PLACES.get(stem) or items.place_of(source.path.stem)


def _properties(source: Source, note: FrontMatter) -> str:
    """The lines of front matter that no field of a memory represents; they become a text."""
    known = {*front_matter.DATES, *front_matter.CHANGED, *_TAGS, "cssclass", "cssclasses", "publish"}
    known |= {"title"} if note.values.get("title") == source.path.stem else set()
    told = {name for name, lines in note.lines.items() if note.values[name] or lines.count("\n")}
    return "\n".join(note.lines[name] for name in note.lines if name in told - known)


def _properties_item(source: Source, note: FrontMatter, path: str, fields: Mapping[str, Any]) -> Item:
    origin = items.document_origin(source.shown, 2)
    return Item(
        ItemKind.PALACE,
        path,
        _properties(source, note),
        source.shown,
        2,
        front_matter.date_of(note.values),
        origin,
        fields,
    )


def _properties_path(source: Source, place: str) -> str:
    return f"{place}/{items.name_of(f'{source.path.stem} properties')}"


def _tags(values: Mapping[str, Any]) -> list[str]:
    named = (front_matter.texts(values[name]) for name in _TAGS if name in values)
    return [name for tags in named for tag in tags for name in (_wiki(tag) or [tag.lstrip("#")])]


def _prose(text: str) -> str:
    """A text without its code, because `#` and `[[` have another meaning in code."""
    return re.sub(r"(?s)(`{3,}|~{3,}).*?(?:\1|\Z)|`[^`\n]*`", " ", text)


# ── Daily notes ─────────────────────────────────────────────────────────────────────────


def daily(source: Source, note: FrontMatter) -> ReaderResult:
    """Read a daily note: one journal entry for each heading, at the time in the heading, or at noon.

    If the file name has no day, the entries have no date.
    """
    reading = ReaderResult("a daily note")
    day = items.day_in(source.path.stem)
    count = 0
    if note.lines:
        reading.left_out["front matter of daily notes"] += 1
    for section in sections(note.body, note.body_line):
        body = "\n".join(section.lines).strip("\r\n").rstrip()
        if not body.strip():
            if section.heading and not _day_name(section.titles[-1]):
                reading.left_out["headings without text"] += 1
            continue
        clock = _clock(section.titles[-1]) if section.titles else None
        at = None if day is None else day + count * 0.001
        if clock and at is not None:
            at += (int(clock[1]) - 12) * 3_600 + int(clock[2]) * 60
        is_day = bool(section.titles) and _day_name(section.titles[-1]) is not None
        text = body if is_day or not section.heading else f"{section.heading}\n{body}"
        for part in items.parts_of(text):
            reading.items.append(Item(ItemKind.JOURNAL, "", part, source.shown, section.line, at))
            count += 1
    return reading


# ── Folders ─────────────────────────────────────────────────────────────────────────────


def folder(files: SourceFiles, format_: str) -> ReaderResult:
    """Read the notes of a folder: curated and daily notes are recognised by name, any other note is one memory."""
    reading = ReaderResult(format_, problems=list(files.problems), left_out=Counter(files.left_out))
    names = UniquePaths()
    pages: list[tuple[Source, FrontMatter, str]] = []
    for source in files.sources:
        note = read_note(source, reading)
        if note is None:
            continue
        if _stem(source) in _INSTRUCTIONS:
            reading.left_out["instructions for a harness"] += 1
        elif is_daily(source):
            reading.add(daily(source, note))
        elif is_curated(source) or (format_ == OPENCLAW and source.path.parts[0] == "memory"):
            reading.add(_named_apart(curated(source, note), names))
        elif not _text(note) and not _properties(source, note):
            reading.left_out["empty notes"] += 1
        else:
            domain, facet = place_of_folder(source)
            path = f"{domain}/{facet}/{items.name_of(source.path.stem)}"
            pages.append((source, note, names.assign(path, source.shown)))
    index = _Index(pages)
    for source, note, path in pages:
        reading.items += _page(source, note, path, index, names)
    return reading


def _named_apart(reading: ReaderResult, names: UniquePaths) -> ReaderResult:
    """The reading of another note, with paths that no other note of the folder has."""
    found = [
        (item, names.assign(item.path, item.text, item.fields.get("themes", ()))) for item in reading.items
    ]
    reading.left_out["duplicates"] += sum(not path for _, path in found)
    reading.items = [replace(item, path=path) for item, path in found if path]
    reading.left_out += Counter[str]()
    return reading


def read_note(source: Source, reading: ReaderResult) -> FrontMatter | None:
    """The front matter and text of a note; None if it is left out or cannot be read, which is recorded in `reading`."""
    suffix = source.path.suffix.lower()
    if suffix not in NOTES:
        reading.left_out[f"{suffix} files" if suffix else "files without an extension"] += 1
        return None
    try:
        if source.size > MAX_NOTE_BYTES:
            raise InvalidInput(f"split this note; it has more than {MAX_NOTE_BYTES:,} bytes")
        text, encoding = text_of(read_source(source))
    except InvalidInput as error:
        reading.problems.append(Problem(source.shown, 0, str(error)))
        return None
    if encoding:
        reading.notes.append(f"{source.shown} was read as {encoding}")
    if not text.strip():
        reading.left_out["empty notes"] += 1
        return None
    return front_matter.split(text)


def note(files: SourceFiles, *, as_daily: bool | None = None) -> ReaderResult:
    """Read single notes: a note whose name is a day is a daily note, any other note is curated.

    Args:
        files: one note or several.
        as_daily: whether all notes are daily notes, or none; None lets their names decide.
    """
    reading = ReaderResult("a note", problems=list(files.problems), left_out=Counter(files.left_out))
    names = UniquePaths()
    for source in files.sources:
        named = replace(source, name=f"{source.name}.md") if files.is_single else source
        found = read_note(source if source.path.suffix.lower() in NOTES else named, reading)
        if found is None:
            continue
        is_of_day = is_daily(source) if as_daily is None else as_daily
        reading.add(daily(source, found) if is_of_day else _named_apart(curated(source, found), names))
        reading.format = "a daily note" if is_of_day else "a note"
    if not files.is_single:
        reading.format = "notes"
    return reading


def place_of_folder(source: Source) -> tuple[str, str]:
    """Domain and facet of a note: its top folder, and the folders below that."""
    folders = [items.place_of(name) for name in source.path.parts[:-1]]
    if not folders:
        return _FACET, _FACET
    return folders[0], items.place_of("-".join(folders[1:])) if len(folders) > 1 else _FACET


class _Index:
    """Finds the memory of a linked page by the page's path, name or alias."""

    def __init__(self, pages: Iterable[tuple[Source, FrontMatter, str]]) -> None:
        self._paths: dict[str, str] = {}
        for source, note, path in pages:
            stem = source.name.rpartition(".")[0]
            aliases = [name for what in _NAMES if what in note.values for name in _all(note.values[what])]
            for name in (stem, source.path.stem, *aliases):
                self._paths.setdefault(name.strip().casefold(), path)

    def find(self, name: str, source: Source) -> str:
        """The path of the memory of the page that `source` links to as `name`; empty if there is no such page."""
        bare = re.sub(r"\.(?:md|markdown)$", "", unquote(name).strip(), flags=re.IGNORECASE).casefold()
        beside = f"{source.name.rpartition('/')[0]}/{bare}".lstrip("/").casefold()
        for wanted in (bare, _flat(beside), bare.rpartition("/")[2]):
            if wanted in self._paths:
                return self._paths[wanted]
        return ""


def _all(value: object) -> list[str]:
    return [value] if isinstance(value, str) else front_matter.texts(value)


def _flat(path: str) -> str:
    """A path without `.` and `..`."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)


def _page(source: Source, note: FrontMatter, path: str, index: _Index, names: UniquePaths) -> list[Item]:
    """The memory of a page, and a second memory of its properties; a page without text has only the second."""
    text, rest, prose = _text(note), _properties(source, note), _prose(note.body)
    links, loose = dict[str, None](), list[str]()
    for name in (*_wiki("\n".join(note.lines.values())), *_wiki(prose), *_link(prose)):
        target = index.find(name, source)
        if target and target != path:
            links[target] = None
        elif not target and "://" not in name:
            loose.append(name.rpartition("/")[2])
    themes = items.themes_of((*_tags(note.values), *_tag(prose), *loose))
    fields = {
        "themes": themes,
        "connections": tuple(links)[:MAX_LINKS_COUNT],
        **front_matter.changed_of(note.values),
    }
    if not text:
        return [_properties_item(source, note, path, fields)]
    at = front_matter.date_of(note.values)
    at = items.day_in(source.path.stem) if at is None else at
    line = note.body_line + note.body[: len(note.body) - len(note.body.lstrip("\r\n"))].count("\n")
    origin = items.document_origin(source.shown, line)
    page = Item(ItemKind.PALACE, path, text, source.shown, line, at, origin, fields)
    beside = names.assign(_properties_path(source, path.rpartition("/")[0]), rest) if rest else ""
    return [page, _properties_item(source, note, beside, {"connections": (path,)})] if beside else [page]


def _text(note: FrontMatter) -> str:
    return note.body.strip("\r\n").rstrip()
