"""Notes: what becomes a memory, under which name, with which date, links and themes; and nothing is lost."""

from __future__ import annotations

import pytest

from sense_memory.exchange import ItemKind, read


MEMORY = """\
# MEMORY.md

## User
- **Editor:** Helix, not Vim #tools
- Timezone: Europe/Berlin
- Prefers short answers
  - no lists in chat

  also not in mail
* another mark

## Projects
### Atlas
Atlas is the map service.

Key rules:
- never force-push
- always test

A last word.

- Decision: Postgres

---
<!-- a comment -->
```sh
# no heading
- no point
```
1. first
2. second
"""


@pytest.fixture
def note(tmp_path):
    """Reads one note; gives path and text of each item."""

    def note(text, name="MEMORY.md", format_=""):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read(path, format_)

    return note


def told(reading):
    return {item.path: item.text for item in reading.items}


def test_a_curated_note_becomes_a_memory_for_each_point(note):
    assert told(note(MEMORY)) == {
        "memory/user/editor": "**Editor:** Helix, not Vim #tools",
        "memory/user/timezone": "Timezone: Europe/Berlin",
        "memory/user/prefers-short-answers-no-lists-in": "Prefers short answers\n- no lists in chat\n\nalso not in mail",
        "memory/user/another-mark": "another mark",
        "projects/atlas/atlas": "Atlas is the map service.\n\nKey rules:\n- never force-push\n- always test\n\nA last word.",
        "projects/atlas/decision": "Decision: Postgres",
        "projects/atlas/atlas-2": "```sh\n# no heading\n- no point\n```\n1. first\n2. second",
    }


def test_a_day_before_a_point_or_in_a_heading_is_its_date_and_no_name(note):
    text = """---
created: 2026-01-02
---
- undated
- 2026-11-03: moved to Porto
- [2026-11-04] **Editor:** Helix
- **2026-11-05** \u2014 bought a press
- 2026-11-06
- 2026-13-45: no day
- 2026-11-07 14:30 called Lisa
## 2026-11-10
- likes tea

A paragraph.

## Decisions
### 2026-11-11: the database
- Postgres
- 2026-11-12: Redis
"""
    found = {item.path.partition("/")[2]: item.at for item in note(text).items}
    day = {number: 1_793_707_200.0 + (number - 3) * 86_400 for number in range(3, 13)}
    assert found == {
        "notes/undated": 1_767_355_200.0,
        "notes/moved-to-porto": day[3],
        "notes/editor": day[4],
        "notes/bought-a-press": day[5],
        "notes/2026-11-06": day[6],
        "notes/2026-13-45": 1_767_355_200.0,
        "notes/called-lisa": day[7],
        "notes/likes-tea": day[10],
        "notes/a-paragraph": day[10],
        "the-database/postgres": day[11],
        "the-database/redis": day[12],
    }


def test_every_item_names_its_file_and_line(note):
    reading = note(MEMORY)
    lines = MEMORY.split("\n")

    assert {item.file.rpartition("/")[2] for item in reading.items} == {"MEMORY.md"}
    for item in reading.items:
        first = item.text.split("\n", 1)[0]
        assert first in lines[item.line - 1]
        assert item.origin == f"document:{item.file}#L{item.line}"
    assert dict(reading.left_out) == {"comments": 1}


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("web shop/CLAUDE.md", "web-shop/testing"),
        ("web shop/AGENTS.md", "web-shop/testing"),
        ("USER.md", "people/testing"),
        ("SOUL.md", "self/testing"),
        ("Reading list.md", "reading-list/testing"),
    ],
)
def test_the_file_names_the_domain_and_the_heading_the_facet(note, name, place):
    (item,) = note("# About\n\n## Testing\n- run it\n", name).items

    assert item.path == f"{place}/run-it"


PARENTS = """\
# Payments service

About it.

## Backend
### Style
- Use tabs. #style
- Write tests.
## Frontend
### Style
- Use two spaces.
- Write tests.
## Empty
## People
### Lisa
- likes tea
#### 2026-11-10
- moved
"""


