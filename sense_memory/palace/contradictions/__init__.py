"""Whether one memory contradicts another: `claims` reads what each says, `detection` has the rules, `claim_index` finds
whom to compare.

A claim is (subject, relation, value, scope, polarity). `figures` reads numbers and dates, `vocabulary` holds the tables
of words, `phrases` asks an embedder which words mean the same, `turns` suspects by it what was ended in other words. Pure,
no model, no clock.
"""
