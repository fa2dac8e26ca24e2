"""Whether one memory contradicts another.

Two mechanisms. `claims` reads a text as clauses, and `detection` aligns the clauses of two texts: where they say the same
but for one difference, the later one contradicts the earlier one, and where that is nearly sure, supersedes it. Where no
such difference is found, `suspicion` scores what both texts share, and at most suspects.

`claim_index` finds whom to compare. `phrases` says what an embedder knows of words, from vectors that the caller fetched.
`figures` reads numbers and dates, `vocabulary` words. Pure, no model, no clock.
"""
