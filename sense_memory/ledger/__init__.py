"""The ledger: signed ciphertext events, their heads and marks, and which event was sent to which relay.

The ledger holds no plaintext and reads no clock: times are parameters. The rest of the program uses a `Ledger` and its
parts (`outbox`, `heads`, `feed`, …).
"""

from __future__ import annotations

from sense_memory.ledger.edits import Basis, retry_while_moved
from sense_memory.ledger.heads import StoredEvent
from sense_memory.ledger.ledger import Ledger
from sense_memory.ledger.removals import HeadMoved, Origin, Removal
from sense_memory.ledger.roles import Role
from sense_memory.ledger.schema import HELD
from sense_memory.ledger.versions import FiledEvent, FilingResult


__all__ = [
    "HELD",
    "Basis",
    "FiledEvent",
    "FilingResult",
    "HeadMoved",
    "Ledger",
    "Origin",
    "Removal",
    "Role",
    "StoredEvent",
    "retry_while_moved",
]
