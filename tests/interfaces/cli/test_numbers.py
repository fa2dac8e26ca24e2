"""Every option that is a number refuses what is none; the cases are generated from the commands themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sense_memory.interfaces.cli import app


PATH = "people/facts/lisa"
GIVEN = {  # the arguments with which a command gets as far as its numbers; for others, those that it requires
    "remember": [PATH, "text"],
    "palace remember": [PATH, "text"],
    "import": ["notes.md", "--plan"],
    "mind blocks append": ["human", "text"],
    "mind log append": ["text"],
}


def numbers():
    """A command and an option for each option that is a number; once for those that many commands share."""

    def walk(command, path=()):
        yield path, command
        for name, child in getattr(command, "commands", {}).items():
            yield from walk(child, (*path, name))

    found = {}
    for path, command in walk(typer.main.get_command(app)):
        for item in command.params:
            kind = getattr(getattr(item, "type_descriptor", None), "annotation", None)
            if kind in (int, float) and item.param_type_name == "option":
                required = [
                    PATH for other in command.params if other.param_type_name == "argument" and other.required
                ]
                words = (*path, *GIVEN.get(" ".join(path), required))
                found.setdefault((item.opts[0], kind, item.min, item.max), (words, item.opts[0]))
    return list(found.values())


NUMBERS = numbers()


@pytest.mark.parametrize("value", ["-2", "nan", "many"])
@pytest.mark.parametrize(
    ("words", "option"), NUMBERS, ids=[f"{' '.join(words)} {option}" for words, option in NUMBERS]
)
def test_a_number_that_is_none_is_refused_by_name(agent, words, option, value):
    Path("notes.md").write_text("# Notes\n\nLisa paints.\n", encoding="utf-8")
    found = CliRunner().invoke(app, [*words, f"{option}={value}"])

    assert isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code in {2, 4}
    told = found.stderr.replace("-", "")
    assert option.replace("-", "") in told or "there is no draft" in told


def test_the_options_that_are_numbers_are_found():
    assert {"--limit", "--wait", "--halflife", "--port", "--turn", "--line", "--seconds"} <= {
        option for _, option in NUMBERS
    }
