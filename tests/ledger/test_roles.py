"""Roles are one table of traits: rules and queries ask for a trait, and name no role."""

from __future__ import annotations

import ast
import re
import sqlite3
from pathlib import Path

import pytest

import sense_memory
from sense_memory.ledger import roles
from sense_memory.ledger.roles import ROLES, RemovedBy, Role


PACKAGE = Path(sense_memory.__file__).parent
TABLES = {"ledger/roles.py", "records/kinds.py"}  # of roles, and of the kinds of records, which have roles
FROZEN = {"ledger/schema.py"}  # migrations are never changed, so they hold the numbers of their day
CONDITIONS = {
    "IS_LIVE": lambda role: role.is_live,
    "IS_TOMBSTONE": lambda role: role.is_tombstone,
    "IS_REQUEST": lambda role: role.is_request,
    "IS_REMOVAL": lambda role: role.is_tombstone or role.is_request,
    "IS_HISTORY": lambda role: role.is_history,
    "IS_NO_HISTORY": lambda role: not role.is_history,
    "IS_CONTENT": lambda role: not role.is_removal and not role.is_history,
    "IS_DERIVED": lambda role: role.traits.is_derived,
    "IS_FOLLOWED": lambda role: role.is_live or role.is_removal,
    "HAS_ORIGIN": lambda role: role.has_origin,
    "HAS_NO_ORIGIN": lambda role: not role.has_origin,
    "GOES_BY_DATE": lambda role: role.traits.removed_by is RemovedBy.DATE,
}


def sources():
    for file in sorted(PACKAGE.rglob("*.py")):
        yield file.relative_to(PACKAGE).as_posix(), file.read_text(encoding="utf-8")


def test_only_the_two_tables_name_roles():
    """`Role.MEMORY` anywhere else is a rule that forgets the next role."""
    named = {
        name
        for name, source in sources()
        if "Role." in source
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {f"Role.{role.name}" for role in Role}
    }

    assert named == TABLES


def test_no_query_has_the_number_of_a_role():
    compared = re.compile(r"\brole\s*(?:=|<>|NOT IN|IN)\s*\(?(?:\d|\{int)")
    found = [name for name, source in sources() if name.startswith("ledger/") and compared.search(source)]

    assert set(found) <= TABLES | FROZEN | {"ledger/rescue.py"}  # which counts every role apart


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_holds_for_the_roles_with_its_trait(name):
    with sqlite3.connect(":memory:") as db:
        db.execute("CREATE TABLE events (role INTEGER)")
        db.executemany("INSERT INTO events VALUES (?)", [(int(role),) for role in Role])
        found = {
            ROLES[number]
            for (number,) in db.execute(f"SELECT role FROM events e WHERE e.{getattr(roles, name)}")
        }
    db.close()

    assert found == {role for role in Role if CONDITIONS[name](role)}


def test_every_condition_is_tested():
    texts = {name for name, value in vars(roles).items() if isinstance(value, str) and name.isupper()}

    assert texts == {*CONDITIONS, "AS_HISTORY", "AS_MEMORY"}


def test_history_and_memory_are_exchanged_both_ways():
    with sqlite3.connect(":memory:") as db:
        rows = [
            db.execute(
                f"SELECT {roles.AS_HISTORY}, {roles.AS_MEMORY} FROM (SELECT {int(role)} AS role)"
            ).fetchone()
            for role in Role
        ]
    db.close()

    pairs = {
        role: (ROLES[history], ROLES[memory]) for role, (history, memory) in zip(Role, rows, strict=True)
    }
    for role, (history, memory) in pairs.items():
        assert history is (role.history or role)
        assert memory is (ROLES[role.traits.history_of] if role.is_history else role)


def test_the_rare_roles_are_found_by_their_indexes(me):
    """A condition of one role keeps its partial index, without which every write would count a whole second."""
    from sense_memory.ledger.database import Database
    from sense_memory.ledger.ledger import _USED

    db = Database(":memory:", me.public_key)
    plans = {
        query: " ".join(row[-1] for row in db.rows(f"EXPLAIN QUERY PLAN {query}", *values))
        for query, values in (
            (_USED, (1,)),
            (f"SELECT seq FROM events WHERE {roles.IS_REQUEST}", ()),
        )
    }
    db.close()

    used, requests = plans.values()
    assert "events_replaced" in used
    assert "events_that_delete" in requests
