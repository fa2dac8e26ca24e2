"""Every limit of the program, with its unit, its value, and the reason for the value.

No limit is computed or read from settings. A name ends in its unit (`_BYTES`, `_SECONDS`, `_COUNT`, `_CHARS`).
"""

from __future__ import annotations


# ── Memories ────────────────────────────────────────────────────────────────────────────
MAX_PLAINTEXT_BYTES = 40_960  # largest envelope whose event fits strfry's default 65,536 bytes
MAX_SEND_JITTER_SECONDS = 120  # a longer wait would leave what was written on one machine for too long
SMALL_EVENT_BYTES = 4_096  # a shorter event is sent without reading the limits of a relay
MAX_READ_PLAINTEXT_BYTES = 163_840  # the longest envelope of another writer that is read
MAX_KEY_CHARS = 256  # the published 0.3.1 package's limit; longer keys would not be readable there
MAX_NAME_CHARS = 64  # domains and facets, as 0.3.1
MAX_D_TAG_BYTES = 182  # LMDB-based relays truncate longer tag values; a longer path is hashed
MAX_RECENT_COUNT = 100_000  # journal entries returned by one call
ENTRY_AHEAD_SECONDS = 1.0  # a journal entry may be dated this far ahead: room for a million entries

# ── The palace (sense-memory v2) ────────────────────────────────────────────────────────
DEFAULT_HALFLIFE_DAYS = 30.0  # the default of the specification
MIN_HALFLIFE_DAYS = 1e-5  # about a second; a shorter half-life has no finite rate
MAX_HALFLIFE_DAYS = 36_500.0  # a hundred years: the memory never fades
ACTIVE_ABOVE = 0.3  # relevance of the states in the specification: active above this,
FADING_FROM = 0.1  # fading from here,
FORGOTTEN_FROM = 0.01  # forgotten from here, dissolved below
CONNECTION_BOOST = 0.1  # added to the factor of the score for each connection
SUPERSEDED_FACTOR = 4  # a superseded memory decays this many times faster
# A use makes a memory as relevant as it was this share of its half-life after a recall: 0.71. So a memory that is used
# once in two half-lives stays above 0.25 and is found, and one that is only used never outranks one that is recalled.
USED_HALFLIVES = 0.5
USED_SCORE_SHARE = 0.5  # of the best score of the same hits; a hit with less is not counted as used
ACCESS_SECONDS = 5.0  # an access is written to the ledger after this time
MAX_THEMES_COUNT = 64  # of one memory
MAX_LINKS_COUNT = 256  # connections of one memory; each is a path, and all must fit one event
MAX_BATCH_COUNT = 200  # memories in one write of a bulk change
MAX_FORGOTTEN_TEXTS_COUNT = 1_000  # forgotten texts recorded for one slot
MAX_VECTOR_COUNT = 300  # device ids in a version vector, some 7 KB; then the older half goes
NAMED_TEXTS_COUNT = 400  # forgotten texts named in one deletion, over all its slots: some 8 KB
MAX_DELETED_COUNT = 32  # memories that one deletion request names, each in three tags; some relays take 100
MAX_NAMED_COUNT = 400  # versions that one deletion request names by id: 30 KB of tags
# A clock this far behind the newest known date has been reset, and is not merely slow.
OLD_CLOCK_SECONDS = 30 * 86_400
MAX_FOUND_COUNT = 1_000  # memories that one search returns
MAX_SUSPICIONS_COUNT = 500  # contradictions found by introspection that are kept in the ledger
MAX_SUSPECTED_BY_COUNT = 3  # later memories named that may contradict one
MAX_CANDIDATES_COUNT = 10  # names that an error lists, such as paths where a bare key is not unique
DISSOLVED_DAYS = 30.0  # a memory is deleted this long after the first pruning that found it dissolved
HOUR_SECONDS = 3_600.0  # between two background checks for accesses to publish
DAY_SECONDS = 86_400.0

