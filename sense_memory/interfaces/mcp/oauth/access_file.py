"""Who may reach an agent's memory from elsewhere: the one-time code, the grants, and the hashes of their tokens.

One private SQLite file for each agent, in the folder `access` of the data folder. It has no token and no code, only their
SHA-256. The server and the commands `access` open it at the same time: a revoked grant ends with the next request. A server
whose file was deleted or replaced admits nobody, because it would not see what is revoked in the new one.

A grant has authorization codes and refresh tokens, each for one use, and access tokens. When a code or a refresh token is
used again, somebody else has it too, and the whole grant ends (OAuth 2.1, 4.1.3 and 4.3.1). A refresh token may be used again for
`RETRY_SECONDS`, because an answer can be lost on its way.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import orjson

from sense_memory.config.key_file import private_folder
from sense_memory.errors import SenseMemoryError, UnsafeFile
from sense_memory.operating_system import create_private, is_private_file


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

_T = TypeVar("_T")
TokenKind = Literal["code", "refresh", "access"]

CODE_SECONDS: Final = 600  # for which a one-time code is valid
MAX_WRONG_COUNT: Final = (
    20  # wrong codes, after which a one-time code is void: the chance to guess it is below 2⁻³⁵
)
AUTHORIZATION_SECONDS: Final = 120  # for which a client can redeem an authorization code
ACCESS_SECONDS: Final = 3_600
REFRESH_SECONDS: Final = 60 * 86_400  # a client that is not used for so long has to ask again
RETRY_SECONDS: Final = 30
_USED_SECONDS: Final = 60  # the last use of a grant is noted as often at most
_BUSY_SECONDS: Final = 5  # for another process to finish its transaction
_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: none is read as another
_ALIKE: Final = str.maketrans("OIL", "011", " -")
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS seal (key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS one_time_code (hash BLOB NOT NULL, expires_at REAL NOT NULL, wrong INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS grants (
  number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, place TEXT NOT NULL, client BLOB NOT NULL,
  resource TEXT NOT NULL, created_at REAL NOT NULL, used_at REAL);
CREATE TABLE IF NOT EXISTS tokens (
  hash BLOB PRIMARY KEY, kind TEXT NOT NULL, grant_number INTEGER NOT NULL REFERENCES grants ON DELETE CASCADE,
  expires_at REAL NOT NULL, spent_at REAL, details TEXT NOT NULL) WITHOUT ROWID;
"""


class AccessUnknown(SenseMemoryError):
    """The file cannot say who may reach the memory, so nobody may."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A client that may reach the memory from elsewhere.

    Attributes:
        number: names the grant in `access revoke`.
        name: what the client calls itself; anybody can call a client so.
        place: where the client got its answer: a host, such as claude.ai.
        created_at: when the user allowed it, seconds since 1970.
        used_at: when it was last used, to the minute, seconds since 1970; None if it never was.
        expires_at: when it ends unless the client uses it before, seconds since 1970.
    """

    number: int
    name: str
    place: str
    created_at: float
    used_at: float | None
    expires_at: float


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """What is known of a token.

    Attributes:
        grant: the number of its grant.
        resource: the URL that it is for.
        expires_at: seconds since 1970.
        details: of an authorization code: what the token request has to match.
    """

    grant: int
    resource: str
    expires_at: float
    details: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TokenPair:
    """New tokens of a client, in clear."""

    access: str
    refresh: str

    def __repr__(self) -> str:
        return "TokenPair(…)"


