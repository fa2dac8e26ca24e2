"""The matrix of named cases: which test holds each row. `python -m tests.rows` writes the table into tests/README.md.

A test named after a row (`test_w01_…` of row W-01) is found by itself; `BY_HAND` has tests with other names. A row of
later work is in `PLANNED`, with its area. `tests/test_rows.py` fails where a row has no test, a test does not exist, or
the table is not the one that would be written.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


TESTS = Path(__file__).parent
README = TESTS / "README.md"
BEGIN, END = "<!-- rows: begin -->\n", "<!-- rows: end -->\n"
SHOWN = 3  # tests named for each row

AREAS = {
    "W": "Wire input",
    "E": "Events and authenticity",
    "C": "Encryption",
    "R": "Relays",
    "V": "Versions and races",
    "T": "Time",
    "P": "Publishing",
    "D": "Deletion",
    "L": "Ledger",
    "K": "Keys and secrets",
    "I": "Interfaces",
    "M": "Mirrored folders",
    "F": "Fresh starts",
    "S": "Supply",
}
ROWS = """
W-01 deep nesting is refused before parsing
W-02 oversized frame closes that relay only
W-03 compression is not offered
W-04 lone surrogate is malformed
W-05 escapes do not change the id
W-06 numbers must be plain integers
W-07 duplicate keys never split the truth
W-08 hex is exact
W-09 unknown or short frames are ignored
W-10 wrong subscription id never delivers
W-11 notice text is data
W-12 fuzzed frames only raise listed errors
E-01 bad signature is dropped
E-02 id must match content
E-03 other author is dropped before decrypt
E-04 known id with other body is verified again
E-05 failed verification is not cached
E-06 forged copy never hides the real event
E-07 cursor ignores unverified time
E-08 filter is enforced locally
E-09 misfiled ciphertext is rejected
E-10 extra or missing d is rejected
E-11 foreign 30078 of same key is left alone
E-12 future schema is kept not shown
C-01 official vectors
C-02 nonces never repeat
C-03 sealed is opened before storing
C-04 truncations give errors
C-05 oversized payload rejected before base64
C-06 long form is read not written
C-07 version and hash prefix
C-08 twist points are refused
C-09 padding and base64 are canonical
C-10 ecdh is unhashed
R-01 dead dns refused tls error http 403
R-02 accepts socket then silent
R-03 never sends eose
R-04 drip feeds forever
R-05 notice only refusal
R-06 early eose then events
R-07 closed each prefix
R-08 auth storm
R-09 auth for other url
R-10 auth required then ok
R-11 duplicate flood
R-12 distinct forged flood
R-13 more than limit
R-14 disconnect every n messages
R-15 slow reader backpressure
R-16 nip11 is hostile json
R-17 redirect and plain ws
R-18 reconnect backoff is jittered and capped
R-19 nip11 over keep alive
R-20 until is exclusive
R-21 closed restricted while challenged
R-22 one link dies of a bug
R-23 kind hidden without auth
R-24 page smaller than a second
R-25 relay set back
V-01 old version never replaces newer
V-02 same second lowest id wins everywhere
V-03 fork keeps both texts
V-04 identical edits are not a conflict
V-05 split view
V-06 manifest reveals withholding
V-07 first sync is marked tofu
V-08 any order converges
V-09 lost ledger restores
V-10 superseded after publish
V-11 copied ledger loses nothing unnamed
V-12 restored snapshot of a disk
T-01 two writes in one second
T-02 clock jumps back one day
T-03 far future event is quarantined
T-04 marks are per address
T-05 relay rejects future
T-06 older than three years
T-07 leap and dst do not matter
T-08 fast clock then right
P-01 kill at every point
P-02 rejection is not success
P-03 partial ack completes later
P-04 ack for other id is ignored
P-05 no ok ever
P-06 refused forever does not burn
P-07 acks but forgets
P-08 destructive steps need complete pulls
P-09 pull before first push
P-10 rate limit is respected
P-11 pow required
P-12 coalesce keeps tombstones
P-13 relay removed and added
P-14 disk full
P-15 event too large for one relay
P-16 replaced is a claim
P-17 too large without being told
P-18 one oversized access blocks nothing
D-01 forgotten stays forgotten
D-02 unsigned or foreign kind5 is ignored
D-03 relay ignores kind5
D-04 late older kind5 does not lower mark
D-05 kind5 bounds by time
D-06 relay says deleted but we did not
D-07 delete vs edit race
D-08 local purge is real
D-09 forget everything
D-10 forgotten text never returns as copy
D-11 prune loses to what it did not know
D-12 old deletion is not sent over newer
D-13 relay keeps no kind5
D-14 forget with a wrong clock
D-15 rewrites do not run ahead
L-01 no plaintext at rest
L-02 corrupt page
L-03 truncated or zero file
L-04 wrong key for ledger
L-05 two processes write
L-06 no open transaction is left
L-07 old and newer schema
L-08 permissions
L-09 import is verification
K-01 canary key never appears
K-02 reprs are redacted
K-03 bad nsec is not echoed
K-04 ncryptsec cost is bounded
K-05 password normalised
K-06 bunker lies
K-07 env key warns once
I-01 memory text is never markup
I-02 recall frames untrusted text
I-03 summary does not gain trust
I-04 host header is exact
I-05 cross site requests refused
I-06 token required and single use
I-07 csp blocks inline
I-08 mcp destructive tools absent by default
I-09 mcp stdout is clean
I-10 huge or many tool calls
I-11 path arguments are confined
I-12 names forge no line
I-13 untrusted enters no prompt by itself
I-14 removed member speaks no more
I-15 revoke reaches what was derived
M-01 both sides edit
M-02 kill at every step
M-03 folder vanishes
M-04 editors
M-05 hostile files
M-06 two mirrors one folder
F-01 fresh device never overwrites
F-02 all relays down at start
F-03 new relay gets backfill not authority
F-04 relay comes back empty
F-05 empty relay speaks for no other
F-06 short program replicates
S-01 wheel contains only our files
S-02 lowest and newest dependencies
"""

BY_HAND = {
    "C-03": ["records/test_envelope.py::test_sealed_is_opened_before_storing"],
    "V-03": [
        "memories/persona/test_devices.py::test_fork_keeps_both_texts_on_both_devices",
        "memories/persona/test_devices.py::test_the_sibling_is_named_after_the_event_that_lost",
    ],
    "V-04": ["memories/persona/test_devices.py::test_identical_edits_are_not_a_conflict"],
    "V-07": ["interfaces/cli/test_sync.py::test_a_first_sync_rests_on_one_relay_and_says_so_once"],
    "V-10": ["memories/persona/test_devices.py::test_superseded_after_publish_is_said_and_a_sibling_made"],
    "V-11": [
        "test_copies.py::test_short_lived_containers_of_one_image_lose_no_entry_of_the_log",
        "test_copies.py::test_two_copies_that_edit_one_palace_memory_keep_both_texts",
        "test_copies.py::test_the_loser_of_two_copies_is_told",
    ],
    "V-12": [
        "test_copies.py::test_a_ledger_that_was_set_back_replaces_nothing_unread",
        "test_copies.py::test_a_ledger_that_closes_asks_relays_first_if_it_was_set_back",
    ],
    "T-08": [
        "mind/test_log_clock.py::test_after_the_clock_is_set_right_everything_goes_on_at_once",
        "interfaces/cli/test_copied_homes.py::test_a_clock_that_was_ahead_for_one_entry_stops_no_command",
        "mind/test_log_clock.py::test_status_names_what_is_dated_ahead_and_counts_what_is_in_no_page",
    ],
    "P-08": ["memories/persona/test_reviews.py::test_destructive_steps_need_complete_pulls"],
    "P-18": [
        "memories/persona/test_full.py::test_its_accesses_stay_here_and_are_named_and_those_of_others_travel",
        "memories/persona/test_full.py::test_pruning_names_it_and_writes_the_states_of_all_others",
    ],
    "D-07": [
        "memories/persona/test_devices.py::test_delete_vs_edit_race_the_later_edit_wins",
        "memories/persona/test_devices.py::test_delete_vs_edit_race_the_later_forgetting_wins",
    ],
    "D-09": [
        "memories/test_forget.py::test_many_memories_are_forgotten_with_few_requests",
        "memories/test_forget.py::test_of_many_each_batch_is_forgotten_whole_or_not_at_all",
    ],
    "D-10": ["memories/persona/test_removals.py::test_a_forgotten_text_does_not_return_as_a_conflict_copy"],
    "D-11": ["memories/persona/test_removals.py::test_pruning_does_not_win_over_what_it_did_not_know"],
    "D-14": [
        "memories/test_forget.py::test_forgetting_needs_no_right_clock",
        "memories/test_forget.py::test_what_was_dated_ahead_by_a_wrong_clock_is_forgotten_with_the_right_one",
    ],
    "D-15": [
        "faults/test_rewrites.py::test_what_another_device_says_two_seconds_after_a_hundred_rewrites_counts",
        "faults/test_rewrites.py::test_what_is_forgotten_and_written_again_all_the_time_does_not_run_ahead_either",
    ],
    "L-01": [
        "test_store_local.py::test_no_plaintext_at_rest",
        "records/test_snapshot.py::test_no_plaintext_at_rest",
    ],
    "L-04": [
        "test_store_local.py::test_the_wrong_key_opens_nothing",
        "ledger/test_database.py::test_the_wrong_key_is_told_both_names_and_writes_nothing",
    ],
    "L-08": [
        "ledger/test_database.py::test_a_new_ledger_is_private_whatever_the_umask",
        "ledger/test_database.py::test_a_ledger_that_others_could_read_is_closed_to_them",
        "ledger/test_database.py::test_a_folder_that_others_may_write_to_is_refused",
    ],
    "I-01": [
        "interfaces/web/test_page.py::test_a_hostile_memory_is_shown_as_it_was_written",
        "interfaces/web/test_page.py::test_no_view_runs_or_loads_anything_of_a_hostile_memory",
    ],
    "I-02": [
        "interfaces/mcp/test_stdio.py::test_what_is_remembered_is_found_again_with_its_source_and_age",
        "interfaces/harness/test_hooks.py::test_a_session_begins_with_palace_and_journal_after_a_preface",
    ],
    "I-03": ["palace/test_compression.py::test_a_summary_does_not_gain_trust"],
    "I-04": [
        "interfaces/web/test_server.py::test_a_host_that_is_not_exactly_this_server_gets_421_and_nothing_else",
        "interfaces/web/test_server.py::test_no_host_or_two_are_refused_by_the_parser",
    ],
    "I-05": [
        "interfaces/web/test_server.py::test_what_another_site_asks_is_refused",
        "interfaces/web/test_server.py::test_a_preflight_and_every_other_method_get_405",
    ],
    "I-06": [
        "interfaces/web/test_server.py::test_without_the_cookie_there_is_no_memory",
        "interfaces/web/test_server.py::test_the_token_works_once",
    ],
    "I-07": ["interfaces/web/test_page.py::test_the_policy_stops_what_would_become_markup"],
    "I-08": ["interfaces/test_tools.py::test_which_tools_there_are"],
    "I-09": [
        "interfaces/mcp/test_stdio.py::test_a_thousand_calls_at_once_are_answered_and_stdout_has_nothing_but_the_protocol"
    ],
    "I-10": [
        "interfaces/mcp/test_stdio.py::test_a_thousand_calls_at_once_are_answered_and_stdout_has_nothing_but_the_protocol",
        "interfaces/mcp/test_server.py::test_of_many_calls_some_run_and_the_others_wait",
    ],
    "I-11": ["interfaces/test_tools.py::test_an_export_stays_in_its_folder_and_replaces_nothing"],
    "I-12": [
        "test_plain_text.py::test_a_transcript_has_one_line_for_each_message_which_begins_with_its_role",
        "test_plain_text.py::test_what_a_model_is_asked_has_only_the_lines_that_were_made_and_hides_nothing",
        "interfaces/test_tools.py::test_no_tool_shows_a_model_what_a_person_does_not_see",
    ],
    "I-14": [
        "mind/scenes/test_scenes.py::test_what_a_removed_member_writes_under_the_old_key_is_shown_nowhere_whatever_time_it_claims",
        "mind/scenes/test_scenes.py::test_a_removed_member_learns_of_it_with_its_next_sync_and_appends_no_more",
        "mind/scenes/test_scenes.py::test_no_entry_is_later_than_the_page_in_which_it_arrived",
    ],
    "F-06": [
        "memories/test_open_store.py::test_a_program_of_three_lines_replicates",
        "memories/test_open_store.py::test_a_relay_that_can_not_be_reached_is_not_waited_for_and_named",
    ],
}

PLANNED = {
    "M-01": "mirrored folders",
    "M-02": "mirrored folders",
    "M-03": "mirrored folders",
    "M-04": "mirrored folders",
    "M-05": "mirrored folders",
    "M-06": "mirrored folders",
    "S-01": "packaging",
    "S-02": "packaging",
}

_TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
_OF_ROW = re.compile(r"test_([a-z])(\d\d)_")


def rows() -> dict[str, str]:
    """The name of each row, by id."""
    return dict(line.split(" ", 1) for line in ROWS.strip().splitlines())


@cache
def every_test() -> frozenset[str]:
    """Every test, as its file in this folder and its name."""
    return frozenset(
        f"{path.relative_to(TESTS)}::{name}"
        for path in TESTS.rglob("test_*.py")
        for name in _TEST.findall(path.read_text())
    )


def held_by() -> dict[str, list[str]]:
    """By id, the tests of each row: those named after it, in `faults/` first, then those named by hand."""
    found: dict[str, list[str]] = {row: [] for row in rows()}
    for test in sorted(every_test(), key=lambda test: (not test.startswith("faults/"), test)):
        if named := _OF_ROW.match(test.partition("::")[2]):
            found.setdefault(f"{named[1].upper()}-{named[2]}", []).append(test)
    for row, tests in BY_HAND.items():
        found[row] += [test for test in tests if test not in found[row]]
    return found


def table() -> str:
    """The table in Markdown, a part for each area."""
    found, names, lines = held_by(), rows(), []
    for letter, area in AREAS.items():
        lines += [f"### {area}", "", "| row | name | held by |", "|---|---|---|"]
        lines += [
            f"| {row} | {name} | {_held(row, found[row])} |"
            for row, name in names.items()
            if row[0] == letter
        ]
        lines.append("")
    return "\n".join(lines)


def _held(row: str, tests: list[str]) -> str:
    if row in PLANNED:
        return f"planned: {PLANNED[row]}"
    more = " and more" if len(tests) > SHOWN else ""
    return ", ".join(f"`{test}`" for test in tests[:SHOWN]) + more


def written(page: str) -> str:
    """The page with the table of now between its marks."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    README.write_text(written(README.read_text()))