# ── Introspection (sense-memory v2) ─────────────────────────────────────────────────────
LOW_CONFIDENCE = 0.5  # a belief with a lower confidence is more likely wrong than right
LEAST_SUSPICION = 0.25  # contradictions with less confidence are not suggested
REVISION_HALFLIVES_COUNT = 3  # a belief unchanged for this many half-lives has lost 7/8 of its relevance
CONTEXT_TOKENS_COUNT = 500  # the target of the specification for the memories in a prompt
EMBEDDER_REST_SECONDS = 60  # an embedder that failed is not called again for this long
EMBED_BATCH_COUNT = 64  # memories embedded by one call: less than a second of a small model
INDEX_SECONDS = 3.0  # a search waits this long for the index, then answers from what is indexed
EMBED_SECONDS = 1.0  # a search embeds memories for at most this long; the others are found by words
MAX_ALIKE_COUNT = 5_000  # memories compared pairwise in meaning: less than a second
CHARS_PER_TOKEN_COUNT = 4  # of English text in the usual tokenizers; an estimate is enough
COMPRESSED_HITS_COUNT = 100  # memories that a question may bring into a prompt
OVERLOADED_FACET_COUNT = 50  # active memories; at ten tokens a line, more would exceed the 500 tokens
SUGGESTED_PAIRS_COUNT = 50  # pairs that one run suggests; the next run continues
THEMES_PAIRED_COUNT = 12  # of one memory, the rarest: 66 pairs of themes
THEME_GROUP_COUNT = 64  # memories compared because they share two themes: the most relevant
THEME_PAIRS_COUNT = 500_000  # pairs of memories looked up among the links: some 50 ms
SCORED_PAIRS_COUNT = 50_000  # pairs of memories scored: some 150 ms
LOG_LIST_BYTES = 1_000  # of each list in an introspection log; 10 lists
LOG_CHANGE_BYTES = 400  # of each list of changes in an introspection log; 9 lists
LOG_BASELINE_BYTES = 14_000  # of the states of memories, from which the next run finds changes
LOG_WRITTEN_BYTES = 5_000  # of the seconds in which texts were written, 5.3 bytes for each
LOG_PAIRS_BYTES = 3_000  # of the contradicting pairs; the whole log stays well below 40,960

# ── The version clock (docs/wire-format.md) ─────────────────────────────────────────────
USUAL_EVENTS_PER_SECOND_COUNT = 50  # a page of 100, the smallest in use, holds a second of two devices
MAX_EVENTS_PER_SECOND_COUNT = 200  # one page of 500 must hold all events of a second
STAMP_LOOKBACK_SECONDS = 3_600  # a burst may be backdated this far: within every relay's age limit
AHEAD_SECONDS = 1.0  # an event dated ahead waits at most this long before it is sent
CLOCK_TICK_SECONDS = 0.05  # a running clock advances within this time
MAX_FUTURE_SECONDS = 300  # events dated further ahead are quarantined; the strictest relay allows 300

# ── Encrypted keys (NIP-49) ─────────────────────────────────────────────────────────────
MIN_SCRYPT_LOG_N = 16  # 64 MiB and some 0.2 s for each guess at a password; less protects too little
MAX_SCRYPT_LOG_N = 20  # 1 GiB and some 5 s; a higher cost could exhaust the machine

# ── Wire ────────────────────────────────────────────────────────────────────────────────
MAX_FRAME_BYTES = 262_144  # one relay message; twice strfry's own cap of 131,072
MAX_NEGENTROPY_BYTES = 1_048_576  # one NEG-MSG: strfry's carry up to 500,000 bytes, in hex (NIP-77)
MAX_SUBSCRIPTION_ID_CHARS = 64  # NIP-01
MAX_TAGS_COUNT = 2_000  # strfry's default
MAX_SAFE_INTEGER = 2**53 - 1  # every JSON reader reads integers up to here exactly
MAX_NOTICE_CHARS = 256  # of a relay's free text, before escaping
MAX_VERDICT_BYTES = 1_024  # a longer text of an OK or CLOSED is not read

