"""Names and commands that are not there: what is said, where it leads, and that nothing is destroyed by a slip."""

from __future__ import annotations

import json
import time

import pytest
import typer

from sense_memory.interfaces.cli import app
from sense_memory.interfaces.cli.program import no_command
from sense_memory.limits import IDLE_SECONDS


# ── forget of a name that is nowhere ────────────────────────────────────────────────────


def events(agent, *options):
    return agent.json(*options, "status")["counts"]["events"]


@pytest.mark.parametrize(
    ("command", "there", "typed"),
    [
        (["forget"], ["remember", "typo"], "tpyo"),
        (["palace", "forget"], ["palace", "remember", "people/facts/lisa"], "people/facts/lsia"),
    ],
    ids=["flat", "palace"],
)
def test_forgetting_a_name_that_is_nowhere_asks_relays_and_writes_nothing(
    agent, relay, command, there, typed
):
    at = ("--relay", relay)
    agent(*at, *there, "v")
    before = events(agent)
    agent(*at, "--ledger", "other.db", "remember", "elsewhere", "x")

    result = agent(*at, *command, typed, code=4)

    assert result.stdout == ""
    assert result.stderr.startswith(f"error: no memory under '{typed}' (1 relay last read completely ")
    assert result.stderr.endswith(f"). Did you mean {there[-1]}?\n")
    assert events(agent) == before + 1  # what the other device wrote: the relay was really asked
    assert agent.json(*at, *command, typed, code=4)["error"]["type"] == "NotFound"


@pytest.mark.parametrize("palace", [[], ["palace"]], ids=["flat", "palace"])
def test_what_only_a_relay_has_is_found_there_and_forgotten(agent, relay, palace):
    name = "a/b/c" if palace else "k"
    agent("--relay", relay, "--ledger", "other.db", *palace, "remember", name, "v")
    agent("--relay", relay, "sync")
    agent("--relay", relay, "--ledger", "other.db", *palace, "remember", f"{name}2", "v")

    found = agent.json("--relay", relay, *palace, "forget", f"{name}2")

    assert (found["was_here"], found["acks"], found["path"]) == (True, 1, f"{name}2")
    assert agent.json("--relay", relay, "--ledger", "third.db", "sync")["in_step"]
    agent("--ledger", "third.db", *palace, "recall", f"{name}2", code=4)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--anyway"], ""),
        ([], ""),
        (["--wait", "0"], " (no relay was asked)"),
    ],
    ids=["anyway", "a relay is down", "nobody is asked"],
)
@pytest.mark.parametrize(
    "command", [["forget", "gone"], ["palace", "forget", "a/b/gone"]], ids=["flat", "palace"]
)
def test_what_may_be_on_a_relay_that_was_not_asked_is_deleted_there_and_that_is_said(
    agent, dead_relay, command, options, why
):
    at = ("--relay", dead_relay)
    told = agent(*at, *command, *options).stdout
    found = agent.json(*at, *command, *options)

    assert told.startswith(
        f"no memory has that name here, deletion queued{why} · accepted by no relay yet ({dead_relay}"
    )
    assert told.count("refused the connection") <= 1
    assert (found["was_here"], len(found["deletion_id"])) == (False, 64)


def test_a_name_that_may_be_a_slip_is_pointed_out_although_its_deletion_is_requested(agent, dead_relay):
    agent("remember", "typo", "v")

    result = agent("--relay", dead_relay, "forget", "tpyo")

    assert "no memory has that name here, deletion queued" in result.stdout
    assert result.stderr == "'tpyo' is not here. Did you mean typo?\n"


