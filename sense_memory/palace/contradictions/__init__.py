"""Whether one memory contradicts another.

`claims` reads each text as clauses, and aligns the two that are nearest: of "Nora works at Siemens" and "Since May, Nora works
at Bosch" they share `nora` and `→works_at`, and `siemens` and `bosch` are left. `detection` names this one difference, knows
that somebody works at one place at a time, finds all else the same, and acts: the later memory supersedes the earlier one. "The
CI runs on Jenkins" and "Jenkins was replaced with GitHub Actions" differ in more than one thing. So `suspicion` scores what
both share and what the later one tells of a change, and at most suspects.

`claim_index` finds whom to compare.
`figures` reads numbers and dates, `vocabulary` words. Pure, no model, no clock.
"""

from typing import Final


RULES_VERSION: Final = 12  # raise it when readings or rules change: what others read or suspected is not used
