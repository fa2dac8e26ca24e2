"""What a mirror notes beside the ledger, and what is left of it after a kill."""

from __future__ import annotations

from sense_memory.mirror.state import Base, Mirror, MirrorStates


def states(tmp_path):
    found = MirrorStates(tmp_path / "mirrors")
    found.put(Mirror("/notes", "app", ("*.md",), ("a.md",)))
    return found


def test_what_was_noted_is_read_again(tmp_path):
    state = states(tmp_path).get("/notes")
    state.set_base("a.md", Base("e1", "d1"))
    state.set_base("b.md", Base("e2", "d2"))
    state.set_base("b.md", None)
    state.set_seq(7)
    state.set_number(42)
    state.set_due("c.md", 1_800_000_000.5)

    again = MirrorStates(tmp_path / "mirrors").get("/notes")

    assert again.mirror == Mirror("/notes", "app", ("*.md",), ("a.md",))
    assert again.bases == {"a.md": Base("e1", "d1")}
    assert (again.seq, again.number, again.due) == (7, 42, {"c.md": 1_800_000_000.5})


def test_a_line_that_a_kill_cut_off_is_as_if_it_had_not_begun_and_the_next_line_is_whole(tmp_path):
    state = states(tmp_path).get("/notes")
    state.set_base("a.md", Base("e1", "d1"))
    with state.path.open("ab") as file:
        file.write(b'{"name":"b.md","base":["e')

    state = MirrorStates(tmp_path / "mirrors").get("/notes")
    assert state.bases == {"a.md": Base("e1", "d1")}
    state.set_base("c.md", Base("e3", "d3"))

    assert MirrorStates(tmp_path / "mirrors").get("/notes").bases == {
        "a.md": Base("e1", "d1"),
        "c.md": Base("e3", "d3"),
    }


def test_the_file_does_not_grow_with_the_number_of_changes(tmp_path):
    state = states(tmp_path).get("/notes")
    for number in range(1_000):
        state.set_base("a.md", Base(f"e{number}", "d"))

    assert state.path.stat().st_size < 20_000
    assert MirrorStates(tmp_path / "mirrors").get("/notes").bases == {"a.md": Base("e999", "d")}


def note_much(state):
    """So many notes that the file is written anew several times."""
    for number in range(1_000):
        state.set_base("a.md", Base(f"e{number}", "d"))


def test_a_run_that_goes_on_undoes_no_change_of_its_mirror_by_another_process(tmp_path):
    running = states(tmp_path).get("/notes")
    changed = Mirror("/notes", "app", ("MEMORY.md",), ("a.md", "b.md"))
    MirrorStates(tmp_path / "mirrors").put(changed)

    note_much(running)

    again = MirrorStates(tmp_path / "mirrors").get("/notes")
    assert (again.mirror, again.bases) == (changed, {"a.md": Base("e999", "d")})


def test_a_run_that_goes_on_does_not_bring_a_mirror_back_that_another_process_ended(tmp_path):
    running = states(tmp_path).get("/notes")
    running.set_base("a.md", Base("e", "d"))
    assert MirrorStates(tmp_path / "mirrors").remove("/notes")

    note_much(running)

    assert MirrorStates(tmp_path / "mirrors").all() == []
    assert list((tmp_path / "mirrors").iterdir()) == []


def test_what_a_run_notes_about_one_project_counts_for_no_other(tmp_path):
    running = states(tmp_path).get("/notes")
    MirrorStates(tmp_path / "mirrors").put(Mirror("/notes", "other"))

    note_much(running)

    assert MirrorStates(tmp_path / "mirrors").get("/notes").bases == {}


def test_what_an_earlier_version_noted_beside_the_mapping_is_read_once_and_kept(tmp_path):
    found = states(tmp_path)
    found.get("/notes").set_base("a.md", Base("e1", "d1"))
    (mapping,) = (tmp_path / "mirrors").glob("*.mirror")
    (notes,) = (tmp_path / "mirrors").glob("*.state")
    notes.unlink()
    head = b'{"folder":"/notes","project":"app","only":[],"allow":[]}\n'
    mapping.write_bytes(head + b'{"seq":7}\n{"name":"a.md","base":["e2","d2"]}\n')

    found.put(Mirror("/notes", "app", ("*.md",)))

    again = found.get("/notes")
    assert (again.mirror.only, again.seq, again.bases) == (("*.md",), 7, {"a.md": Base("e2", "d2")})


def test_a_file_that_is_no_state_is_no_mirror(tmp_path):
    found = states(tmp_path)
    (tmp_path / "mirrors" / "odd.mirror").write_bytes(b"\0\xff[]\n{}\n")

    assert [mirror.folder for mirror in found.all()] == ["/notes"]