def test_the_headings_above_the_nearest_one_are_themes(note):
    reading = note(PARENTS, "mono/CLAUDE.md")

    assert {item.path: item.fields["themes"] for item in reading.items} == {
        "mono/notes/about-it": ("Payments service",),
        "mono/style/use-tabs-style": ("Payments service", "Backend", "style"),
        "mono/style/write-tests": ("Payments service", "Backend"),
        "mono/style/use-two-spaces": ("Payments service", "Frontend"),
        "mono/style/write-tests-2": ("Payments service", "Frontend"),
        "people/lisa/likes-tea": ("Payments service",),
        "people/lisa/moved": ("Payments service",),
    }
    assert dict(reading.left_out) == {"headings without text": 1}


@pytest.mark.parametrize(
    ("text", "name", "themes"),
    [
        ("# MEMORY.md\n## User\n- x\n", "MEMORY.md", ()),
        ("# Mono\n## User\n- x\n", "mono/CLAUDE.md", ()),
        ("## People\n### Projects\n- x\n## B\n- y\n", "MEMORY.md", ("Projects",)),
        ("# Style\n## Style\n- x\n# B\n- y\n", "MEMORY.md", ()),
        ("# \U0001f9ea\n## User\n### \U0001f680\n- x\n", "MEMORY.md", ("\U0001f9ea", "User", "\U0001f680")),
        (f"# {'long ' * 20}\n## User\n- x\n", "MEMORY.md", (("long " * 13)[:64],)),
        (f"# A\n- y\n# {'long ' * 20}\n- x\n", "MEMORY.md", (("long " * 13)[:64],)),
    ],
)  # fmt: skip
def test_a_heading_that_gave_a_name_is_no_theme_unless_the_name_lost_words(note, text, name, themes):
    reading = note(text, name)

    assert {item.text: item.fields["themes"] for item in reading.items}["x"] == themes
    long = "long" in text
    assert [said.partition(":")[0].rpartition("/")[2] for said in reading.notes] == ["MEMORY.md"] * long
    assert all("long " * 19 in said for said in reading.notes)


def test_themes_that_are_too_many_are_said(note):
    tags = [f"tag{number}" for number in range(70)]
    reading = note(f"---\ntags: [{', '.join(tags)}]\n---\n# Garden\n## Roses\n- prune in March\n- water\n")

    assert all(item.fields["themes"] == ("Garden", *tags[:63]) for item in reading.items)
    assert len(reading.notes) == 1
    assert all(tag in reading.notes[0] for tag in tags[63:])


def test_nested_front_matter_is_kept_as_it_is(note):
    nested = "metadata:\n  short: one"

    assert told(note(f"---\nempty:\n{nested}\n---\n- point\n")) == {
        "memory/notes/point": "point",
        "memory/notes/MEMORY properties": nested,
    }


BETWEEN = "Write short functions.\n\n1. first\n2. second\n\nPorts:\n- web\n- api\n\n| a |\n|---|\n\n```sh\nmake\n```\n\nThe end."


def test_everything_between_two_lists_is_one_memory(note):
    reading = note(f"- before\ngoes on\n\n{BETWEEN}\n- after\n\n1. a\n2. b\n\nAfter.\n\n---\nlast\n")

    assert [item.text for item in reading.items] == [
        "before\ngoes on", BETWEEN, "after", "1. a\n2. b\n\nAfter.", "last"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "encoding"),
    [
        ("- Grüße\r\n".encode("utf-8-sig"), ""),
        ("- Grüße\r\n".encode("utf-16"), "UTF-16"),
        ("- Grüße\n".encode("utf-16-le"), "UTF-16-LE"),
        ("- Grüße\n".encode("utf-16-be"), "UTF-16-BE"),
        ("- Grüße\n".encode("cp1252"), "Windows-1252"),
        ("- Grüße\n".encode("utf-32"), "UTF-32"),
    ],
)
def test_any_encoding_is_read_and_said(note, raw, encoding):
    reading = note(raw)

    assert [item.text for item in reading.items] == ["Grüße"]
    assert [said.rpartition(" ")[2] for said in reading.notes] == [encoding] * bool(encoding)


