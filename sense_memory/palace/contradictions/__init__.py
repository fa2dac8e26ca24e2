"""Whether one memory contradicts another.

`claims` reads a text as clauses, and aligns the two clauses of two texts that are nearest. `detection` judges their one
difference: where both texts say the same else, the later one supersedes the earlier one. Where more is left, `suspicion` scores
what both share and what the later one tells of a change, and at most suspects.

`claim_index` finds whom to compare. `sentences` knows how near two texts are in meaning, from vectors that the caller fetched.
`figures` reads numbers and dates, `vocabulary` words. Pure, no model, no clock.
"""
