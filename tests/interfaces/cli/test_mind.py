"""The commands of the mind: as a person reads them, and two agents who share a scene."""

from __future__ import annotations

import subprocess
import sys

from tests.time_unit import SECOND


def test_a_block_is_written_read_and_compiled(agent):
    assert agent("mind", "blocks", "append", "human", stdin="Name: Lisa.\n").stdout == (
        "human is at version 1: 11 of 20,000 characters\n"
    )
    agent("mind", "blocks", "replace", "human", "Lisa", "Elisa")

    assert agent("mind", "blocks", "show", "human").stdout == "Name: Elisa.\n"
    assert "<human>" in agent("mind", "blocks", "compile").stdout
    assert agent("mind", "blocks", "list", "--compiled").stdout == agent("mind", "blocks", "compile").stdout
    assert agent.json("mind", "blocks", "compile")["text"] + "\n" == agent("mind", "blocks", "compile").stdout
    assert [block["version"] for block in agent.json("mind", "blocks", "history", "human")] == [2, 1]
    agent("mind", "blocks", "set", "human", "--read-only")
    assert agent("mind", "blocks", "append", "human", "more", code=2).stdout == ""
    assert agent("mind", "blocks", "show", "none", code=2).stdout == ""
    told = agent("mind", "blocks", "delete", "human").stdout
    assert told == "human is deleted here · no relays are configured\n"


def test_a_conversation_is_compacted_and_still_found(agent):
    for number in range(12):
        agent(
            "mind", "conversations", "add", "chat", f"Part {number} of the recipe needs salt.", "--wait", "0"
        )

    told = agent("mind", "conversations", "compact", "chat", "--window", "60")

    assert "summarised" in told.stderr
    assert agent("mind", "conversations", "list").stdout == "chat\t12\n"
    assert agent("mind", "conversations", "show", "chat").stdout.startswith("[summary of ")
    shown = agent.json("mind", "conversations", "show", "chat", "--in-context")
    assert shown["covered_count"] + len(shown["messages"]) == 12
    (hit,) = agent.json("mind", "search", "part", "0", "-n", "1", "--within", "conversation")
    assert hit["text"].startswith("Part 0")
    assert agent("mind", "conversations", "show", "none", code=4).stdout == ""


def test_a_prompt_has_what_memory_knows_and_says_what_was_left_out(agent):
    agent("mind", "blocks", "append", "persona", "I am patient.")
    agent("mind", "archive", "add", "The felt of the press is 3 mm thick.")
    agent("mind", "conversations", "add", "chat", "How thick is the felt?")

    shown = agent("mind", "prompt", "--conversation", "chat", "--instructions", "Be kind.")
    assert shown.stdout.startswith(
        "Be kind.\n\n<persona>\nI am patient.\n</persona>\n\nuser: <recalled_memories>"
    )
    assert "The felt of the press is 3 mm thick.\n</recalled_memories>" in shown.stdout
    assert shown.stdout.endswith("] How thick is the felt?\n")
    assert shown.stderr.endswith(" of 8,000 tokens\n")
    found = agent.json("mind", "prompt", "press", "--budget", "240", "--scene", "A workshop.")
    assert "A workshop." in found["messages"][0]["content"]
    assert found["report"]["tokens"] <= 240
    assert (
        "raise the budget"
        in agent("mind", "prompt", "--instructions", "x " * 99, "--budget", "99", code=2).stderr
    )


def test_thoughts_gather_under_topics_and_an_identity(agent):
    for text in ("Lisa paints with oil on wood.", "Lisa paints with oil on canvas."):
        agent("mind", "archive", "add", text, "--tag", "art", "--classify")
    agent("mind", "objectives", "add", "Finish the portrait", "--priority", "1")

    assert agent("mind", "topics").stdout.count("\t2\t") == 1
    assert agent("mind", "identity", "show").stdout == ""
    values = ("--value", "never share private keys", "--value", "plain words")
    assert agent.json("mind", "identity", "set", *values, "--role", "archivist")["covered"] == 0
    refreshed = agent.json("mind", "identity", "refresh")
    assert (refreshed["covered"], refreshed["roles"][0]) == (2, "archivist")
    assert refreshed["values"][:2] == ["never share private keys", "plain words"]
    shown = agent("mind", "identity", "set", "--value", "").stdout
    assert "I am a archivist." in shown
    assert "I value" not in shown
    assert agent("mind", "identity", "set", code=2).stdout == ""
    (objective,) = agent.json("mind", "objectives", "list")
    assert agent("mind", "objectives", "done", objective["id"][:8]).stdout == "done: Finish the portrait\n"
    assert agent.json("mind", "objectives", "list") == []
    first, _ = agent.json("mind", "archive", "list", "--tag", "art")
    told = agent("mind", "archive", "forget", first["id"][:10]).stdout
    assert told == f"passage {first['id']} is forgotten here · no relays are configured\n"
    assert len(agent.json("mind", "archive", "list")) == 1