# ── Relay connections ───────────────────────────────────────────────────────────────────
OPEN_SECONDS = 10.0  # to connect, including TLS and the upgrade
IDLE_SECONDS = 10.0  # of silence after a REQ, before the pull counts as incomplete
TOTAL_SECONDS = 120.0  # for one page, however slowly it arrives
NOTICE_SETTLE_SECONDS = 3.0  # old relays refuse a REQ with nothing but a NOTICE
OK_SECONDS = 10.0  # an EVENT without an OK is queued again
SEND_SECONDS = 10.0  # for a relay to read what was written; then the connection counts as dead
SIGN_SECONDS = 60.0  # for a signer, perhaps remote, to sign a NIP-42 challenge
CLOSE_SECONDS = 2.0  # for the closing handshake
BUNKER_SECONDS = 60.0  # for a remote signer to answer a request, the approval of a person included
BUNKER_REQUESTS_COUNT = 32  # requests of a remote signer in flight
MAX_BUNKER_RELAYS_COUNT = 8  # relays over which one remote signer is asked
PUBLISH_WINDOW_COUNT = 500  # events in flight on one connection
PUBLISH_WINDOW_BYTES = 4 * 1024 * 1024  # their size; systems buffer 32 MB for a relay that reads nothing
SEND_BATCH_COUNT = 50  # events read from the outbox at a time: at most some 3 MB of them
PAGE_COUNT = 500  # `limit` of one REQ: the cap of strfry and the usual default elsewhere
MIN_PAGE_COUNT = 20  # a lower limit that a relay declares is ignored: PAGE_COUNT is asked for
OVER_DELIVERY = 1.1  # a page may hold this many times its limit before it is cut
MAX_PULL_BYTES = 64 * 1024 * 1024  # one page's bytes
MAX_INVALID_COUNT = 50  # forged or malformed events before the connection is closed
ADDRESS_BATCH_COUNT = 20  # filters in one REQ that fetches the events of a second by address
MAX_NOISE_COUNT = 20_000  # consecutive unsolicited frames before the connection is closed
MAX_LIVE_COUNT = 100_000  # new events before a live subscription is renewed
MAX_LIVE_WAITING_COUNT = 5_000  # verified events that wait to be filed while more arrive
MAX_LIVE_WAITING_BYTES = 32 * 1024 * 1024  # their size
MAX_CHALLENGE_CHARS = 1_024  # of a NIP-42 challenge; relays send some 36
MAX_SIGNATURES_COUNT = 3  # NIP-42 challenges signed on one connection
MAX_NOTICES_COUNT = 5  # NOTICE texts kept for `status`
MAX_NIP11_BYTES = 65_536  # of the relay information document
NIP11_SECONDS = 5.0  # to fetch the relay information document

# ── Retrying ────────────────────────────────────────────────────────────────────────────
RECONNECT_FIRST_SECONDS = 1.0  # back-off of a dead relay: doubled, jittered by 20 %
RECONNECT_MAX_SECONDS = 600.0
DIALS_PER_HOUR_COUNT = 80  # to one relay, whatever happens
REDIALS_PER_HOUR_COUNT = 40  # of these, redials in quick succession; the others are spread evenly
RATE_LIMIT_FIRST_SECONDS = 60.0  # a rate limit pauses the connection
RETRY_FIRST_SECONDS = 5.0  # after an `error:` or an unreadable answer
RETRY_MAX_SECONDS = 3_600.0
PARK_SECONDS = 7 * 86_400.0  # after a week of retries a row is parked, visibly
JITTER = 0.2  # ± share of every back-off