@pytest.mark.parametrize(
    "raw", [b"\x00\x01\x02\xff" * 9, b"\xff\xfe\x00", b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"]
)
def test_what_is_no_text_is_said(note, raw):
    reading = note(raw)

    assert (reading.items, len(reading.problems)) == ([], 1)


@pytest.mark.parametrize(
    "text", ["", "\n \n", "---\n", "# only a heading\n", "#\n##\n", "***\n---\n___\n", "- \n-\n", "```\n"]
)
def test_a_note_without_a_text_has_no_memory(note, text):
    assert [item.text for item in note(text).items] in ([], ["```"], ["- \n-"])


def test_a_daily_note_becomes_journal_entries_of_its_day(note):
    text = "---\ntags: [x]\n---\n# 2026-11-20\nslept well\n\n## 09:30 Standup\n- shipped\n\n## Evening\nread\n\n## Empty\n"
    reading = note(text, "2026-11-20-work.md")

    noon = 1_795_176_000.0
    assert [(item.kind, item.text, item.at) for item in reading.items] == [
        (ItemKind.JOURNAL, "slept well", noon),
        (ItemKind.JOURNAL, "## 09:30 Standup\n- shipped", noon - 2.5 * 3_600 + 0.001),
        (ItemKind.JOURNAL, "## Evening\nread", noon + 0.002),
    ]
    assert reading.left_out["headings without text"] == 1


VAULT = {
    ".obsidian/app.json": "{}",
    "Inbox.md": "see [[Lisa]] and [[Nobody|that]] and [site](https://x.example/a.md)\n",
    "People/Lisa Example.md": "---\naliases: [Lisa]\ntags:\n  - friend\n  - 'tea lover'\ncreated: 2024-03-01\n"
    "birthday: 1990-01-01\n---\n\nLikes tea. #green/tea `#code` [[Atlas#Plan|the plan]]\n",
    "Projects/Web/Old/Atlas.md": "![[Lisa Example]] [up](../../../Inbox.md) #42\n\n```\n[[Inbox]] #no\n```\n",
    "Projects/Web/2026-01-05.md": "wrote the plan",
    "2025-12-31 Ideas/x.md": "---\nnot: closed\n\nstill text",
    "pic.png": "x",
    "sub/CLAUDE.md": "## Rules\n- test first\n",
    "Empty.md": "",
    "Games/Catan.md": "---\ncategories:\n  - '[[Board games]]'\nmaker:\nrating: 7\nupdated: 2026-02-01\n"
    'players:\n  - "[[Lisa]]"\ncreated: 2026-01-01\n---\n',
    "Games/None.md": "---\nmaker:\n---\n",
}


@pytest.fixture
def vault(tmp_path):
    for name, text in VAULT.items():
        path = tmp_path / "vault" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "vault"


def test_a_link_to_a_file_elsewhere_is_not_read_and_one_within_is(vault):
    (vault.parent / "secret.md").write_text("password")
    (vault / "leak.md").symlink_to("../secret.md")
    (vault / "again.md").symlink_to("Inbox.md")
    reading = read(vault)

    assert "password" not in {item.text for item in reading.items}
    assert "notes/notes/again" in told(reading)
    assert [(each.file, each.reason) for each in reading.problems if "leak" in each.file] == [
        ("vault/leak.md", "a link to a file elsewhere")
    ]


def test_a_folder_of_notes_becomes_a_memory_for_each(vault):
    (vault / "circle").symlink_to(vault)
    (vault / "gone.md").symlink_to("nowhere")
    reading = read(vault)

    found = {item.path: item for item in reading.items if item.kind is ItemKind.PALACE}
    assert set(found) == {
        "notes/notes/Inbox",
        "people/notes/Lisa Example",
        "people/notes/Lisa Example properties",
        "projects/web-old/Atlas",
        "2025-12-31-ideas/notes/x",
        "sub/rules/test-first",
        "games/notes/Catan",
    }
    catan = found["games/notes/Catan"]
    assert catan.text == 'rating: 7\nplayers:\n  - "[[Lisa]]"'
    assert catan.fields == {
        "themes": ("Board games",),
        "connections": ("people/notes/Lisa Example",),
        **dict.fromkeys(("last_accessed", "last_reinforced", "written_at"), catan.at + 31 * 86_400),
    }
    lisa, atlas, inbox = (
        found[path] for path in ("people/notes/Lisa Example", "projects/web-old/Atlas", "notes/notes/Inbox")
    )
    assert lisa.text == "Likes tea. #green/tea `#code` [[Atlas#Plan|the plan]]"
    assert lisa.fields == {
        "themes": ("friend", "tea lover", "green/tea"),
        "connections": ("projects/web-old/Atlas",),
    }
    assert (lisa.at, lisa.line, lisa.origin) == (
        1_709_294_400.0,
        10,
        "document:vault/People/Lisa%20Example.md#L10",
    )
    assert atlas.fields["connections"] == ("people/notes/Lisa Example", "notes/notes/Inbox")
    assert inbox.fields == {"themes": ("Nobody",), "connections": ("people/notes/Lisa Example",)}
    assert found["people/notes/Lisa Example properties"].text == "aliases: [Lisa]\nbirthday: 1990-01-01"
    assert found["2025-12-31-ideas/notes/x"].text == "---\nnot: closed\n\nstill text"
    assert [item.text for item in reading.items if item.kind is ItemKind.JOURNAL] == ["wrote the plan"]
    assert {problem.file for problem in reading.problems} == {"vault/circle", "vault/gone.md"}
    assert dict(reading.left_out) == {"hidden files and folders": 1, ".png files": 1, "empty notes": 2}


def test_folders_without_end_are_an_error_and_no_crash(tmp_path):
    (tmp_path / "top.md").write_text("top")
    tmp_path.joinpath(*"d" * 120).mkdir(parents=True)
    reading = read(tmp_path)

    assert [item.text for item in reading.items] == ["top"]
    assert [problem.reason for problem in reading.problems] == [
        "has folders more than 100 deep; they were left out"
    ]


def test_an_openclaw_workspace_is_recognised(tmp_path):
    for name in ("MEMORY.md", "HEARTBEAT.md", "memory/2026-11-20.md", "memory/projects/shop.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("## Rules\n- one\n- two\n")
    reading = read(tmp_path)

    assert reading.format == "an OpenClaw workspace"
    assert {item.path for item in reading.items} == {
        "",
        "memory/rules/one",
        "memory/rules/two",
        "shop/rules/one",
        "shop/rules/two",
    }
    assert dict(reading.left_out) == {"instructions for a harness": 1}


def test_an_export_of_mempalace(tmp_path):
    room = (
        "# my wing / auth\n\n## drawer_1\n\n> We chose Clerk.\n> ## not a drawer\n> \n> > quoted\n\n"
        "| Field | Value |\n|-------|-------|\n| Source | /chats/2026.txt |\n| Filed | 2026-01-15T10:30:00 |\n"
        "| Added by | miner |\n\n---\n\n## drawer_2\n\n>  \n\n| Field | Value |\n---\n\n"
    )
    (tmp_path / "my wing").mkdir()
    (tmp_path / "my wing" / "auth.md").write_text(room)
    (tmp_path / "index.md").write_text("# Palace Export — 2026-02-01\n\n| Wing |\n")
    reading = read(tmp_path)

    (item,) = reading.items
    assert (item.path, item.text) == ("my-wing/auth/drawer_1", "We chose Clerk.\n## not a drawer\n\n> quoted")
    assert (item.at, item.origin) == (1_768_473_000.0, "tool:mempalace/drawer_1")
    assert item.fields["themes"] == ("2026.txt",)
    assert [(problem.line, problem.reason) for problem in reading.problems] == [(18, "the drawer is empty")]


@pytest.mark.parametrize(
    "text",
    [
        "# " + " " * 100_000 + "x",
        "a:\n" + "- b\n" * 30_000,
        "x\n" * 60_000,
        "<!--\n" * 20_000,
        "[[" * 50_000,
        "[" * 50_000 + "](",
        "`" * 100_001,
        "#" * 100_000,
        "- " * 50_000,
        "- same\n" * 30_000,
        "---\n" + "a: b\n" * 20_000,
        "**" + "a" * 100_000,
        "word " * 300_000,
    ],
    ids=lambda text: f"{text[:6]!r}",
)
def test_a_note_of_a_hostile_shape_takes_no_longer(note, text):
    """Each of these takes minutes where a line is compared with all others, and is read in a moment."""
    reading = note(text, "x.md")

    assert reading.problems == []


def test_several_notes_can_be_read_as_points(tmp_path):
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text("- one\n- two\n")
    reading = read(tmp_path, "notes")

    assert {item.path for item in reading.items} == {
        "a/notes/one",
        "a/notes/two",
        "b/notes/one",
        "b/notes/two",
    }
