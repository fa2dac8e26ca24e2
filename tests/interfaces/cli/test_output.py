"""What `--json` prints: every command, really run, against the table of docs/json.md, field by field."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import time
from pathlib import Path

import pytest
import typer

from scripts.generate_json_docs import generated
from sense_memory import LocalSigner, MemoryStore
from sense_memory.errors import ClockSkewError
from sense_memory.interfaces.cli import app
from sense_memory.interfaces.cli.output import relay_data
from sense_memory.interfaces.shapes import shape_of
from sense_memory.models import Change


TABLE = Path(__file__).parents[3] / "docs" / "json.md"
IS_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z").fullmatch
SIMPLE = {
    "text": lambda value: isinstance(value, str),
    "time": lambda value: isinstance(value, str) and IS_TIME(value),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "value": lambda _: True,
}
OBJECTS = {"counts": "number", "times": "time", "texts": "text", "object": "value"}  # of values of one kind
ENDLESS = {"api", "relay", "watch", "web"}
NEEDS_MORE = {
    "drafts",
    "drafts --publish",
    "drafts --discard",
    "embed",
    "backup",
    "mind scenes join",
    "mind shared",
}


def read_things(page):
    """The fields of every thing that has a table of its own."""
    found = {}
    for part in page.partition("## Things")[2].split("\n### ")[1:]:
        name, _, rest = part.partition("\n")
        assert name not in found, f"{name} twice"
        found[name] = dict(re.findall(r"^\| `(\w+)` \| ([\w ]+) \|", rest, re.MULTILINE))
    return found


def read_table():
    """The things with their fields, and the thing that each command prints, with how it is arranged."""
    page = TABLE.read_text("utf-8")
    rows = [
        [cell.strip() for cell in line.strip("| \n").split("|")]
        for line in page.partition("## Things")[0].splitlines()
        if line.startswith("| ")
    ][1:]
    fields, prints, rests = read_things(page), {}, {}
    for thing, commands, cell in rows:
        has_own_table = cell.startswith(f"[its fields](#{thing.replace(' ', '-')})")
        assert (thing in fields) == has_own_table, f"{thing} twice"
        fields[thing] = fields.get(thing, {}) | dict(re.findall(r"`(\w+)` ([\w ]+)", cell))
        parts = [part.removeprefix("and ") for part in cell.split(", ") if "`" not in part]
        rests[thing] = [part for part in parts if not part.startswith("[")]
        for name, arranged, more in re.findall(r"`([^`]+)`(?: \((\w+)\))?( and a write)?", commands):
            prints[name] = thing, arranged, bool(more)
    for thing, others in rests.items():
        for other in others:
            fields[thing] |= fields[re.sub("^an? ", "", other)]
    return fields, prints


FIELDS, PRINTS = read_table()


def differences(value, kind, where=""):
    """What is wrong with a value that should be of some kind, in words."""
    optional = kind.removesuffix(" or null")
    if optional != kind and value is None:
        return
    kind, many = optional.removeprefix("list of "), optional.startswith("list of ")
    if many:
        if not isinstance(value, list):
            yield f"{where} is no list: {value!r}"
            return
        for number, item in enumerate(value):
            yield from differences(item, kind, f"{where}[{number}]")
    elif kind in SIMPLE:
        if not SIMPLE[kind](value):
            yield f"{where} is no {kind}: {value!r}"
    elif not isinstance(value, dict):
        yield f"{where} is no {kind}: {value!r}"
    elif kind in OBJECTS:
        for name, item in value.items():
            yield from differences(item, OBJECTS[kind], f"{where}.{name}")
    else:
        yield from of_fields(value, FIELDS[kind], where or kind)


def of_fields(value, fields, where):
    if value.keys() != fields.keys():
        yield f"{where}: not in the table {value.keys() - fields.keys()}, missing {fields.keys() - value.keys()}"
        return
    for name, kind in fields.items():
        yield from differences(value[name], kind, f"{where}.{name}")


def leaves(command, path=()):
    """Every command that does something, by its words."""
    children = getattr(command, "commands", {})
    if not children or command.invoke_without_command:
        yield " ".join(path)
    for name, child in children.items():
        if not child.hidden:
            yield from leaves(child, (*path, name))


def test_the_page_has_the_fields_of_the_declared_shapes():
    page = TABLE.read_text("utf-8")

    assert page == generated(page), "run `make json-docs`"
    assert not re.findall(r"^\| `\w+` \| [\w ]+ \|  \|$", page, re.MULTILINE), (
        "every field says what it means"
    )


def test_the_table_names_every_command_and_no_other():
    silent = {
        *("hook turn-end", "hook pre-compact", "hook session-end"),
        "mcp",
    }  # what they printed would be taken for instructions, or for the protocol
    commands = set(leaves(typer.main.get_command(app))) - {""} - silent

    assert commands == {re.sub(r" (--\w+|[A-Z]+)$", "", name) for name in PRINTS} - {"palace search"}


@pytest.fixture
def drafted(palace, home):
    """Makes drafts under keys, by a clock that is a day behind."""

    def make(*keys):
        (ledger,) = (home / "ledgers").glob("*.db")
        palace("remember", "--many", "-", stdin=json.dumps(dict.fromkeys(keys, "before")))
        asyncio.run(write(ledger, keys))

    async def write(ledger, keys):
        behind = time.time() - 86_400
        signer = LocalSigner.from_hex("01" * 32)
        async with MemoryStore(signer, ledger=ledger, background=False, clock=lambda: behind) as store:
            for key in keys:
                with pytest.raises(ClockSkewError):
                    await store.remember(key, "after")

    return make


@pytest.fixture
def checked(palace):
    """Runs a command of the table and compares what it prints with it; returns that."""

    def run(name, *args, stdin=None, code=0):
        printed = palace("--json", *args, stdin=stdin, code=code).stdout
        thing, arranged, writes = PRINTS[name]
        found = list(map(json.loads, printed.splitlines())) if arranged == "lines" else json.loads(printed)
        is_list = arranged in {"list", "lines"}
        assert isinstance(found, list) == is_list, name
        assert found, f"{name} printed nothing to check"
        for item in found if is_list else [found]:
            fields = FIELDS[thing] | (FIELDS["write"] if writes else {})
            assert not list(of_fields(item, fields, name))
        run.names.add(name)
        return found

    run.names = set()
    return run


STEPS = """
remember           | --relay RELAY remember k v
remember           | remember k w
recall             | recall k
list               | list
history            | history k
undo               | undo k
refresh            | refresh k
as-of              | as-of 0s
as-of KEY          | as-of 0s k
journal            | journal "Lisa called."
recent             | recent
search             | search lisa
forget             | --relay RELAY forget k
forget NAMES       | forget nowhere nothing --anyway
addresses          | --relay RELAY addresses
trust              | trust --source tool:browser
quarantine         | quarantine --source tool:browser --yes
revoke             | revoke --source tool:browser
mirror             | mirror . --only "*.jsonl"
rotate --plan      | rotate --plan
forget --plan      | forget --everything --plan
sync               | --relay RELAY sync
status             | --relay RELAY status
doctor             | --relay RELAY doctor
relays add         | relays add RELAY
relays list        | relays list
relays remove      | relays remove RELAY
relays presets     | relays presets
audit              | --relay RELAY audit --heal
relays publish     | --relay RELAY relays publish
access             | access
access code        | access code
access revoke      | access revoke --all
agents             | agents
remember PATH      | remember people/facts/lisa-moved "Lisa lives in Lisbon."
palace show        | --relay RELAY palace show lisa
recall PATH        | recall lisa
recall PATH        | palace recall people/facts/lisa
list --palace      | list --palace
list --palace      | palace list
as-of PATH         | as-of 0s people/facts/lisa
as-of --palace     | as-of 0s --palace
undo PATH          | undo lisa
palace search      | palace search voice
palace connect     | palace connect lisa voice
palace disconnect  | palace disconnect lisa voice
palace dismiss     | palace dismiss lisa voice
palace contradict  | palace contradict tram lisa
palace reconcile   | palace reconcile tram lisa
palace pin         | palace pin lisa
palace unpin       | palace unpin lisa
palace             | palace
palace domains     | palace domains
palace facets      | palace facets people
palace stats       | palace stats
palace plot        | palace plot
palace compress    | palace compress
palace introspect  | palace introspect
palace introspect  | palace introspect
palace introspect --schedule | palace introspect --schedule 1h --count 1
palace prune       | palace prune --dry-run
forget             | forget people/facts/lisa
forget NAMES       | palace forget people/facts/nobody people/facts/none --anyway
mind blocks append | mind blocks append human "Name: Lisa."
mind blocks set    | mind blocks set persona "I am a baker." --read-only
mind blocks list   | mind blocks list
mind blocks show   | mind blocks show human
mind blocks replace | mind blocks replace human Lisa Elisa
mind blocks create | mind blocks create style "Short sentences."
mind blocks history | mind blocks history human
mind blocks delete | mind blocks delete style
mind blocks compile | mind blocks compile
mind archive add   | mind archive add "Lisa paints with oil on wood." --tag art --classify
mind archive list  | mind archive list
mind topics        | mind topics
mind topics merge  | mind topics merge lisa --into painting
mind identity refresh | mind identity refresh
mind identity set  | mind identity set --value "never share private keys"
mind identity show | mind identity show
mind identity history | mind identity history
mind objectives add | mind objectives add "Finish the portrait"
mind objectives list | mind objectives list
mind log append    | mind log append "It rains." --kind world.observed --actor world
mind log show      | mind log show --since 1h
mind overview      | mind overview
mind reflect       | mind reflect world --belief "It rains a lot."
mind conversations add | --relay RELAY mind conversations add chat "Where were we?"
mind conversations add | mind conversations add chat "At the kiln." --role assistant
mind conversations list | mind conversations list
mind conversations show | mind conversations show chat
mind conversations compact | mind conversations compact chat --window 5
mind search        | mind search lisa
mind prompt        | mind prompt --conversation chat
search --in        | search --in mind lisa
mind scenes create | --relay RELAY mind scenes create village --as baker
mind scenes invite | mind scenes invite village npub17qr2rr2k20zwmaferler5c0s8lur6gm73q8wvyv8l20n0xsz3c9q7m7fll smith
mind scenes append | mind scenes append village "It rains." --actor world
mind scenes log    | mind scenes log village
mind scenes list   | mind scenes list
mind scenes sync   | mind scenes sync village
mind scenes remove | mind scenes remove village npub17qr2rr2k20zwmaferler5c0s8lur6gm73q8wvyv8l20n0xsz3c9q7m7fll
mind scenes leave  | mind scenes leave village
mind share         | --relay RELAY mind share people/facts npub17qr2rr2k20zwmaferler5c0s8lur6gm73q8wvyv8l20n0xsz3c9q7m7fll
mind unshare       | --relay RELAY mind unshare people/facts npub17qr2rr2k20zwmaferler5c0s8lur6gm73q8wvyv8l20n0xsz3c9q7m7fll
export             | export all.jsonl
init               | --agent bob init
install            | install zed --yes
install --list     | install --list
uninstall          | uninstall zed
hook session-start | hook session-start
completion         | completion bash
help               | help recall
"""


def test_every_command_prints_what_the_table_says(checked, palace, relay, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for step in STEPS.replace("RELAY", relay).strip().splitlines():
        name, line = step.split("|")
        checked(name.strip(), *shlex.split(line))
    checked("remember --many", "remember", "--many", "-", stdin='{"a": "1"}')
    homes = [
        {"domain": "people", "facet": "facts", "key": key, "value": f"Nora lives in {city}."}
        for key, city in (("nora", "Berlin"), ("nora-2", "Lisbon"))
    ]
    assert checked("remember --many", "remember", "--many", "-", stdin=json.dumps(homes))["superseded"]
    assert checked("remember PATH", "remember", "people/facts/nora-3", "Nora lives in Rome.")["superseded"]
    said = {"type": "user", "timestamp": "2026-11-22T10:00:00Z", "content": "Always answer in German."}
    (tmp_path / "t.jsonl").write_text(json.dumps(said))
    palace("hook", "turn-end", stdin=json.dumps({"transcript_path": str(tmp_path / "t.jsonl")}))
    (proposed,) = checked("palace review", "palace", "review")
    checked("palace review", "palace", "review", "--accept", proposed["id"])
    (entry,) = checked("recent", "recent")
    checked("journal --remove", "journal", "--remove", entry["event_id"])
    (objective,) = checked("mind objectives list", "mind", "objectives", "list")
    checked("mind objectives done", "mind", "objectives", "done", objective["id"][:6])
    (passage,) = checked("mind archive list", "mind", "archive", "list")
    checked("mind archive forget", "mind", "archive", "forget", passage["id"])
    (tmp_path / "bad.jsonl").write_text("{}\n")
    checked("import", "import", "all.jsonl", "bad.jsonl", "none.jsonl", code=1)
    for name in ("check", "bisect"):
        checked(name, name, "-", stdin='must put "Oslo" into a prompt', code=1)
    checked("rotate", "rotate", "--yes")
    checked("forget --everything", "forget", "--everything", "--yes")
    assert PRINTS.keys() - checked.names == NEEDS_MORE | ENDLESS


def test_a_failure_is_an_error_of_the_table(agent):
    assert not list(of_fields(agent.json("recall", "none", code=4), FIELDS["error"], "recall"))


def test_what_needs_an_embedder_a_password_or_a_wrong_clock_prints_what_the_table_says(
    checked, cheap, drafted, monkeypatch
):
    checked("backup", "backup", "usb", "--password-stdin", stdin="correct horse battery staple\n")
    drafted("a", "b")
    first, second = checked("drafts", "drafts")
    checked("drafts --publish", "drafts", "--publish", first["number"])
    checked("drafts --discard", "drafts", "--discard", second["number"])
    monkeypatch.setenv("SENSE_MEMORY_EMBEDDER", "ollama:none@http://127.0.0.1:9")
    checked("embed", "embed", "--dry-run")
    checked("status", "status")


def test_a_change_and_a_running_relay_are_what_the_table_says():
    """As they are printed by commands that do not end; those are run in tests of their own."""
    change = Change(kind="forgotten", path="persona/a/b/c", key="c", created_at=1.5, event_id="e")
    assert not list(of_fields(shape_of(change), FIELDS["change"], "watch"))
    assert shape_of(change)["path"] == "a/b/c"
    assert not list(of_fields(relay_data("wss://a.example"), FIELDS["relay"], "relay"))