def test_two_agents_share_a_scene(agent, relay, home):
    bob = ("--agent", "bob", "--relay", relay)
    npub = agent.json("--agent", "bob", "init")["npub"]
    agent("--relay", relay, "mind", "scenes", "create", "village", "--as", "baker")
    text = agent("--relay", relay, "mind", "scenes", "invite", "village", npub, "smith").stdout

    agent(*bob, "mind", "scenes", "join", "-", stdin=text)
    agent(*bob, "mind", "scenes", "append", "village", "the mill burns")
    agent("--relay", relay, "mind", "scenes", "sync", "village")

    (entry,) = agent.json("--relay", relay, "mind", "scenes", "log", "village")
    assert (entry["actor"], entry["text"]) == ("smith", "the mill burns")
    assert agent(*bob, "mind", "scenes", "append", "village", "I confess", "--actor", "baker", code=2)
    assert agent("mind", "scenes", "log", "none", code=4).stdout == ""

    for ledger in home.rglob("*.scene-????????????????"):
        ledger.write_bytes(b"not a ledger")
    assert ".scene-" in agent("mind", "scenes", "log", "village", code=1).stderr
    told = agent("mind", "scenes", "leave", "village").stdout
    assert told == "left village; its keys are forgotten here · no relays are configured\n"
    assert agent.json("mind", "scenes", "list") == []


def test_a_scene_that_its_relay_refuses_or_does_not_answer_says_so(agent, refusing_relay, dead_relay):
    for relay, why in ((refusing_relay, "blocked"), (dead_relay, "refused the connection")):
        made = agent("--relay", relay, "mind", "scenes", "create", f"scene of {why}", "--as", "baker")
        first = "refused by" if why == "blocked" else "not yet sent to"
        assert f"kept here, {first} {relay}; " in made.stderr
        says = f"{relay} does not hold all of the scene ({why}); its entries are kept here"
        told = agent("mind", "scenes", "append", f"scene of {why}", "the mill burns")
        assert says in told.stderr
        again = agent("mind", "scenes", "sync", f"scene of {why}", code=3)
        assert (again.stdout, says in again.stderr) == (f"scene of {why}: 1 entry\n", True)


def test_status_and_sync_name_the_scenes_whose_events_wait_for_a_relay_or_were_refused(
    agent, relay, refusing_relay, dead_relay, home
):
    for url, name in ((refusing_relay, "refused"), (dead_relay, "waiting"), (relay, "sent")):
        made = agent.json("--relay", url, "mind", "scenes", "create", name, "--as", "baker")
        agent("mind", "scenes", "append", name, "the mill burns")
        if name == "waiting":
            waits = f"to send: sense-memory mind scenes sync {made['id']}\n"

    told = agent("--relay", relay, "status").stdout
    assert f"scene refused: 1 event refused by {refusing_relay}\n" in told
    assert f"scene waiting: 1 event waits for {dead_relay}; {waits}" in told
    assert "scene sent" not in told
    found = {scene["name"]: scene for scene in agent.json("status")["scenes"]}
    assert (found["waiting"]["waiting"], found["refused"]["refused"]) == (
        {dead_relay: 1},
        {refusing_relay: 1},
    )
    assert found["sent"]["waiting"] == found["sent"]["refused"] == {}
    assert waits in agent("--relay", relay, "sync").stdout

    for ledger in home.rglob("*.scene-????????????????"):
        ledger.write_bytes(b"not a ledger")
    assert ".scene-" in agent("status").stdout


def test_what_is_deleted_says_what_relays_were_asked_and_which_accepted(agent, relay, dead_relay):
    """As `forget` does: here and now, then what the relays of this command know."""
    answers = (
        ("--relay", relay, "deletion requested · accepted by 1 relay"),
        ("--relay", dead_relay, f"deletion queued · accepted by no relay yet ({dead_relay}: not contacted)"),
    )
    for *at, words in answers:
        waits = ("--wait", "0") if "queued" in words else ()
        agent("mind", "blocks", "append", "human", "Name: Lisa.")
        passage = agent.json("mind", "archive", "add", "Lisa paints.")["id"]
        agent("mind", "scenes", "create", "village", "--as", "baker")
        for command, done in (
            (("blocks", "delete", "human"), "human is deleted"),
            (("archive", "forget", passage), f"passage {passage} is forgotten"),
            (("scenes", "leave", "village"), "left village; its keys are forgotten"),
        ):
            assert agent(*at, "mind", *command, *waits).stdout == f"{done} here, {words}\n"


