"""Which relays an agent uses, where each relay was configured, and the presets to begin with.

An argument, the environment or a `.env` names all relays at once. Otherwise, an agent uses the relays of all agents
(`config.toml`), then its own (`agents/NAME.toml`). Presets are suggestions: only relays that were added are contacted.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sense_memory.config.config_file import NAME as CONFIG
from sense_memory.config.config_file import save_value
from sense_memory.config.sources import ARGUMENT, DEFAULT, SettingValue, Sources, invalid, refuse_key
from sense_memory.errors import InvalidRelayUrl, InvalidSetting


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def find_relays(
    argument: Sequence[str] | None, sources: Sources, home: Path, configs: Mapping[str, Mapping[str, Any]]
) -> tuple[SettingValue[tuple[str, ...]], dict[str, str]]:
    """The checked relays of an agent, each once, and the origin of each.

    Args:
        argument: URLs that replace all others, or None.
        sources: the environment and the `.env`.
        home: the data folder.
        configs: the values of `config.toml` and of the agent's own config file, by file name.

    Raises:
        InvalidSetting: a URL cannot be used; the error names the source of the URL.
    """
    given, origin = argument, ARGUMENT
    if given is None:
        text, origin = sources.text("relays", None)
        given = None if text is None else [part for part in re.split(r"[\s,]+", text) if part]
    if given is not None:
        urls = _checked(given, origin)
        return SettingValue(urls, origin), dict.fromkeys(urls, origin)
    origins: dict[str, str] = {}
    for name, config in configs.items():
        place = f" (in {home / name})"
        for url in _checked(listed_relays(config, name, place), name, place):
            origins.setdefault(url, name)
    is_configured = any("relays" in config for config in configs.values())
    return SettingValue(tuple(origins), CONFIG if is_configured else DEFAULT), origins


def listed_relays(config: Mapping[str, Any], name: str, place: str = "") -> list[str]:
    """The relays in a config file, unchecked.

    Raises:
        InvalidSetting: `relays` is not a list of texts.
    """
    listed = config.get("relays", [])
    if not isinstance(listed, list) or not all(isinstance(url, str) for url in listed):
        raise InvalidSetting(
            "relays", name, f'must be a list of URLs, such as ["wss://relay.example"]{place}'
        )
    return listed


def save_relays(home: Path, relays: Sequence[str], name: str = CONFIG) -> tuple[str, ...]:
    """Write relays to a config file of a data folder (mode 0600), atomically; returns the checked URLs.

    Everything else in the file stays as it is: other keys, comments, order.

    Args:
        home: the data folder.
        relays: the URLs.
        name: the config file: `config.toml` for all agents, or `agent_config(agent)`.

    Raises:
        InvalidSetting: a URL cannot be used, or the file cannot be rewritten safely; the file is unchanged.
        OSError: the folder cannot be written, or the disk is full; the file is unchanged.
    """
    urls = _checked(relays, ARGUMENT)
    save_value(home, "relays", urls, name)
    return urls


def _checked(urls: Sequence[str], origin: str, place: str = "") -> tuple[str, ...]:
    from sense_memory.nostr.relay_url import relay_url

    if isinstance(urls, str):
        raise invalid("relays", origin, "must be a list of URLs, not a single text")
    checked = []
    for number, url in enumerate(urls, 1):
        refuse_key("relays", url, origin)
        try:
            checked.append(relay_url(url))
        except InvalidRelayUrl as error:
            which = f" (URL {number} of {len(urls)})" if len(urls) > 1 else ""
            raise invalid("relays", origin, f"{error}{which}{place}") from None
    return tuple(dict.fromkeys(checked))


# ── Presets ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Preset:
    """A group of relays to begin with.

    Attributes:
        name: such as "starter".
        about: what the group is good for, in one sentence.
        relays: their addresses.
    """

    name: str
    about: str
    relays: tuple[str, ...]


def presets() -> list[Preset]:
    """The presets that this version ships, in the order of their file."""
    groups = tomllib.loads(Path(__file__).with_name("presets.toml").read_text("utf-8"))["groups"]
    return [Preset(name, group["about"], tuple(group["relays"])) for name, group in groups.items()]
