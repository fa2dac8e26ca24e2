"""`make soak` plays every game with every seed, shows what failed with how to play it again, and goes on."""

from __future__ import annotations

import time

import pytest

from tests import soak


def test_each_game_is_played_with_each_seed_and_a_failure_is_no_end(capsys):
    seen = []

    def well(seed):
        seen.append(("well", seed))

    def badly(seed):
        seen.append(("badly", seed))
        assert seed != 8, "a promise that was not kept"

    assert soak.play({"well": well, "badly": badly}, range(7, 10)) == (6, 1)

    assert seen == [(name, seed) for seed in (7, 8, 9) for name in ("well", "badly")]
    shown = capsys.readouterr()
    assert 'again: make soak OPTIONS="--game badly --seed 8 --seeds 1"' in shown.out
    assert "a promise that was not kept" in shown.err


def test_no_game_is_begun_when_the_time_is_over():
    assert soak.play({"never": pytest.fail}, range(9), until=time.monotonic()) == (0, 0)


def test_seeds_are_drawn_one_at_a_time_because_they_may_have_no_end():
    seen = []

    def seeds():
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        soak.play({"game": seen.append}, seeds())

    assert seen == [1]


@pytest.mark.parametrize("name", soak.GAMES)
def test_the_games_of_the_suite_are_played_and_the_exit_code_is_theirs(name, monkeypatch, capsys):
    monkeypatch.setattr(soak, "MOVES", 5)

    with pytest.raises(SystemExit) as end:
        soak.main(["--game", name, "--seed", "1", "--seeds", "1"])

    assert end.value.code == 0
    assert capsys.readouterr().out == f"{name} 1: well\ngames played: 1, failed: 0\n"
