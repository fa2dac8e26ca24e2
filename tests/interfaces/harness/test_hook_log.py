"""What goes wrong in hooks is written down, and forgotten once the hook runs well."""

import stat

from sense_memory.interfaces.harness.hook_log import HookFailure, failures, note_failure, note_success


def test_failures_stay_until_their_hook_runs_well(tmp_path):
    first, second = HookFailure(1.0, "turn-end", "a"), HookFailure(2.0, "session-end", "b\nc")
    for failure in (first, second):
        note_failure(tmp_path, failure)

    assert failures(tmp_path) == [first, HookFailure(2.0, "session-end", "b c")]
    assert stat.S_IMODE((tmp_path / "hooks.log").stat().st_mode) == 0o600

    note_success(tmp_path, "turn-end")

    assert [failure.hook for failure in failures(tmp_path)] == ["session-end"]
    assert [path.name for path in tmp_path.iterdir()] == ["hooks.log"]


def test_a_log_is_bounded_and_may_be_damaged(tmp_path):
    for number in range(60):
        note_failure(tmp_path, HookFailure(float(number), "turn-end", "x" * 2_000))
    with (tmp_path / "hooks.log").open("ab") as file:
        file.write(b'{"at": "soon"}\n[]\n\xff\n')

    assert [failure.at for failure in failures(tmp_path)] == [float(number) for number in range(10, 60)]


def test_nothing_is_made_where_nothing_was_set_up(tmp_path):
    note_failure(tmp_path / "none", HookFailure(1.0, "turn-end", "a"))

    assert not (tmp_path / "none").exists()
    assert failures(tmp_path / "none") == []
