"""The cost of age in the ranking: recall of old evidence, by the floor below which age cannot lower a score.

`python -m scripts.bench.ageing --bench memory_bench.py --data DATA` spreads the turns of each conversation over a
year, in their order, and searches them on the day after the last with a half-life of 30 days: each score is
multiplied by floor + (1 - floor) x relevance. The benchmark and its data are as for `scripts.bench.recall`.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from rich import box
from rich.console import Console
from rich.table import Table

from sense_memory.search import SearchIndex

from .recall import DATASETS, as_item, existing, loaded


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .plain_retrievers import Row

FLOORS: Final = (0.0, 0.5, 0.9, 1.0)
_YEAR_DAYS: Final = 365.0
_HALFLIFE_DAYS: Final = 30.0
_METRICS: Final = ("turn_recall@10", "ndcg@10", "mrr")


class Aged:
    """A `SearchIndex` whose items are up to a year old.

    Args:
        floor: the lowest factor of a score.
    """

    def __init__(self, floor: float) -> None:
        self._index, self._floor = SearchIndex(), floor
        self._factors: dict[str, float] = {}

    def index(self, items: Sequence[Row]) -> None:
        """Take in one conversation."""
        self._index.put_many(map(as_item, items))
        for number, row in enumerate(items):
            age = _YEAR_DAYS * (len(items) - number) / len(items)
            relevance = 0.5 ** (age / _HALFLIFE_DAYS)
            self._factors[row[0]] = self._floor + (1 - self._floor) * relevance

    def search(self, query: str, k: int) -> list[str]:
        """The ids of the best turns, best first."""
        return [hit.id for hit in self._index.search(query, k, factors=self._of)]

    def _of(self, idents: Sequence[str]) -> list[float]:
        return [self._factors[ident] for ident in idents]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what was asked for."""
    options = _parsed(arguments)
    bench = loaded(options.bench)
    console = Console(width=None if sys.stdout.isatty() else 160)
    for dataset in options.dataset or DATASETS:
        conversations = bench.load(dataset, str(options.data))
        table = Table(title=f"{dataset}, turns over a year", box=box.SIMPLE_HEAD, pad_edge=False)
        for name in ("floor", *_METRICS, "beside no age", "95 %"):
            table.add_column(name, justify="right", no_wrap=True)
        rows: list[tuple[float, Callable[[], Aged]]] = [(floor, partial(Aged, floor)) for floor in FLOORS]
        results = {floor: bench.evaluate(maker, conversations) for floor, maker in rows}
        for floor, result in results.items():
            scores = [f"{result['main'][metric]:.3f}" for metric in _METRICS]
            mean, low, high = bench.paired_diff(results[1.0], result)
            table.add_row(f"{floor:g}", *scores, f"{mean:+.3f}", f"{low:+.3f} … {high:+.3f}")
        console.print(table)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m scripts.bench.ageing", description=__doc__)
    parser.add_argument("--bench", type=existing, required=True, help="path of memory_bench.py")
    parser.add_argument("--data", type=existing, required=True, help="folder with locomo/ and beam/")
    parser.add_argument("--dataset", action="append", choices=DATASETS, help="may be repeated; default both")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
