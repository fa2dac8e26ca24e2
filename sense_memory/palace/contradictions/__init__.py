"""Whether one memory contradicts another.

A memory is read as clauses of words in phrases, in which idioms and relations are one word each: `claims`. Two clauses
are aligned; they contradict each other where they say the same but for one difference. A claim's subject, relation and
scope are what both share, its value and polarity what differs: `detection`, a function for each difference.
`claim_index` finds whom to compare.

`figures` reads numbers and dates, `vocabulary` holds the tables of words. `phrases` judges what is said in other words:
by a linear score, and by vectors that the caller fetched. Pure, no model, no clock.
"""
