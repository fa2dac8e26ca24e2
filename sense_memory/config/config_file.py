"""The config files of the data folder: small files that people edit, and that `relays` commands rewrite.

`config.toml` applies to all agents, `agents/NAME.toml` to one. Reading returns plain values, which `settings` checks.
Rewriting replaces one statement and keeps everything else, comments and unknown keys included. The result is parsed and
compared before it replaces the old file, and a file that cannot be rewritten safely is refused.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sense_memory.config.key_file import private_folder, sync_folder
from sense_memory.errors import InvalidSetting


if TYPE_CHECKING:
    from collections.abc import Sequence

NAME: Final = "config.toml"
_HEAD: Final = "# Settings of {}. The environment and the .env file take precedence.\n\n"


def agent_config(agent: str) -> str:
    """The path of an agent's own config file, relative to the data folder."""
    return f"agents/{agent}.toml"


def read_config(home: Path, name: str = NAME) -> dict[str, Any]:
    """The values in a config file of a data folder; empty if there is no file.

    Raises:
        InvalidSetting: the file cannot be read, or is not TOML.
    """
    return _parse(read_text(home / name, name), home / name, name)


def save_value(home: Path, key: str, value: Sequence[str] | str, name: str = NAME) -> None:
    """Set `key = value`, a list or a text, in a config file, atomically and with mode 0600; everything else stays as it is.

    Raises:
        InvalidSetting: the file cannot be rewritten safely; it is unchanged.
        OSError: the folder cannot be written, or the disk is full; the file is unchanged.
    """
    private_folder((home / name).parent)
    path = (home / name).resolve()  # follows a symbolic link, so that the link stays
    whose = "every agent in this folder" if name == NAME else f"the agent {path.stem}"
    text = _with_value(read_text(path, name) or _HEAD.format(whose), path, name, key, value)
    descriptor, temporary = tempfile.mkstemp(prefix=".config-", suffix=".new", dir=path.parent)  # mode 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor, not a path
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        Path(temporary).replace(path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)
        raise
    sync_folder(path.parent)


def read_text(path: Path, origin: str) -> str:
    """The text of a small UTF-8 file; empty if there is no file.

    Raises:
        InvalidSetting: the file cannot be read; the error names `origin`.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except UnicodeDecodeError:
        raise InvalidSetting(str(path), origin, "is not UTF-8 text") from None
    except OSError as error:
        raise InvalidSetting(str(path), origin, f"cannot be read ({error.strerror})") from None


def _parse(text: str, path: Path, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except ValueError as error:
        problem = f"not TOML at {toml_place(error)}; correct it there"
        raise InvalidSetting(str(path), name, problem) from None


def toml_place(error: ValueError) -> str:
    """Where an error of `tomllib` found a fault. Its own words are not told: they may hold names from the file."""
    place = re.search(r"\(at (line \d+, column \d+|end of document)\)$", str(error))
    return ("the " * place[1].startswith("end") + place[1]) if place else "its numbers"


def _with_value(text: str, path: Path, name: str, key: str, value: Sequence[str] | str) -> str:
    wanted = {**_parse(text, path, name), key: value if isinstance(value, str) else list(value)}
    lines = text.splitlines(keepends=True)
    start, end = _statement(lines, key)
    shown = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str):
        listed = "".join(f"  {json.dumps(item, ensure_ascii=False)},\n" for item in value)
        shown = f"[\n{listed}]"
    gap = "\n" if start and not lines[start - 1].endswith("\n") else ""
    new = f"{''.join(lines[:start])}{gap}{key} = {shown}\n{''.join(lines[end:])}"
    if _parses_to(new, wanted):
        return new
    raise InvalidSetting(
        key,
        name,
        f"this setting is written in a form that cannot be rewritten safely; edit {path} by hand",
    )


def _parses_to(text: str, wanted: dict[str, Any]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _statement(lines: list[str], key: str) -> tuple[int, int]:
    """The range of lines that set a key; if none does, the empty range before the first table.

    An unusual file can mislead this text search, so `_with_value` checks the result.
    """
    for start, line in enumerate(lines):
        if line.lstrip().startswith("["):
            return start, start
        if re.match(rf"\s*{key}\s*=", line):
            return start, _end_of_statement(lines, start)
    return len(lines), len(lines)


def _end_of_statement(lines: list[str], start: int) -> int:
    for end in range(start + 1, len(lines)):
        try:
            tomllib.loads("".join(lines[start:end]))
        except tomllib.TOMLDecodeError:
            continue
        return end
    return len(lines)
