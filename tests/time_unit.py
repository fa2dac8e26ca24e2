"""The second in which tests count how long they wait for what has to happen.

`SENSE_MEMORY_TEST_TIME=4 make test` makes each of these seconds four long, for a machine that is slow or busy.
It bounds waits and stretches the patience of what is tested where honest parts must be in time; a test that
passes takes no longer for it. Time that is itself the subject is virtual, or a clock that only moves when told.
"""

from __future__ import annotations

import os
from typing import Final


SECOND: Final = float(os.environ.get("SENSE_MEMORY_TEST_TIME") or "1")