# ── Sync ────────────────────────────────────────────────────────────────────────────────
RESUME_SECONDS = 3_600  # an interrupted pull is resumed within this time, and starts over later
CURSOR_OVERLAP_SECONDS = 7_200  # fetched again, for late arrivals and for events that a burst backdated
INCOMPLETE_COUNT = 3  # after so many hours of incomplete pulls, conflict copies stop waiting for relays
LOST_COUNT = 3  # times that a relay lost accepted events, before it is reported as forgetful
HEAL_SECONDS = 3_600  # between two repairs of a relay that holds an older version
AFTER_DELETION_SECONDS = 60  # a version waits at most this long for an older deletion request
SWEEP_SECONDS = 86_400  # between pulls without a cursor, which find events that were missed or days late
BACKGROUND_SECONDS = 30.0  # between two background passes when nothing was written
# The overlap is fetched again after a pause: so long for each known event in it, doubled while nothing new is found.
KNOWN_EVENT_PAUSE_SECONDS = 0.03
MAX_PAUSE_DOUBLINGS_COUNT = 5  # to about a second for each event: some 3,750 known events an hour
# A read that finds nothing waits for relays that are asked for the first time: this much silence, and this long in all.
FIRST_SILENCE_SECONDS = 5.0
FIRST_ANSWER_SECONDS = 20.0
PROBE_COUNT = 20  # random events that a relay must serve before its comparison is believed
SPOT_CHECK_COUNT = 5  # random events that a relay must serve once an hour between complete pulls
COMPARED_COUNT = 100  # events in the overlap; from here on, comparing costs less than fetching
UNTHREADED_COUNT = 1_000  # events that are prepared for a comparison without a thread: a millisecond
INCOMPLETE_SECONDS = 60.0  # after a background pass in which a relay did not show everything
POLL_SECONDS = 2.0  # between two checks for writes of other processes to the ledger
WATCH_SECONDS = 0.5  # as POLL_SECONDS, while somebody watches: a change is told within a second
MAX_CHANGES_COUNT = 1_000  # unread changes of one watch; with more, the watch ends
TURN_SECONDS = 0.01  # other tasks wait at most this long for a loop of writes; heartbeats allow seconds
DEBOUNCE_SECONDS = 0.1  # writes gather this long before the background pass starts
HOLDINGS_SECONDS = 60.0  # to find out what one relay holds, however slowly the relay answers
LINGER_SECONDS = 5.0  # a closing store waits this long for relays to take what is queued
MAX_LINGER_SECONDS = 3_600  # the longest wait that a caller may ask for
LOCK_SECONDS = 60.0  # to wait for another process that is publishing

# ── Ledger ──────────────────────────────────────────────────────────────────────────────
BUSY_SECONDS = 30.0  # to wait for another process's write transaction
BUSY_FIRST_SECONDS = 0.002  # before the second attempt to write; most transactions take less
BUSY_PAUSE_SECONDS = 0.03  # longest pause between attempts; the pause doubles each time
BUSY_BLOCKED_SECONDS = 0.25  # a call that cannot await blocks the event loop for at most this long
APPLY_BATCH_COUNT = 1_000  # events in one bulk transaction
MAX_VARIABLES_COUNT = 500  # values in one statement; SQLite before 3.32 takes 999
# Of a new ledger. A memory of 1 KB takes 2.7 KB; with pages of 4,096 it takes 4.4, with 8,192 3.1, with 32,768 2.7.
PAGE_BYTES = 16_384
# A larger ledger is not rebuilt with larger pages: other processes might wait longer than BUSY_SECONDS.
MAX_REBUILT_BYTES = 1024**3
MAX_WAL_BYTES = 32 * 1024 * 1024  # a longer write-ahead log is folded into the file after a commit
# Opened records of relays' events kept in memory: 40,000 of 1 KB. Other records are opened when needed.
HELD_BYTES = 64 * 1024 * 1024

# ── Snapshot ────────────────────────────────────────────────────────────────────────────
# A snapshot is rewritten when it lacks this many opened records (some 10 ms of opening) and this share of all.
SNAPSHOT_NEW_COUNT = 200
SNAPSHOT_NEW_SHARE = 0.05
SNAPSHOT_MESSAGE_BYTES = 8 * 1024 * 1024  # of JSON under one authentication tag
SNAPSHOT_WORTH_SHARE = 0.2  # of all records; opening more takes longer than reading all from the snapshot
SNAPSHOT_SEAL_SECONDS = 5.0  # for a signer, perhaps remote, to seal its key while a store closes
MAX_SALVAGED_COUNT = 10_000_000  # rows looked for in a damaged ledger, whose row counter may be damaged too

# ── The mind ────────────────────────────────────────────────────────────────────────────
LOG_PAGE_BYTES = 16_384  # of JSON in a full page of the log: the table in docs/performance.md
LOG_QUIET_SECONDS = 15.0  # without a new entry before the log is flushed
LOG_WAIT_SECONDS = 40.0  # an entry waits at most this long for its page
