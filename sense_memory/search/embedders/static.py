"""The embedder over a table of word vectors: the vector of a text is the mean of the vectors of its words.

The table is the 256-dimensional matrix in the package `wordllama` (MIT; 32,000 pieces of words). Its two data files are
read directly, with numpy and JSON: none of the package's code runs, and nothing is downloaded. A word that was seen
before costs one lookup, so a memory takes microseconds to embed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson

from sense_memory.errors import MissingExtra
from sense_memory.search.embedders.embedder import checked_file, normalised, package_folder, short_hash
from sense_memory.search.query import stop_words
from sense_memory.search.tokens import words


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_REQUIREMENT: Final = "wordllama==0.4.0.post1"
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_WEIGHTS_SHA256: Final = "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5"
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_TOKENIZER_SHA256: Final = "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68"
NAME: Final = f"wordllama-l2-supercat-256:{short_hash(_WEIGHTS_SHA256)}"
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

    name: Final = NAME

    def __init__(self) -> None:
        folder = package_folder("wordllama")
        if folder is None:
            raise MissingExtra("static")
        self._table = _tensor(checked_file(NAME, folder / _WEIGHTS, _WEIGHTS_SHA256, _REQUIREMENT))
        raw = checked_file(NAME, folder / _TOKENIZER, _TOKENIZER_SHA256, _REQUIREMENT)
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
