"""The ledger: signed ciphertext events, their heads and marks, and what each relay was given.

No plaintext and no clock: times are parameters. `Ledger` is the door; the other rooms are its parts.
"""

from __future__ import annotations

from sense_memory.ledger.edits import Basis, HeadMoved
from sense_memory.ledger.ledger import Ledger
from sense_memory.ledger.versions import Fate, Filed, Role, Stored


__all__ = ["Basis", "Fate", "Filed", "HeadMoved", "Ledger", "Role", "Stored"]
