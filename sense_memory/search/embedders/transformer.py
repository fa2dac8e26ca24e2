"""Meaning from any sentence-transformers model in a folder of this machine.

The setting is a folder, never a name, which would be looked up and downloaded. The hub is switched off before the
library is imported, remote code is refused, and the model's files are hashed into the embedder's name.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.errors import EmbedderError, MissingExtra
from sense_memory.search.embedders.embedder import normalised, short_hash


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_CHUNK_BYTES: Final = 1 << 20


class TransformerEmbedder:
    """A local model.

    Args:
        folder: with a model as `SentenceTransformer.save` writes it.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        EmbedderError: there is no such folder, or no model in it.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        label = f"sentence-transformers:{path.name}"
        if not (path / "modules.json").is_file() and not (path / "config.json").is_file():
            raise EmbedderError(
                label,
                "name a folder with a model: there is no model in this folder, and models are never fetched",
            )
        os.environ.update(_OFFLINE)  # read when the library is imported, and by its child processes
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtra("sentence-transformers") from None
        try:
            self._model: Any = SentenceTransformer(str(path), local_files_only=True, trust_remote_code=False)
        except Exception as error:  # anything a model's files can do wrong
            raise EmbedderError(label, f"the model cannot be loaded ({type(error).__name__})") from None
        self._name = f"{label}:{short_hash(_hash(path))}"
        self._dimension: int | None = None

    @property
    def name(self) -> str:
        """The name of the model's folder, and a hash of its files."""
        return self._name

    @property
    def dimension(self) -> int:
        """Of every vector."""
        if self._dimension is None:
            self._dimension = self.embed(["dimension"]).shape[1]
        return self._dimension

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for each text.

        Raises:
            EmbedderError: the model failed, or its vectors contain NaN or infinity.
        """
        if not texts:
            return np.zeros((0, self.dimension), np.float32)
        try:
            raw = self._model.encode(list(texts), convert_to_numpy=True, show_progress_bar=False)
        except Exception as error:  # torch and the tokenizers raise errors of any class
            raise EmbedderError(self._name, f"the model failed ({type(error).__name__})") from None
        values = np.asarray(raw, np.float32)
        if values.ndim != 2 or len(values) != len(texts) or not np.isfinite(values).all():
            raise EmbedderError(self._name, "the model did not return one vector for each text")
        return normalised(values)


def _hash(folder: Path) -> str:
    """A hash of all files of a model, in the order of their paths."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                digest.update(chunk)
    return digest.hexdigest()
