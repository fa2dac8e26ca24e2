from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest


FOLDER = Path(__file__).parents[1] / "scripts" / "demo" / "notes"
FILES = sorted(FOLDER.glob("*.md"))


def sections(path):
    """(heading, text) of a file, read the way scripts/demo/README.md describes it."""
    title, *rest = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert re.fullmatch(r"# [A-Z][a-z]+\n\n", title)
    return [(part.partition("\n")[0], part.partition("\n")[2].strip()) for part in rest]


def notes():
    return [pair for path in FILES if path.name != "journal.md" for pair in sections(path)]


def test_there_are_enough_notes_with_unique_keys():
    keys = [key for key, _ in notes()]
    assert 36 <= len(keys) <= 48
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key) for key in keys)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_text_is_short_and_plain(path):
    for heading, text in sections(path):
        lines = text.splitlines()
        assert 1 <= len(lines) <= 4, heading
        assert all(line and not line.startswith(("#", "-", "```")) for line in lines), heading
        assert len(text.encode()) < 1_000, heading


def test_the_journal_is_in_order_of_its_dates():
    days = [date.fromisoformat(heading) for heading, _ in sections(FOLDER / "journal.md")]
    assert len(days) >= 6
    assert days == sorted(set(days))


def test_notes_speak_more_than_one_language():
    text = "".join(text for _, text in notes())
    assert re.search("[ぁ-ん]", text)
    assert "ß" in text or "ä" in text
    assert re.search("[\U0001f300-\U0001faff]", text)
