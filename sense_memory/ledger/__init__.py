"""The ledger: signed ciphertext events, their heads and marks, and what each relay was given.

No plaintext and no clock: times are parameters. `Ledger` is the door; the other rooms are its parts.
"""

from __future__ import annotations

from sense_memory.ledger.edits import Basis
from sense_memory.ledger.heads import Stored
from sense_memory.ledger.ledger import Ledger
from sense_memory.ledger.removals import HeadMoved, Origin, Removal
from sense_memory.ledger.schema import Role
from sense_memory.ledger.versions import Fate, Filed


__all__ = ["Basis", "Fate", "Filed", "HeadMoved", "Ledger", "Origin", "Removal", "Role", "Stored"]