@pytest.mark.parametrize(
    ("there", "command"),
    [
        (["remember", "other"], ["forget", "gone"]),
        (["palace", "remember", "a/b/other"], ["forget", "gone"]),
        (["remember", "other"], ["palace", "forget", "a/b/gone"]),
        (["palace", "remember", "a/b/other"], ["palace", "forget", "a/b/gone"]),
    ],
    ids=["flat", "flat beside a palace", "palace beside flat ones", "palace"],
)
def test_a_relay_that_does_not_answer_holds_a_forgetting_up_for_the_wait_and_no_longer(
    agent, silent_relay, there, command
):
    agent(*there, "v")
    begun = time.monotonic()

    told = agent("--relay", silent_relay, *command, "--wait", "0.2").stdout

    assert time.monotonic() - begun < IDLE_SECONDS / 2  # what the connection itself would have waited
    assert " here, deletion queued (" in told


# ── Names that only the palace has ──────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [(), ("--relay", "ws://127.0.0.1:9")], ids=["alone", "no relay answers"])
def test_a_key_that_only_one_memory_of_the_palace_has_is_enough_to_recall_it(agent, options):
    agent("remember", "people/facts/lisa", "artist")

    assert agent(*options, "recall", "lisa").stdout == "artist\n"
    found = agent.json(*options, "recall", "lisa")
    assert (found["path"], found["access_count"]) == ("people/facts/lisa", 2)
    assert found == {**agent.json("palace", "recall", "lisa"), "access_count": 2} | {
        name: found[name] for name in ("current_relevance", "last_accessed", "event_id")
    }


def test_an_old_spelling_writes_to_the_only_memory_of_the_palace_with_that_key(agent):
    agent("remember", "people/facts/ines", "writes")

    assert agent.json("palace", "remember", "ines", "paints")["path"] == "people/facts/ines"

    assert agent("palace", "recall", "ines").stdout == "paints\n"
    agent("remember", "people/beliefs/ines", "is kind")
    assert "several memories have the key 'ines'" in agent("palace", "remember", "ines", "x", code=2).stderr
    told = agent("palace", "remember", "olga", "x", code=2).stderr
    assert told.startswith("error: no palace memory here has the key 'olga'; give the path DOMAIN/FACET/KEY")


@pytest.mark.parametrize("command", ["recall", "forget"])
def test_an_old_spelling_points_to_the_flat_memory_that_has_the_name(agent, command):
    agent("remember", "editor", "vim")

    told = agent("palace", command, "editor", code=4).stderr

    assert told == (
        "error: no palace memory under 'editor' here. "
        f"To {command} the flat memory: sense-memory {command} editor\n"
    )
    assert agent("recall", "editor").stdout == "vim\n"


def test_a_key_that_a_flat_memory_has_is_that_memory_s_name(agent):
    agent("remember", "people/facts/lisa", "artist")
    agent("remember", "lisa", "a flat memory")

    assert agent("recall", "lisa").stdout == "a flat memory\n"
    assert agent("recall", "people/facts/lisa").stdout == "artist\n"
    agent("forget", "lisa")
    assert agent("recall", "lisa").stdout == "artist\n"


def test_a_key_that_several_memories_of_the_palace_have_is_an_error_that_names_them(agent):
    agent("remember", "people/facts/lisa", "artist")
    agent("remember", "people/beliefs/lisa", "kind")

    for command in (["recall"], ["history"], ["undo"], ["refresh"], ["as-of", "0 s"]):
        assert agent(*command, "lisa", code=2).stderr == (
            "error: several memories have the key 'lisa'; give the path: 'people/beliefs/lisa', 'people/facts/lisa'\n"
        )


def test_the_past_of_a_memory_of_the_palace_is_found_by_its_key_too(agent):
    for text in ("artist", "artist, teaches"):
        agent("remember", "people/facts/it's", text)

    assert agent.json("history", "it's") == agent.json("history", "people/facts/it's")
    assert agent("as-of", "0 s", "it's").stdout == "artist, teaches\n"
    assert agent.json("as-of", "0 s", "it's")["path"] == "people/facts/it's"
    assert agent.json("refresh", "it's")["path"] == "people/facts/it's"
    assert agent.json("undo", "it's")["value"] == "artist"


