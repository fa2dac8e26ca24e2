"""Whether one memory contradicts another: `detection` compares claims, `claim_index` finds which, the other modules read them from text.

A memory's text is split into claims (`claims`) with slots, quantities and stemmed words; `opposition` decides
whether two claims oppose each other, `antonyms` and `phrases` which words do. Pure, no model, no clock.
"""