def test_a_member_is_removed_by_the_name_that_the_list_shows_or_by_its_key(agent, relay):
    npubs = [agent.json("--agent", name, "init")["npub"] for name in ("bob", "eve")]
    ours = ("--relay", relay, "mind", "scenes")
    agent(*ours, "create", "village", "--as", "baker")
    for npub, name in zip(npubs, ("smith", "miller"), strict=True):
        agent(*ours, "invite", "village", npub, name, "--wait", "0")

    assert "only baker, miller, smith" in agent(*ours, "remove", "village", "none", code=4).stderr
    assert sorted(agent.json(*ours, "remove", "village", "smith", "--wait", "0")["members"].values()) == [
        "baker",
        "miller",
    ]
    assert list(agent.json(*ours, "remove", "village", npubs[1], "--wait", "0")["members"].values()) == [
        "baker"
    ]


def test_a_removed_member_is_told_by_sync_list_and_log_but_not_before_its_device_knows(agent, relay, home):
    mia, ours = (("--agent", "mia", "--relay", relay, "mind", "scenes"), ("--relay", relay, "mind", "scenes"))
    npub = agent.json("--agent", "mia", "init")["npub"]
    ident = agent.json(*ours, "create", "village", "--as", "baker")["id"]
    text = agent(*ours, "invite", "village", npub, "mia").stdout
    agent(*mia, "join", "-", stdin=text)
    agent(*mia, "append", "village", "the mill burns")
    assert agent(*mia, "sync", "village").stdout == "village: 1 entry\n"
    agent(*ours, "sync", "village")
    assert agent.json(*ours, "remove", "village", "mia")["is_member"]
    assert agent(*mia, "list").stdout == f"{ident}\tvillage\tbaker, mia\n"  # it has not synced since

    still_seen = (
        "of your entries, the others see only those that the owner's device had when it removed you\n"
    )
    told = agent(*mia, "sync", "village").stdout
    assert told == f"village: 1 entry; the owner removed you from it: {still_seen}"
    known = agent.json(*mia, "sync", "village")
    assert (list(known["members"].values()), known["is_member"]) == (["baker"], False)
    assert agent(*mia, "list").stdout == f"{ident}\tvillage\tbaker (the owner removed you)\n"
    assert [scene["is_member"] for scene in agent.json(*mia, "list")] == [False]
    for form in ((), ("--json",)):
        log = agent(*mia, "log", "village", *form)
        assert log.stderr == f"the owner removed you from this scene: {still_seen}"
    assert agent(*ours, "log", "village").stderr == ""

    agent(*mia, "join", "-", stdin=agent(*ours, "invite", "village", npub, "mia").stdout)
    assert agent.json(*mia, "sync", "village")["is_member"]
    assert agent(*mia, "list").stdout == f"{ident}\tvillage\tbaker, mia\n"
    for ledger in home.rglob("*.scene-????????????????"):
        ledger.write_bytes(b"not a ledger")
    assert "baker, mia" in agent(*mia, "list").stdout  # a damaged ledger tells of no removal


def test_a_facet_is_shared_read_by_the_other_agent_and_taken_back(agent, relay):
    bob = ("--agent", "bob", "--relay", relay)
    npub, mine = agent.json("--agent", "bob", "init")["npub"], agent.json("status")["npub"]
    agent("remember", "people/facts/lisa", "artist", "--theme", "art")
    agent("remember", "people/secrets/lisa", "afraid of geese")
    text = agent("--relay", relay, "mind", "share", "people/facts", npub).stdout

    assert "mind scenes join" in agent(*bob, "mind", "shared").stderr
    agent(*bob, "mind", "scenes", "join", "-", stdin=text)

    (found,) = agent.json(*bob, "mind", "shared")
    assert (found["owner"], found["path"], found["value"]) == (mine, "people/facts/lisa", "artist")
    assert agent(*bob, "mind", "shared").stdout == f"{mine}\tpeople/facts/lisa\tactive\tartist\n"
    assert (
        "run `sense-memory sync`" in agent("--relay", relay, "mind", "unshare", "people/facts", npub).stdout
    )
    assert "not shared" in agent("mind", "unshare", "people/secrets", npub, code=2).stderr
    assert "DOMAIN/FACET" in agent("mind", "share", "people", npub, code=2).stderr


def test_a_search_says_that_it_leaves_the_mind_out_and_asks_it_on_request(agent):
    agent("remember", "tea", "Darjeeling")
    assert agent("search", "starter").stderr == "Nothing was found.\n"
    agent("mind", "conversations", "add", "chat", "The starter is called Bubbles.")

    assert "--in mind" in agent("search", "starter").stderr
    told = agent("search", "--in", "flat,mind", "starter Darjeeling")
    assert [line.split("\t")[0] for line in told.stdout.splitlines()] == ["flat", "mind"]
    assert told.stderr == ""
    (hit,) = agent.json("search", "--in", "mind", "what is the starter called")["in_mind"]
    assert (hit["place"], hit["conversation"]) == ("conversation", "chat")
    assert "--in mind" in agent("search", "--in", "mind", "--since", "today", "tea", code=2).stderr