class AccessFile:
    """The file of an agent, made when it is first opened. Every call raises AccessUnknown where the file cannot be used.

    Args:
        home: the data folder.
        agent: the agent's name.
        clock: seconds since 1970.

    Attributes:
        path: of the file.
        clock: as given.

    Raises:
        UnsafeFile: others can read or replace the file.
    """

    def __init__(self, home: Path, agent: str, clock: Callable[[], float] = time.time) -> None:
        self.path, self.clock = access_path(home, agent), clock
        private_folder(self.path.parent)
        with suppress(FileExistsError):
            os.close(create_private(self.path))
        if not is_private_file(self.path.lstat()):
            raise UnsafeFile(
                f"others can read or replace {self.path}, which says who may reach the memory; the file was not used. "
                "Delete it, and connect the clients again"
            )
        self._place = self._found()
        self._thread = ThreadPoolExecutor(1, "sense-memory access")
        self._sql = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        try:
            self._sql.executescript("PRAGMA foreign_keys=ON; PRAGMA secure_delete=ON;")
            with self._transaction():
                for statement in filter(str.strip, _SCHEMA.split(";")):
                    self._sql.execute(statement)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._thread.shutdown()
        self._sql.close()

    async def apart(self, work: Callable[..., _T], *given: Any) -> _T:
        """Do some work on the file in its thread: nobody else waits where it waits for another process."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *given)

    def seal_key(self) -> bytes:
        """The key of this server's `Sealer`, made once."""
        with self._transaction():
            if (row := self._sql.execute("SELECT key FROM seal").fetchone()) is not None:
                return bytes(row[0])
            key = secrets.token_bytes(32)
            self._sql.execute("INSERT INTO seal VALUES (?)", (key,))
            return key

    # ── The one-time code ───────────────────────────────────────────────────────────────

    def new_code(self) -> str:
        """A one-time code for the consent page, valid for `CODE_SECONDS`; the code before it becomes void."""
        code = "".join(secrets.choice(_DIGITS) for _ in range(8))
        with self._transaction():
            self._sql.execute("DELETE FROM one_time_code")
            expires_at = self.clock() + CODE_SECONDS
            self._sql.execute("INSERT INTO one_time_code VALUES (?, ?, 0)", (_hash(code), expires_at))
        return f"{code[:4]}-{code[4:]}"

    def spend_code(self, text: str) -> bool:
        """Whether a text is the one-time code, which is then void; so it is after `MAX_WRONG_COUNT` other texts."""
        given = _hash(text.upper().translate(_ALIKE))
        with self._transaction():
            row = self._sql.execute("SELECT hash, expires_at, wrong FROM one_time_code").fetchone()
            if row is None:
                return False
            expected, expires_at, wrong = row
            is_right = compare_digest(expected, given) and self.clock() <= expires_at
            if is_right or wrong + 1 >= MAX_WRONG_COUNT:
                self._sql.execute("DELETE FROM one_time_code")
            else:
                self._sql.execute("UPDATE one_time_code SET wrong = wrong + 1")
            return is_right

    # ── Grants ──────────────────────────────────────────────────────────────────────────

    def allow(self, client_id: str, name: str, place: str, resource: str, details: dict[str, Any]) -> str:
        """Note that the user allowed a client access; returns the authorization code for the client.

        Args:
            client_id: who may redeem the code.
            name: what the client calls itself.
            place: the host that gets the code.
            resource: the URL that the tokens are for.
            details: what the token request has to match.
        """
        now = self.clock()
        with self._transaction():
            self._sql.execute("DELETE FROM tokens WHERE expires_at < ?", (now,))
            self._sql.execute("DELETE FROM grants WHERE number NOT IN (SELECT grant_number FROM tokens)")
            cursor = self._sql.execute(
                "INSERT INTO grants (name, place, client, resource, created_at) VALUES (?, ?, ?, ?, ?)",
                (name, place, _hash(client_id), resource, now),
            )
            return self._issue("code", int(cursor.lastrowid or 0), AUTHORIZATION_SECONDS, details)

    def grants(self) -> list[Grant]:
        """The grants that have not ended, the oldest first."""
        with self._checked():
            rows = self._sql.execute(
                "SELECT number, name, place, created_at, used_at, max(expires_at) FROM grants"
                " JOIN tokens ON grant_number = number WHERE spent_at IS NULL AND expires_at >= ?"
                " GROUP BY number ORDER BY number",
                (self.clock(),),
            ).fetchall()
        return [Grant(*row) for row in rows]

    def revoke(self, number: int) -> bool:
        """End a grant, and with it all its tokens; returns whether there was one."""
        with self._transaction():
            return self._sql.execute("DELETE FROM grants WHERE number = ?", (number,)).rowcount > 0

    # ── Tokens ──────────────────────────────────────────────────────────────────────────

    def find(self, kind: TokenKind, token: str, client_id: str) -> IssuedToken | None:
        """A code or a refresh token of a client, unless it is spent; a spent one ends its grant."""
        with self._transaction():
            row = self._sql.execute(
                "SELECT grant_number, resource, expires_at, details, spent_at, client FROM tokens"
                " JOIN grants ON number = grant_number WHERE hash = ? AND kind = ?",
                (_hash(token), kind),
            ).fetchone()
            if row is None or not compare_digest(row[5], _hash(client_id)):
                return None
            if not self._may_be_used(kind, row[4]):
                self._sql.execute("DELETE FROM grants WHERE number = ?", (row[0],))
                return None
            return IssuedToken(row[0], row[1], row[2], orjson.loads(row[3]))

    def redeem(self, kind: TokenKind, token: str) -> TokenPair | None:
        """New tokens for a code or a refresh token, which is then spent; None if it is by now, or its time is over."""
        now = self.clock()
        with self._transaction():
            row = self._sql.execute(
                "SELECT grant_number, spent_at FROM tokens WHERE hash = ? AND kind = ? AND expires_at >= ?",
                (_hash(token), kind, now),
            ).fetchone()
            if row is None:
                return None
            if not self._may_be_used(kind, row[1]):
                self._sql.execute("DELETE FROM grants WHERE number = ?", (row[0],))
                return None
            self._sql.execute(
                "UPDATE tokens SET spent_at = ifnull(spent_at, ?) WHERE hash = ?", (now, _hash(token))
            )
            return TokenPair(
                self._issue("access", row[0], ACCESS_SECONDS), self._issue("refresh", row[0], REFRESH_SECONDS)
            )

    def verify(self, token: str, resource: str) -> int | None:
        """The number of the grant whose access token this is, for this resource; None where it admits nobody."""
        now = self.clock()
        with self._checked():
            row = self._sql.execute(
                "SELECT number, used_at FROM tokens JOIN grants ON number = grant_number"
                " WHERE hash = ? AND kind = 'access' AND expires_at >= ? AND resource = ?",
                (_hash(token), now, resource),
            ).fetchone()
        if row is None:
            return None
        number, used_at = row
        if used_at is None or abs(now - used_at) >= _USED_SECONDS:
            self._note_use(number, now)
        return int(number)

    def _note_use(self, number: int, now: float) -> None:
        """Note when a grant was last used; another time, if another process is writing."""
        self._sql.execute("PRAGMA busy_timeout=0")
        with suppress(sqlite3.OperationalError):
            self._sql.execute("UPDATE grants SET used_at = ? WHERE number = ?", (now, number))
        self._sql.execute(f"PRAGMA busy_timeout={_BUSY_SECONDS * 1_000}")

    def revoke_token(self, token: str) -> None:
        """End the grant of a token of any kind; without such a token, nothing happens."""
        with self._transaction():
            self._sql.execute(
                "DELETE FROM grants WHERE number = (SELECT grant_number FROM tokens WHERE hash = ?)",
                (_hash(token),),
            )

    # ── Inside a transaction ────────────────────────────────────────────────────────────

    def _may_be_used(self, kind: TokenKind, spent_at: float | None) -> bool:
        if spent_at is None:
            return True
        # A clock that was set back a little ends no grant.
        return kind == "refresh" and abs(self.clock() - spent_at) <= RETRY_SECONDS

    def _issue(
        self, kind: TokenKind, grant: int, seconds: float, details: dict[str, Any] | None = None
    ) -> str:
        token = secrets.token_urlsafe(32)
        self._sql.execute(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, NULL, ?)",
            (_hash(token), kind, grant, self.clock() + seconds, orjson.dumps(details or {}).decode()),
        )
        return token

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._checked():
            self._sql.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._sql.execute("COMMIT")
            except BaseException:
                if self._sql.in_transaction:
                    self._sql.execute("ROLLBACK")
                raise

    @contextmanager
    def _checked(self) -> Iterator[None]:
        if self._found() != self._place:
            raise AccessUnknown(
                f"{self.path}, which says who may reach the memory, was deleted or replaced; nobody is let in until the "
                "server is started again"
            )
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise AccessUnknown(
                f"{self.path}, which says who may reach the memory, cannot be used now ({error}); try again"
            ) from None

    def _found(self) -> tuple[int, int] | None:
        try:
            status = self.path.lstat()
        except OSError:
            return None
        return status.st_dev, status.st_ino


def access_path(home: Path, agent: str) -> Path:
    """The file of an agent in a data folder."""
    return home / "access" / f"{agent}.db"


def code_command(agent: str) -> str:
    """The command that shows a one-time code for an agent."""
    return f"sense-memory{'' if agent == 'default' else f' --agent {agent}'} access code"


def _hash(secret: str) -> bytes:
    return sha256(secret.encode("utf-8", "surrogatepass")).digest()
