"""basic-memory: notes as its tool `write_note` writes them."""

from __future__ import annotations

import pytest

from sense_memory.exchange import read


BREWING = """\
---
title: Coffee Brewing Methods
type: guide
permalink: coffee/coffee-brewing-methods
tags:
- coffee
created: 2026-05-01T10:00:00+00:00
modified: 2026-06-01T10:00:00+00:00
status: draft
---

# Coffee Brewing Methods

Notes on [[Espresso]] and pour over.

## Observations
- [method] Pour over gives more clarity #brewing (tested)
- [temperature] 94 degrees suits light roasts
  and 90 dark ones
- 12 minutes is too long #time
- [ ] buy filters
- [x] buy beans
- [00:12] somebody coughs
> - [quote] not said here
```
- [code] not an observation
```

## Relations
- relates_to [[Coffee Bean Origins]] (see map)
- requires [[coffee/water-quality|water]]
"""
ORIGINS = """\
---
title: Coffee Bean Origins
type: note
permalink: coffee/coffee-bean-origins
---

# Coffee Bean Origins
- [origin] Ethiopia, says [[Coffee Brewing Methods]]
"""
WATER = "---\ntitle: Water\ntype: note\npermalink: coffee/water-quality\n---\n\nSoft water is best.\n"


@pytest.fixture
def project(tmp_path):
    """The folder of a project with three notes."""
    folder = tmp_path / "main" / "coffee"
    folder.mkdir(parents=True)
    for name, text in (
        ("Coffee Brewing Methods", BREWING),
        ("Coffee Bean Origins", ORIGINS),
        ("Water", WATER),
    ):
        (folder / f"{name}.md").write_text(text)
    return folder.parent


def test_each_observation_is_a_memory_and_the_rest_of_a_note_another(project):
    found = read(project)
    texts = {item.path: item.text for item in found.items if "Brewing" in item.file}

    assert (found.format, found.problems) == ("notes of basic-memory", [])
    assert texts["coffee/notes/pour-over-gives-more-clarity-tested"] == (
        "[method] Pour over gives more clarity #brewing (tested)"
    )
    assert texts["coffee/notes/94-degrees-suits-light-roasts-and"] == (
        "[temperature] 94 degrees suits light roasts\nand 90 dark ones"
    )
    assert texts["coffee/notes/12-minutes-is-too-long"] == "12 minutes is too long #time"
    assert texts["coffee/notes/Coffee Brewing Methods properties"] == "status: draft"
    assert len(texts) == 5
    rest = texts["coffee/notes/Coffee Brewing Methods"]
    for line in (
        "- [ ] buy filters",
        "- [00:12] somebody coughs",
        "> - [quote]",
        "- [code]",
        "- relates_to [[",
    ):
        assert line in rest
    assert found.left_out == {"permalinks": 3}


def test_a_heading_of_which_only_observations_were_is_not_left_behind(project):
    note = project / "coffee" / "Tea.md"
    body = "# Tea\n\n## Observations\n- [kind] Green #tea\n\n## Facts\n- [kind] Black\n### More\nText.\n\n## Plan\n\n## Last\n- [kind] Red\n"
    note.write_text(f"---\ntitle: Tea\ntype: note\npermalink: coffee/tea\n---\n\n{body}")
    (text,) = [item.text for item in read(project).items if item.path == "coffee/notes/Tea"]

    assert text == "# Tea\n\n## Facts\n### More\nText.\n\n## Plan"


def test_no_line_of_a_note_is_lost(project):
    found = read(project)
    kept = "\n".join(item.text for item in found.items)

    body = BREWING.partition("status: draft\n---\n")[2].splitlines()
    for line in filter(str.strip, body):
        assert line.removeprefix("- ").strip() in kept


def test_relations_and_links_are_connections_by_title_or_permalink(project):
    items = {item.path: item for item in read(project).items}

    note = items["coffee/notes/Coffee Brewing Methods"]
    assert note.fields["connections"] == ("coffee/notes/Coffee Bean Origins", "coffee/notes/Water")
    assert note.fields["themes"] == ("guide", "coffee", "Espresso")
    observation = items["coffee/notes/ethiopia-says-coffee-brewing-methods"]
    assert observation.fields["connections"] == (
        "coffee/notes/Coffee Bean Origins",
        "coffee/notes/Coffee Brewing Methods",
    )
    assert observation.fields["themes"] == ("origin", "Coffee Bean Origins")


def test_dates_and_lines_are_kept(project):
    item = next(item for item in read(project).items if item.text.startswith("[method]"))

    assert item.at == 1_777_629_600.0
    assert item.fields["last_accessed"] == 1_780_308_000.0
    assert item.origin == "document:main/coffee/Coffee%20Brewing%20Methods.md#L17"
    assert BREWING.split("\n")[item.line - 1] == f"- {item.text}"


async def test_a_second_import_changes_nothing_and_an_edited_observation_is_known_again(
    project, open_store, bring, fates
):
    async with open_store() as store:
        assert fates(await bring(store, project)) == {"new": 8}
        assert fates(await bring(store, project)) == {"known": 8}
        path = project / "coffee" / "Coffee Brewing Methods.md"
        path.write_text(BREWING.replace("more clarity", "far more clarity"))
        assert fates(await bring(store, project)) == {"known": 7, "changed": 1}


def test_a_single_note_is_recognised_and_a_plain_note_is_not(project, tmp_path):
    assert read(project / "coffee" / "Water.md").format == "notes of basic-memory"
    plain = tmp_path / "Plain.md"
    plain.write_text("---\ntitle: Plain\npermalink: plain\n---\n- [a] b\n")
    assert read(plain).format == "a note"
