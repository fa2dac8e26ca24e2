"""The village: what its account promises, turn by turn, is so."""

from __future__ import annotations

from scripts import village


async def test_three_agents_keep_a_clue_a_budget_and_one_view_over_200_turns():
    account = await village.play()

    assert account.turns == 200
    assert 0 < account.largest_tokens <= village.BUDGET
    assert (account.clue_in_window, account.clue_by_salience) == (False, True)
    for beliefs, shown, seen in account.digests.values():
        assert beliefs >= 4
        assert shown == beliefs + village.WINDOW
        assert seen > 100
    assert account.restored > 60
    assert account.same_before_and_after
    assert account.same_for_all
    assert account.forged == 0
    assert "By salience it is in the prompt: yes." in str(account)
