"""`PgvectorIndex`: entries in a table of PostgreSQL with the extension pgvector (package psycopg, extra `pgvector`).

The nearest neighbours are exact: a search compares all vectors of the embedder, which takes some tens of milliseconds for
100,000 entries. An approximate index would be faster and miss hits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from sense_memory.errors import InvalidInput
from sense_memory.mind.indexes.derived import (
    DerivedVectorIndex,
    failures,
    local_embedder,
    need,
    options_of,
    stored,
)


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from sense_memory.mind.log import LogEntry
    from sense_memory.search.embedders.embedder import Embedder

_TABLE: Final = "sense_memory_log"
_SECONDS: Final = 10  # the timeout of a connection


class PgvectorIndex(DerivedVectorIndex):
    """An index in a table of PostgreSQL, which is created if it is missing and holds plaintext.

    Args:
        embedder: makes the vectors; rows of other embedders in the table are ignored.
        url: the database, as for psycopg, such as "postgresql://agent@127.0.0.1/memory".
        table: the name of the table; one for each agent.

    Raises:
        MissingExtra: psycopg is not installed.
        InvalidInput: `url` or `table` is empty, or not a text.
        MemoryIndexError: the database cannot be reached, or lacks pgvector and this user may not add it.
    """

    name: ClassVar = "pgvector"

    def __init__(self, embedder: Embedder, url: str, *, table: str = _TABLE) -> None:
        super().__init__(embedder)
        if not isinstance(url, str) or not url or not isinstance(table, str) or not table:
            raise InvalidInput("give the `url` of a PostgreSQL database, and a name for its `table`")
        need("psycopg", "pgvector")
        from psycopg import sql

        self._url, self._table = url, sql.Identifier(table)
        self._connection: Any = None
        with failures(self.name):
            self._run("CREATE EXTENSION IF NOT EXISTS vector")
            # The column takes vectors of any dimension, because each embedder has its own dimension.
            self._run(
                "CREATE TABLE IF NOT EXISTS {} (id text, embedder text, entry text NOT NULL, "
                "vector vector NOT NULL, PRIMARY KEY (embedder, id))"
            )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> PgvectorIndex:
        """An index from its options: `url`, `table`, `embedder` (a setting such as "static").

        Raises:
            InvalidInput: there is another option, no `url`, or no embedder.
            MissingExtra: psycopg or the packages of the embedder are not installed.
            MemoryIndexError: the database cannot be used.
        """
        options = options_of(config, "url", "table", "embedder")
        need("psycopg", "pgvector")
        return cls(local_embedder(options.pop("embedder", None)), options.pop("url", ""), **options)

    def close(self) -> None:
        """Close the connection; the next call opens one again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run(self, statement: str, *values: object) -> Any:
        return self._connected().execute(self._sql(statement), values)

    def _sql(self, statement: str) -> Any:
        from psycopg import sql

        return sql.SQL(statement).format(self._table)

    def _connected(self) -> Any:
        import psycopg

        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=_SECONDS)
        return self._connection

    def _stored_ids(self) -> Iterable[str]:
        return [row[0] for row in self._run("SELECT id FROM {} WHERE embedder = %s", self._embedder.name)]

    def _insert(self, rows: Sequence[tuple[LogEntry, NDArray[np.float32]]]) -> None:
        statement = self._sql("INSERT INTO {} VALUES (%s, %s, %s, %s::vector) ON CONFLICT DO NOTHING")
        name = self._embedder.name
        with self._connected().cursor() as cursor:
            cursor.executemany(
                statement, [(entry.id, name, stored(entry), _text(vector)) for entry, vector in rows]
            )

    def _nearest(self, vector: NDArray[np.float32], k: int) -> Iterable[tuple[object, float | None]]:
        # The second key makes the order of equals the same every time.
        found = self._run(
            "SELECT entry, 1 - (vector <=> %s::vector) AS cosine FROM {} WHERE embedder = %s ORDER BY cosine DESC, id LIMIT %s",
            _text(vector),
            self._embedder.name,
            k,
        )
        return [(row[0], float(row[1])) for row in found]

    def _wipe(self) -> None:
        self._run("DELETE FROM {} WHERE embedder = %s", self._embedder.name)


def _text(vector: NDArray[np.float32]) -> str:
    return f"[{','.join(map(repr, vector.tolist()))}]"
