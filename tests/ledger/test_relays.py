"""Reasons and remarks: codes in the file, sentences for people, and the sentences of older ledgers."""

from __future__ import annotations

import pytest

from sense_memory.ledger import Ledger, database
from sense_memory.ledger.relays import LedgerReason, Remark, reason_code, reason_sentence, remark_sentence
from sense_memory.ledger.schema import MIGRATIONS
from sense_memory.nostr.verdict import REASONS
from tests.inside import database_of


RELAY = "wss://relay.example/"
OWNER = "ab" * 32
SENTENCES = next(number for number, step in enumerate(MIGRATIONS) if "SET remark = CASE" in step)


@pytest.mark.parametrize("code", [*REASONS, *LedgerReason])
def test_a_reason_is_stored_as_its_code_and_read_as_its_sentence(code):
    sentence = reason_sentence(code)

    assert " " in sentence
    assert reason_code(sentence) == code


def test_a_text_without_a_code_stays_what_it_is():
    assert (
        reason_code("closed by the relay") == reason_sentence("closed by the relay") == "closed by the relay"
    )
    assert remark_sentence("of-a-newer-program") == "of-a-newer-program"


def test_the_sentences_of_an_older_ledger_become_codes(tmp_path, monkeypatch):
    """Every sentence that was released; a text that nobody has a code for is left alone."""
    reasons = {
        code: reason_sentence(code) for code in [*REASONS, *LedgerReason, "blocked", "closed by the relay"]
    }
    remarks = {code: remark_sentence(code) for code in Remark if code is not Remark.LOST}
    with monkeypatch.context() as past:
        past.setattr(database, "MIGRATIONS", MIGRATIONS[:SENTENCES])
        past.setattr(database, "VERSION", SENTENCES)
        old = database.Database(tmp_path / "k.db", OWNER)
        with old.transaction():
            old.execute("INSERT INTO relays (url) VALUES (?)", RELAY)
            for number, sentence in enumerate(reasons.values()):
                old.execute("INSERT INTO events VALUES (?, ?, 's', 4, 0, 0, 0, x'')", number, b"%d" % number)
                old.execute(
                    "INSERT INTO outbox (relay, event, state, reason, due_at) VALUES (1, ?, 'queued', ?, 0)",
                    number,
                    sentence,
                )
            for sentence in remarks.values():
                old.execute("INSERT INTO remarks VALUES (1, ?, 0, 0, 9)", sentence)
        old.close()

    ledger = Ledger(tmp_path / "k.db", OWNER)
    try:
        assert {code for (code,) in database_of(ledger).rows("SELECT reason FROM outbox")} == set(
            map(str, reasons)
        )
        assert ledger.outbox.reasons(RELAY) == dict.fromkeys(reasons.values(), 1)
        assert set(ledger.relays.remarks(RELAY)) == set(remarks.values())
        assert ledger.outbox.has_lost(RELAY)
    finally:
        ledger.close()
