"""Who says what: a setting's value from an argument, the environment or a `.env`, and which of them it was.

The first that says something decides. Reads nothing itself. A value that looks like a key is refused
wherever it stands, because it would end up in paths and messages; no message repeats it.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sense_memory.config.config_file import NAME as CONFIG
from sense_memory.errors import InvalidInput, InvalidSetting
from sense_memory.nostr.verdict import printable
from sense_memory.search.embedders.choice import Choice


if TYPE_CHECKING:
    from collections.abc import Mapping

ARGUMENT: Final = "argument"
ENVIRONMENT: Final = "environment"
ENV_FILE: Final = ".env"
DEFAULT: Final = "default"
RANK: Final = {ARGUMENT: 0, ENVIRONMENT: 1, ENV_FILE: 2, CONFIG: 3, DEFAULT: 4}  # the lowest decides

_VARIABLES: Final = {
    "home": "SENSE_MEMORY_HOME",
    "agent": "SENSE_MEMORY_AGENT",
    "key_file": "SENSE_MEMORY_KEY_FILE",
    "relays": "SENSE_MEMORY_RELAYS",
    "plan": "SENSE_MEMORY_PLAN",
    "embedder": "SENSE_MEMORY_EMBEDDER",
    "share_embeddings": "SENSE_MEMORY_SHARE_EMBEDDINGS",
}

_SWITCH: Final = {"yes": True, "true": True, "on": True, "1": True} | dict.fromkeys(
    ("no", "false", "off", "0"), False
)
_MAX_SHOWN_CHARS: Final = 100  # of a value that cannot be used

# Of a URL what stands before its `@`, its query and its fragment; and what begins like a key.
_hide = re.compile(r"(?<=//).*(?=@)|(?<=@)(?!https?://).+(?=@)|(?<=[?#]).+|\bsk-\S+", re.DOTALL).sub
_like_a_key = re.compile(r"(?i:n(?:crypt)?sec1[02-9ac-hj-np-z]{20})|^\s*[0-9A-Fa-f]{64}\s*$").search


@dataclass(frozen=True, slots=True)
class Sources:
    """Our variables in the environment and in one `.env`; NOSTR_NSEC is left out.

    Attributes:
        environ: from the environment.
        dotenv: from the `.env` file.
        env_file: the `.env` file, or None.
    """

    environ: Mapping[str, str]
    dotenv: Mapping[str, str]
    env_file: Path | None

    @classmethod
    def of(cls, environ: Mapping[str, str], dotenv: Mapping[str, str], env_file: Path | None) -> Sources:
        """Those of our variables that are not blank."""
        return cls(_ours(environ), _ours(dotenv), env_file)

    def text(self, name: str, argument: str | None) -> tuple[str | None, str]:
        """The first value of a setting and its origin; (None, "default") where nobody gave one."""
        found, origin = argument, ARGUMENT
        if found is None:
            found, origin = self.environ.get(name), ENVIRONMENT
        if found is None:
            found, origin = self.dotenv.get(name), ENV_FILE
        if found is None:
            return None, DEFAULT
        refuse_key(name, found, origin)
        return found, origin

    def path(self, name: str, argument: str | os.PathLike[str] | None) -> tuple[Path | None, str]:
        """As `text`, as an absolute path; a relative one in a `.env` starts at the file's own folder."""
        found, origin = self.text(name, None if argument is None else os.fspath(argument))
        if found is None:
            return None, origin
        base = self.env_file.parent if origin == ENV_FILE and self.env_file is not None else Path()
        try:
            return (base / Path(found).expanduser()).absolute(), origin
        except RuntimeError:
            raise invalid(name, origin, "`~` is of nobody known here; write the full path") from None

    def switch(self, name: str, argument: str | None) -> tuple[bool, str]:
        """As `text`, as yes or no; no by default."""
        text, origin = self.text(name, argument)
        if (text or "no").lower() not in _SWITCH:
            raise invalid(name, origin, "say yes or no")
        return _SWITCH[(text or "no").lower()], origin

    def embedder(self, argument: str | None) -> tuple[Choice | InvalidSetting, str]:
        """As `text`, as the embedder that is named; where a variable names none, the error for who needs one."""
        text, origin = self.text("embedder", argument)
        text = "none" if text is None else text
        base = self.env_file.parent if origin == ENV_FILE and self.env_file is not None else None
        try:
            return Choice.parse(text, base), origin
        except InvalidInput as error:
            found = invalid("embedder", origin, f"it says '{_without_secrets(text)}': {error}")
        if origin == ARGUMENT:
            raise found
        return found, origin


def _ours(variables: Mapping[str, str]) -> dict[str, str]:
    """The values of our variables that are not blank, by setting."""
    found = {name: variables.get(variable, "").strip() for name, variable in _VARIABLES.items()}
    return {name: text for name, text in found.items() if text}


def refuse_key(name: str, text: str, origin: str) -> None:
    """A key pasted into the wrong variable would end up in paths and messages.

    Raises:
        InvalidSetting: the text looks like one.
    """
    if _like_a_key(text):
        problem = "this looks like a key, which belongs into a key file or NOSTR_NSEC; nothing of it was used"
        raise invalid(name, origin, problem)


def _without_secrets(text: str) -> str:
    """A value for a message, without what may be a password or a key in it: of the URL of a service, for one."""
    return printable(_hide("…", text), _MAX_SHOWN_CHARS)


def invalid(name: str, origin: str, problem: str) -> InvalidSetting:
    """The error to raise: a setting is named as it was given, by its variable or by its name."""
    shown = _VARIABLES.get(name, name) if origin in {ENVIRONMENT, ENV_FILE} else name
    return InvalidSetting(shown, origin, problem)