def test_a_wrong_command_of_the_mind_is_told_the_one_that_is_meant(agent):
    assert "sense-memory mind search" in agent("mind", "archive", "search", "x", code=2).stderr
    assert "sense-memory mind identity refresh" in agent("mind", "identity", "distill", code=2).stderr
    assert agent("mind", "topics", "list").stderr == agent("mind", "topics").stderr
    agent("mind", "archive", "add", "Lisa paints.", "--tag", "art")
    assert "--classify" in agent("mind", "identity", "refresh").stdout


def test_topics_are_merged_and_passages_found_by_tag_and_topic(agent):
    agent("mind", "archive", "add", "Lisa paints with oil on wood.", "--tag", "art", "--classify")
    agent("mind", "archive", "add", "The kiln broke during the night.", "--tag", "shop", "--classify")
    names = [topic["name"] for topic in agent.json("mind", "topics")]
    assert len(names) == 2

    assert agent("mind", "topics", "merge", *names, "--into", "craft").stdout.startswith(
        "merged into craft: 2 passages"
    )

    assert [topic["name"] for topic in agent.json("mind", "topics")] == ["craft"]
    (hit,) = agent.json("mind", "search", "kiln oil wood", "--tag", "shop")
    assert hit["text"] == "The kiln broke during the night."
    assert len(agent.json("mind", "search", "kiln oil wood", "--topic", "craft")) == 2
    assert agent("mind", "topics", "merge", "none", "--into", "x", code=2).stdout == ""


def test_what_did_not_fit_a_request_is_counted(agent, monkeypatch):
    monkeypatch.setattr("sense_memory.mind.reflection.MAX_LISTED_CHARS", 60)
    monkeypatch.setattr("sense_memory.mind.layers.topic_choice.MAX_LISTED_CHARS", 60)
    about = ("--kind", "world.observed", "--actor", "world", "--wait", "0")
    for day in ("Monday", "Tuesday", "Friday"):
        agent("mind", "log", "append", f"The mill stood still on {day}.", *about)
    told = agent("mind", "reflect", "baker", "--threshold", "3")
    assert "2 older ones did not fit the request" in told.stderr
    agent("mind", "log", "append", "We decided to mend the mill.", *about)
    assert agent.json("mind", "reflect", "baker", "--threshold", "1")["entry"]["left_out"] == 0

    for text in ("Sourdough wants warm water.", "Violins want hide glue."):
        agent("mind", "archive", "add", text, "--classify", "--wait", "0")
    assert (
        "1 topic with the fewest passages did not fit"
        in agent("mind", "identity", "refresh", "--wait", "0").stderr
    )
    assert agent.json("mind", "identity", "show")["left_out"] == 1


def test_an_agent_reflects_when_it_is_due_or_with_a_belief_of_its_own(agent):
    for _ in range(3):
        agent(
            "mind",
            "log",
            "append",
            "The mill stands still.",
            "--kind",
            "world.observed",
            "--actor",
            "world",
            "--wait",
            "0",
        )
    whole = agent("mind", "log", "show").stdout.split("\t")[0]
    assert whole in {entry["id"] for entry in agent.json("mind", "log", "show")}

    assert agent("mind", "reflect", "baker").stdout == ""
    assert agent.json("mind", "reflect", "baker")["entry"] is None
    found = agent.json("mind", "reflect", "baker", "--threshold", "3")["entry"]
    assert (len(found["based_on"]) > 0, found["actor"]) == (True, "baker")
    own = agent.json("mind", "reflect", "baker", "--belief", "The miller lies.", "--based-on", whole[:12])[
        "entry"
    ]

    assert (own["belief"], own["based_on"]) == ("The miller lies.", [whole])
    assert agent("mind", "reflect", "baker", "--based-on", whole, code=2).stderr


def test_a_table_on_a_terminal(agent, terminal):
    agent("mind", "archive", "add", "Lisa paints with oil on wood.", "--tag", "art")

    shown = terminal("mind", "archive", "list")

    assert "tags, topics" in shown.splitlines()[0]
    assert "Lisa paints" in shown


def test_other_commands_do_not_build_those_of_the_mind():
    """They would take each command some time at its start."""
    code = (
        "import sys, typer; from sense_memory.interfaces.cli import app; typer.main.get_command(app); "
        "sys.exit('sense_memory.interfaces.cli.mind.log' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=30 * SECOND)

    assert done.returncode == 0