@pytest.mark.parametrize("options", [(), ("--wait", "0")])
def test_forgetting_a_bare_key_never_deletes_from_the_palace(agent, options):
    """Whoever forgets a flat memory twice must not lose another one by it."""
    agent("remember", "people/facts/lisa", "artist")
    before = events(agent)

    assert agent("forget", "lisa", *options, code=4).stderr == (
        "error: no flat memory under 'lisa' here. To forget the palace memory, give its path: "
        "sense-memory forget people/facts/lisa\n"
    )
    assert events(agent) == before
    agent("forget", "lisa", "--anyway")
    assert agent("recall", "people/facts/lisa").stdout == "artist\n"


def test_flat_memories_and_those_of_the_palace_are_forgotten_together_or_not_at_all(agent):
    agent("remember", "people/facts/lisa", "artist")
    agent("remember", "k", "v")

    refused = agent("forget", "k", "people/facts/lisa", "people/facts/lsia", code=4).stderr
    assert refused.startswith("error: nothing was forgotten: no memory under 'people/facts/lsia'")
    found = agent.json("forget", "k", "people/facts/lisa")["forgotten"]

    assert [(item["path"], item["was_here"]) for item in found] == [("k", True), ("people/facts/lisa", True)]
    assert agent.json("list") == agent.json("list", "--palace") == []


def test_a_detail_of_the_palace_is_refused_for_a_flat_key(agent):
    for option in ("--theme", "--connect", "--halflife", "--source", "--confidence"):
        said = agent("remember", "k", "v", option, "1", code=2).stderr
        assert said.startswith(
            f"error: {option} is for palace memories; give a path DOMAIN/FACET/KEY instead of the flat key 'k'\n"
        )
    agent("recall", "k", code=4)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["palace", "list"], ["list", "--palace"]),
        (["palace", "list", "people"], ["list", "people"]),
        (["palace", "list", "--include-forgotten"], ["list", "--palace", "--include-forgotten"]),
        (["palace", "as-of", "0 s", "people/facts"], ["as-of", "0 s", "people/facts"]),
        (["palace", "as-of", "0 s", "people"], ["as-of", "0 s", "people/"]),
        (["palace", "as-of", "0 s", "people"], ["as-of", "0 s", "--palace", "people"]),
    ],
    ids=" ".join,
)
def test_the_old_spelling_prints_what_the_new_one_prints(palace, old, new):
    assert palace(*old).stdout == palace(*new).stdout != ""
    assert [item["path"] for item in palace.json(*old)] == [item["path"] for item in palace.json(*new)]


def test_a_list_says_how_many_the_palace_holds(agent):
    assert agent("list").stderr.endswith("There are no flat memories.\n")
    agent("remember", "k", "v")
    agent("journal", "hello")
    assert agent("list").stderr == ""
    agent("palace", "remember", "people/facts/lisa", "artist")
    agent("palace", "remember", "people/facts/bob", "baker")

    assert agent("list").stderr == "2 memories in the palace: sense-memory list --palace\n"
    assert [memory["key"] for memory in agent.json("list")] == ["k"]


@pytest.mark.parametrize(
    "command", [["palace", "list"], ["palace", "recall", "lisa"], ["recent"], ["search", "artist"]]
)
def test_what_is_no_flat_memory_is_refused_and_not_flattened(agent, command):
    agent("palace", "remember", "people/facts/lisa", "artist")
    agent("journal", "an artist called")
    before = events(agent)
    told = agent.json(*command)
    printed = json.dumps(told["hits"] if command[0] == "search" else told)

    said = agent("remember", "--many", "-", stdin=printed, code=2).stderr

    assert said.startswith("error: entry 1: ")
    assert said.endswith(
        "; nothing was written. Move whole memories and journal entries with `export` and `import`.\n"
    )
    assert events(agent) - before <= (command[1:2] == ["recall"])


def test_what_list_and_recall_print_is_taken_back(agent):
    agent("remember", "k", "v")
    for command in (["list"], ["recall", "k"]):
        printed = agent("--json", *command).stdout
        found = agent.json("--ledger", f"{command[0]}.db", "remember", "--many", "-", stdin=printed)
        assert found["count"] == 1
        assert agent("--ledger", f"{command[0]}.db", "recall", "k").stdout == "v\n"


