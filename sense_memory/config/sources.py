"""The value of a setting from an argument, the environment or a `.env`, and which of them it came from.

The first source with a value decides. This module reads no file. A value that looks like a key is refused, because
the key would end up in paths and messages; no message repeats the value.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, TypeVar

from sense_memory.config.config_file import NAME as CONFIG
from sense_memory.config.model_choice import ModelChoice
from sense_memory.errors import InvalidInput, InvalidSetting
from sense_memory.plain_text import printable
from sense_memory.search.embedders.choice import Choice


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_T = TypeVar("_T")

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
    "model": "SENSE_MEMORY_MODEL",
    "contradictions": "SENSE_MEMORY_CONTRADICTIONS",
    "revive": "SENSE_MEMORY_REVIVE",
    "search_forgotten": "SENSE_MEMORY_SEARCH_FORGOTTEN",
    "min_acks": "SENSE_MEMORY_MIN_ACKS",
    "proposals": "SENSE_MEMORY_PROPOSALS",
    "addresses": "SENSE_MEMORY_ADDRESSES",
    "pad_sizes": "SENSE_MEMORY_PAD_SIZES",
    "send_jitter": "SENSE_MEMORY_SEND_JITTER",
}

_SWITCH: Final = {"yes": True, "true": True, "on": True, "1": True} | dict.fromkeys(
    ("no", "false", "off", "0"), False
)
_MAX_SHOWN_CHARS: Final = 100  # of a value in an error

# Hides the user, query and fragment of a URL, and texts that look like an API key.
_hide = re.compile(r"(?<=//).*(?=@)|(?<=@)(?!https?://).+(?=@)|(?<=[?#]).+|\bsk-\S+", re.DOTALL).sub
_like_a_key = re.compile(r"(?i:n(?:crypt)?sec1[02-9ac-hj-np-z]{20})|^\s*[0-9A-Fa-f]{64}\s*$").search


class SettingValue(NamedTuple, Generic[_T]):
    """The value of a setting, and where it came from."""

    value: _T
    origin: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The variables of sense-memory in the environment and in one `.env`, without NOSTR_NSEC.

    Attributes:
        environ: values from the environment, by setting.
        dotenv: values from the `.env` file, by setting.
        env_file: the `.env` file, or None.
        config: values from the config file of all agents, by setting; of the settings that it may have.
    """

    environ: Mapping[str, str]
    dotenv: Mapping[str, str]
    env_file: Path | None
    config: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def of(cls, environ: Mapping[str, str], dotenv: Mapping[str, str], env_file: Path | None) -> Sources:
        """The sources; blank variables, and those of other programs, are left out."""
        return cls(_ours(environ), _ours(dotenv), env_file)

    def text(self, name: str, argument: str | None) -> SettingValue[str | None]:
        """The first value of a setting, and its origin; (None, "default") if no source has a value."""
        found, origin = argument, ARGUMENT
        if found is None:
            found, origin = self.environ.get(name), ENVIRONMENT
        if found is None:
            found, origin = self.dotenv.get(name), ENV_FILE
        if found is None:
            return SettingValue(None, DEFAULT)
        refuse_key(name, found, origin)
        return SettingValue(found, origin)

    def path(self, name: str, argument: str | os.PathLike[str] | None) -> SettingValue[Path | None]:
        """As `text`, as an absolute path; a relative path in a `.env` is relative to the folder of the file."""
        found, origin = self.text(name, None if argument is None else os.fspath(argument))
        if found is None:
            return SettingValue(None, origin)
        base = self.env_file.parent if origin == ENV_FILE and self.env_file is not None else Path()
        try:
            return SettingValue((base / Path(found).expanduser()).absolute(), origin)
        except RuntimeError:
            raise invalid(name, origin, "there is no user with this `~` name; write the full path") from None

    def text_or_config(self, name: str, argument: str | None) -> SettingValue[str | None]:
        """As `text`, then from the config file."""
        found = self.text(name, argument)
        if found.value is None and (config := self.config.get(name)) is not None:
            refuse_key(name, str(config), CONFIG)
            return SettingValue(str(config), CONFIG)
        return found

    def choice(self, name: str, argument: str | None, values: Sequence[str]) -> SettingValue[str]:
        """As `text_or_config`: one of `values`; the default is the first."""
        text, origin = self.text_or_config(name, argument)
        if text is not None and text not in values:
            raise invalid(name, origin, f"must be {', '.join(values[:-1])} or {values[-1]}")
        return SettingValue(text or values[0], origin)

    def count(self, name: str, argument: int | None) -> SettingValue[int | None]:
        """As `text_or_config`, as a whole number of 1 or more; the default is None."""
        text, origin = self.text_or_config(name, None if argument is None else str(argument))
        if text is not None and not (text.isascii() and text.isdigit() and int(text)):
            raise invalid(name, origin, "must be a whole number, 1 or more")
        return SettingValue(None if text is None else int(text), origin)

    def switch(self, name: str, argument: str | None, default: str = "no") -> SettingValue[bool]:
        """As `text_or_config`, as a boolean; the default is no."""
        text, origin = self.text_or_config(name, argument)
        if (text or default).lower() not in _SWITCH:
            raise invalid(name, origin, "must be yes or no")
        return SettingValue(_SWITCH[(text or default).lower()], origin)

    def seconds(self, name: str, argument: str | None, most: int) -> SettingValue[float]:
        """As `text_or_config`, as a number of seconds from 0, the default, to `most`."""
        text, origin = self.text_or_config(name, argument)
        try:
            found = float(text or 0)
        except ValueError:
            found = -1.0
        if not 0 <= found <= most:
            raise invalid(name, origin, f"must be a number of seconds from 0 to {most}")
        return SettingValue(found, origin)

    def model(self, argument: str | None) -> SettingValue[ModelChoice | InvalidSetting | None]:
        """As `text_or_config`, as a language model; a bad value is handled as by `embedder`."""
        text, origin = self.text_or_config("model", argument)
        try:
            return SettingValue(ModelChoice.parse("none" if text is None else text), origin)
        except InvalidInput as error:
            found = invalid("model", origin, f"'{_without_secrets(text or '')}' cannot be used: {error}")
        if origin == ARGUMENT:
            raise found
        return SettingValue(found, origin)

    def embedder(self, argument: str | None) -> SettingValue[Choice | InvalidSetting]:
        """As `text`, as a choice of embedder.

        A bad argument raises InvalidSetting. A bad value in a variable is returned as this error, to be raised when an
        embedder is needed.
        """
        text, origin = self.text("embedder", argument)
        text = "none" if text is None else text
        base = self.env_file.parent if origin == ENV_FILE and self.env_file is not None else None
        try:
            return SettingValue(Choice.parse(text, base), origin)
        except InvalidInput as error:
            found = invalid("embedder", origin, f"'{_without_secrets(text)}' cannot be used: {error}")
        if origin == ARGUMENT:
            raise found
        return SettingValue(found, origin)


def _ours(variables: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables of sense-memory, by setting, without blank values."""
    found = {name: variables.get(variable, "").strip() for name, variable in _VARIABLES.items()}
    return {name: text for name, text in found.items() if text}


def refuse_key(name: str, text: str, origin: str) -> None:
    """Refuse a key in the wrong variable, because the key would end up in paths and messages.

    Raises:
        InvalidSetting: the text looks like a key.
    """
    if _like_a_key(text):
        problem = (
            "this value looks like a key, and was not used; put the key into a key file or NOSTR_NSEC instead"
        )
        raise invalid(name, origin, problem)


def _without_secrets(text: str) -> str:
    """A value for a message; parts that may be a password or a key, such as in a URL, are hidden."""
    return printable(_hide("…", text), _MAX_SHOWN_CHARS)


def invalid(name: str, origin: str, problem: str) -> InvalidSetting:
    """The error for a setting; if a variable gave the value, the error names the variable."""
    shown = _VARIABLES.get(name, name) if origin in {ENVIRONMENT, ENV_FILE} else name
    return InvalidSetting(shown, origin, problem)
