"""Whether one memory contradicts another.

What a memory says is read as claims, each (subject, relation, value, scope, polarity), and as whole clauses: `claims`.
Two claims contradict each other where subject, relation and scope agree, the relation holds one value (or the same
clause is denied), and the values are of one kind and differ; two clauses, where they say the same but for one
difference: `detection`, a function for each rule. `claim_index` finds whom to compare.

`figures` reads numbers and dates, `vocabulary` holds the tables of words. `phrases` judges, by vectors that the caller
fetched, which words mean the same, and which speak of what is good. Pure, no model, no clock.
"""