# ── Commands that there are not ─────────────────────────────────────────────────────────


ROOT = typer.main.get_command(app)
GROUPS = {"": ROOT, " palace": ROOT.commands["palace"], " relays": ROOT.commands["relays"]}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("get", "recall"),
        ("set", "remember"),
        ("add", "remember"),
        ("rm", "forget --help"),
        ("delete", "forget --help"),
        ("del", "forget --help"),
        ("ls", "list"),
        ("find", "search"),
        ("recal", "recall"),
        ("palace add", "remember"),
        ("palace rm", "forget --help"),
        ("relays ls", "relays list"),
        ("relays rm", "relays remove --help"),
        ("introspect", "palace introspect"),
        ("prune", "palace prune --help"),
        ("blocks", "mind blocks"),
        ("palace undo", "undo"),
    ],
)
def test_the_word_of_another_program_leads_to_our_command(cli, typed, meant):
    told = cli(*typed.split(), "x", code=2).stderr.splitlines()[0]
    assert told.startswith(f"error: no command '{typed.split()[-1]}'; ")
    assert told.endswith(f": sense-memory {meant}")


def test_no_slip_of_the_finger_leads_to_a_command_that_destroys_something():
    """Every word that one slip makes of a command: a letter left out, doubled, replaced, or swapped with the next."""
    root = ROOT.context_class(ROOT, info_name="sense-memory")
    for group, command in GROUPS.items():
        context = (
            root if command is ROOT else ROOT.context_class(command, info_name=group.strip(), parent=root)
        )
        names = list(command.commands)
        for name in names:
            slips = {
                name[:at] + put + name[at + cut :]
                for at in range(len(name))
                for put in ("", "x")
                for cut in (0, 1)
            }
            slips |= {
                name[:at] + name[at + 1 : at + 2] + name[at] + name[at + 2 :] for at in range(len(name))
            }
            for typed in slips - set(names):
                told = no_command(typed, context)
                assert not any(word in told.partition(";")[2] for word in ("forget", "prune", "remove")), told


# ── Several names ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("command", "write"),
    [(["forget"], ["remember"]), (["palace", "forget"], ["palace", "remember"])],
    ids=["flat", "palace"],
)
def test_several_names_are_forgotten_with_one_request_or_none_of_them(agent, relay, command, write):
    names = ["a", "b", "c"] if command == ["forget"] else ["x/y/a", "x/y/b", "c"]
    for name in names:
        agent(*write, name if "/" in name or command == ["forget"] else "x/y/c", "v")
    before = events(agent)

    refused = agent("--relay", relay, *command, *names, "x/y/z" if "/" in names[0] else "z", code=4)
    assert refused.stdout == ""
    assert refused.stderr.startswith("error: nothing was forgotten: no memory under '")
    assert events(agent) == before

    nowhere = agent(
        "--relay", relay, *command, *(f"x/y/{name}" if "/" in names[0] else name for name in "zwv"), code=4
    )
    assert nowhere.stderr.startswith("error: nothing was forgotten (")
    assert nowhere.stderr.partition("): ")[0].replace("x/y/", "").endswith("(not here: z, w, v")

    told = agent("--relay", relay, *command, *names[:2], names[0]).stdout
    assert told == "2 memories forgotten here, deletion requested · accepted by 1 relay\n"
    anyway = "x/y/z" if "/" in names[0] else "z"
    found = agent.json("--relay", relay, *command, names[2], anyway, "--anyway")
    assert [item["was_here"] for item in found["forgotten"]] == [True, False]
    assert len({item["deletion_id"] for item in found["forgotten"]}) == found["acks"] == 1
    assert agent.json("list") == agent.json("palace", "list") == []

    told = agent(*command, *names[:2], "--anyway").stdout
    assert told == "none of these 2 names has a memory here · no relays are configured\n"
