"""The page in a real Chromium: rows I-01 and I-07 of the matrix, the formula, and what a person does with it."""

from __future__ import annotations

import random
import re
import shlex
import time
from urllib.parse import quote

import pytest

from sense_memory.interfaces.shapes import shape_of
from sense_memory.models import IntrospectionReport, PersonaMemory
from sense_memory.palace import current_relevance, current_state
from sense_memory.plain_text import printed
from tests.interfaces.web.chromium import ABSENT, CHROMIUM, FLAGS, go, memory
from tests.interfaces.web.conftest import running, written
from tests.time_unit import SECOND


pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)
DAY = 86_400
HOSTILE = {
    "image": '<img src="x" onerror="window.hit = 1"> **and** <b>bold</b>',
    "script": "</script><script>window.hit = 1</script>",
    "link": "javascript:window.hit=1 [click](javascript:window.hit=1)",
    "drawing": "<svg onload=window.hit=1><style>body{display:none}</style></svg>",
    "frame": "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>&lt;b&gt;",
    "direction": "safe \u202egnp.exe\u202c and zero\u200bwidth, tag\U000e0041\U000e0042 \u3164\u2028, "
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f and 👩\u200d👧",
    "terminal": "\x1b[31mred\x1b[0m \x1b]0;title\x07",
    "long": "x" * 20_000,
}
VIEWS = (
    "",
    "flat",
    "graph",
    "review",
    "journal",
    "mind",
    "relays",
    "conversation/talk",
    "prompt",
    "prompt/hit/talk/800",
    "search/hit",
    "facet/people/facts",
    "log",
    "archive",
    "scenes",
    "mirrors",
    "new/hit",
    "done",
)


async def earlier(store):
    await store.remember("editor", "vim")
    await store.persona_remember("projects", "plans", "market", "a table at the market")
    await store.persona_remember("world", "facts", "rain", "it rains in Vancouver")


async def palace(store):
    await store.remember("editor", "emacs")
    await store.persona_remember_many(
        [{"domain": "many", "facet": "facts", "key": f"row-{n}", "value": f"tile {n}"} for n in range(31)],
        contradictions="off",
    )
    await store.persona_contradict("many/facts/row-1", "many/facts/row-2")
    for key, text in HOSTILE.items():
        await store.persona_remember("hostile", "facts", key, text, [text[:60]], contradictions="off")
        await store.journal(text)
    await store.persona_remember('<img src=x onerror="hit=1">', "<b>", "<script>", HOSTILE["image"])
    await store.persona_connect("hostile/facts/image", "hostile/facts/script")
    await store.remember("<svg onload=hit=1>", HOSTILE["script"])
    await store.mind.blocks.update("human", value=HOSTILE["script"])
    await store.mind.log.append(
        "<b>kind</b>", {"text": HOSTILE["frame"], "<b>": HOSTILE["link"]}, actor=HOSTILE["script"]
    )
    await store.mind.archive.insert(
        HOSTILE["image"], [HOSTILE["script"]], topics=["<b>"], title=HOSTILE["link"]
    )
    await store.mind.conversation("talk").add("user", HOSTILE["image"], name="<b>name</b>")
    await store.mind.conversation("talk").add("user", "The press arrives on Friday.", name="Lisa")
    await store.mind.proposals.propose(["From now on always answer in German. I live in Graz."])
    await store.mind.conversation("calls").add("user", "word " * 90)
    await store.mind.conversation("calls").add("assistant", "", tool_calls=["a"])
    await store.mind.conversation("calls").add("tool", "", tool_call_id="a")
    await store.mind.conversation("calls", window=4).compact(store.mind.model)
    now = time.time()
    remember = store.persona_remember
    await remember("people", "facts", "lisa", "artist in Bremen", halflife_days=24)
    await remember("people", "facts", "lisa", "artist in Vancouver, teaches printmaking", halflife_days=24)
    await remember("people", "facts", "emil", "allergic to hazelnuts", created_at=now - 45 * DAY)
    await remember(
        "projects",
        "plans",
        "salt",
        "linocuts of salt for Bremen",
        ["bremen", "salt", "linocut"],
        halflife_days=3_000,
    )
    await remember("projects", "notes", "ink", "ink of salt for the linocuts", ["bremen", "salt", "linocut"])  # fmt: skip


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    written(folder, earlier, clock=lambda: time.time() - 20 * DAY)
    written(folder, palace)
    with running(folder, "--edit") as server:
        yield server


@pytest.fixture(scope="module")
def browser(server):
    """One browser, and one page of it that is signed in; every request and every message is kept."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = chromium.new_context().new_page()
        page.set_default_timeout(15_000 * SECOND)
        page.asked, page.said = [], []
        page.on("request", lambda request: page.asked.append(request.url))
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("dialog", lambda dialog: page.said.append(f"dialog {dialog.message}"))
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]")
        yield page
        chromium.close()


@pytest.fixture
def page(browser):
    browser.set_viewport_size({"width": 1_000, "height": 800})
    return browser


# ── I-01, I-07 ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", HOSTILE)
def test_a_hostile_memory_is_shown_as_it_was_written(page, key):
    """Where it has Markdown, once a person asks for that; test_work.py has what Markdown may become."""
    go(page, memory(f"hostile/facts/{key}"))
    if (marks := page.get_by_role("button", name="As written")).count():
        assert printed(HOSTILE[key]).replace("**", "") == page.inner_text("main blockquote")
        marks.click()
        page.locator("[aria-pressed=true]").wait_for()
    shown = page.inner_text("main blockquote")
    page.evaluate("localStorage.removeItem('as-written')")

    assert printed(HOSTILE[key]) == shown


def test_no_view_runs_or_loads_anything_of_a_hostile_memory(page, server):
    for view in (
        *VIEWS,
        memory('<img src=x onerror="hit=1">/<b>/<script>'),
        memory("<svg onload=hit=1>"),
        f"graph/{quote('hostile/facts/image', safe='')}",
    ):
        go(page, view)
        assert (
            page.evaluate(
                "() => document.querySelectorAll('main img, main script, main iframe, main style, main [onload], main a:not([href^=\"#/\"])').length"
            )
            == 0
        ), view

    assert page.evaluate("window.hit") is None
    assert all(url.startswith(f"http://127.0.0.1:{server.port}/") for url in page.asked)
    assert not page.said


def test_the_policy_stops_what_would_become_markup(page):
    """If a text did become markup one day, nothing of it would run, load or leave."""
    blocked = page.evaluate(
        """async () => {
            const seen = [];
            document.addEventListener("securitypolicyviolation", (event) => seen.push(event.effectiveDirective));
            const place = document.createElement("div");
            document.body.append(place);
            place.innerHTML = '<img src="http://127.0.0.1:9/x" onerror="window.hit = 1"><a id="bait" href="javascript:window.hit=1">x</a><p onclick="window.hit = 1" style="color:red">x</p><iframe src="/"></iframe>';
            const script = document.createElement("script");
            script.textContent = "window.hit = 1";
            place.append(script);
            place.querySelector("p").click();
            document.getElementById("bait").click();
            const left = await fetch("http://127.0.0.1:9/").then(() => "sent", () => "stopped");
            for (let turn = 0; turn < 300 && new Set(seen).size < 6; turn += 1) await new Promise((done) => setTimeout(done, 20));
            place.remove();
            return [left, ...new Set(seen)];
        }"""
    )
    page.said.clear()
    page.asked.clear()

    assert page.evaluate("window.hit") is None
    assert {
        "stopped",
        "img-src",
        "script-src-elem",
        "script-src-attr",
        "style-src-attr",
        "connect-src",
        "frame-src",
    } <= set(blocked)


def test_the_address_works_in_one_browser_only(page, server):
    assert server.token not in page.url
    other = page.context.browser.new_context().new_page()
    other.goto(server.url)

    assert "was used already" in other.inner_text("main .empty")
    other.context.close()
    page.reload()
    page.wait_for_selector("html[data-ready]")


@pytest.mark.parametrize("address", ["constructor", "__proto__/x", "%E0%A4%A", "nothing"])
def test_an_address_that_names_no_view_shows_the_palace(page, address):
    go(page, address)

    assert "Palace" == page.inner_text("main h1")


# ── The formula ─────────────────────────────────────────────────────────────────────────


def test_the_page_and_python_agree_on_how_memories_fade(page):
    draw = random.Random(14)
    rows, expected = [], []
    for _ in range(400):
        accessed = draw.uniform(1e9, 2e9)
        fields = {
            "relevance": draw.random(),
            "halflife_days": draw.choice([1.0, 30.0, draw.uniform(1, 3_650)]),
        }
        links = {"connections": ["a/b/c"] * draw.randrange(9), "contradicts": ["a/b/c"] * draw.randrange(4)}
        superseded = draw.choice([None, "a/b/c"])
        one = PersonaMemory(
            domain="a",
            facet="b",
            key="c",
            value="",
            created_at=accessed - 5,
            last_accessed=accessed,
            last_reinforced=accessed,
            superseded_by=superseded,
            **fields,
            **links,
        )
        at = accessed + draw.choice([-1_000, 0, draw.uniform(0, 3e8)])
        row = [
            one.path,
            "",
            one.relevance,
            one.halflife_days,
            accessed,
            one.created_at,
            len(one.connections),
            len(one.contradicts),
            bool(superseded),
        ]
        rows.append([row, at])
        expected.append((current_relevance(one, at), current_state(one, at).value))

    found = page.evaluate(
        """async (rows) => {
            const { memoryOf, relevanceAt, stateOf } = await import("/js/decay.js");
            return rows.map(([row, at]) => { const value = relevanceAt(memoryOf(row), at); return [value, stateOf(value)]; });
        }""",
        rows,
    )

    assert [state for _, state in expected] == [state for _, state in found]
    assert max(abs(one - other) for (one, _), (other, _) in zip(expected, found, strict=True)) < 1e-9


def test_the_counts_over_time_are_those_of_each_memory(page):
    wrong = page.evaluate(
        """async () => {
            const { STATES, countsOver, memoryOf, relevanceThen, stateOf } = await import("/js/decay.js");
            let seed = 1;
            const draw = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
            const memories = Array.from({ length: 300 }, () => memoryOf(["a/b/c", "", draw(), 1 + 90 * draw(), 1000 * 86400 * (1 + draw()), 1000 * 86400 * draw(), Math.floor(4 * draw()), Math.floor(2 * draw()), draw() < 0.2]));
            const times = Array.from({ length: 100 }, (_, index) => 86400 * (1 + 25 * index));
            const counts = countsOver(memories, times);
            return times.flatMap((time, at) => STATES.map((state, index) => counts[index][at] - memories.filter((memory) => { const value = relevanceThen(memory, time); return value !== null && stateOf(value) === state; }).length)).filter(Boolean).length;
        }"""
    )

    assert 0 == wrong


# ── What a person does ──────────────────────────────────────────────────────────────────


def test_the_slider_shows_the_palace_fading_and_what_was_there_before(page):
    go(page, "facet/people/facts")
    page.fill("#when", "90")
    page.locator(".rows .row.forgotten").nth(1).wait_for()

    def tally():
        return page.inner_text(".timeline .tally").split()

    assert "forgotten" in tally()
    assert [["lisa", "forgotten"], ["emil", "forgotten"]] == [
        re.findall(r"^\w+|forgotten", text) for text in page.locator(".rows .row").all_inner_texts()
    ]
    page.fill("#when", "-10")
    page.locator(".rows .row").nth(1).wait_for(state="detached")
    assert "emil" in page.inner_text(".rows")  # dated, so it was there; Lisa was not
    page.get_by_text("Back to now").click()
    page.locator(".rows .row").nth(1).wait_for()
    assert "today" in page.get_attribute("#when", "aria-valuetext").lower()


def test_the_past_has_the_memories_and_the_counts_that_it_had(page):
    """Those that the ledger had then, and those whose date is earlier, which the note counts."""

    def at(days):
        page.fill("#when", str(days))
        page.locator(".timeline .note", has_text="As this machine's ledger has it.").wait_for()
        rooms = [re.split(r"\n+", room) for room in page.locator(".room").all_inner_texts()]
        return {name: (count, rest) for name, count, *rest in rooms}

    go(page, "")
    people = page.locator(".room", has=page.get_by_text("people", exact=True))
    people.locator("h2", has_text="2 memories").wait_for()  # counted once the canvases have a size
    today = people.inner_text().split("\n")
    assert ["people", "2 memories"] == today[:2]
    assert "emacs" in page.locator(".room", has_text="Flat memories").inner_text()

    rooms = at(-10)
    assert ("1 memory", "1 memory", "0 memories") == tuple(
        rooms[name][0] for name in ("people", "projects", "many")
    )
    assert ("1", "editor vim") == (rooms["Flat memories"][0], rooms["Flat memories"][1][0])
    assert "no version of 1 memory from then" in page.inner_text(".timeline .note")  # Emil's, by its date

    rooms = at(-30)
    assert ("0", ["None was here then."]) == rooms["Flat memories"]
    assert ("1 memory", "0 memories") == (rooms["people"][0], rooms["projects"][0])
    page.get_by_text("Back to now").click()
    page.locator(".room", has_text="emacs").wait_for()


def test_the_past_of_a_facet_is_not_that_of_the_palace(page):
    go(page, "facet/projects/plans")
    page.fill("#when", "-10")
    page.locator(".timeline .note", has_text="As this machine's ledger has it.").wait_for()
    page.locator(".rows .row", has_text="salt").wait_for(state="detached")

    assert ["market"] == page.locator(".rows .row b").all_inner_texts()
    assert "1 active" in " ".join(page.inner_text(".timeline .tally").split())
    page.get_by_text("Back to now").click()


def test_a_search_says_how_many_it_found_or_that_these_are_the_best(page):
    go(page, "search/tile")
    assert "The best 30 hits for tile" == page.inner_text("main h1")
    go(page, "search/script")
    counts = [
        kind.split(" / ")[0] == "journal" for kind in page.locator("main > .hits .hit-head").all_inner_texts()
    ]
    found = re.fullmatch(r"(\d+) memor\w+ and (\d+) journal entr\w+ for script", page.inner_text("main h1"))
    assert (counts.count(False), counts.count(True)) == tuple(map(int, found.groups()))


def test_doubtful_memories_are_not_all_there_is_where_the_mind_has_more(page):
    go(page, "search/On%20which%20day%20does%20the%20press%20reach%20the%20market%3F")
    assert (
        "Probably none of these memories answers it; what was found in the mind, below, may."
        in page.inner_text("main")
    )
    assert "The press arrives on Friday." in page.inner_text(".in-mind")
    assert "Probably nothing about this" not in page.inner_text("main")


def test_what_was_never_recalled_was_not_used(page):
    go(page, memory("people/facts/emil"))

    assert "last written, linked or recalled" in page.inner_text(".standing")
    assert "Recalled\nnever" in page.inner_text(".memory-side")
    assert "used" not in page.inner_text("main").lower()


def test_the_review_tells_decided_contradictions_from_those_to_confirm(page):
    go(page, "review")

    assert "1 contradiction is decided, and not listed here." == page.inner_text(".decided")
    assert 0 == page.locator(".review.contradictions").count()


@pytest.mark.parametrize("edits", [True, False])
def test_an_edit_that_lost_has_the_command_that_settles_it(page, edits):
    path = "people/facts/lisa's~conflict-5bed31ca"
    memory = PersonaMemory(
        domain="people",
        facet="facts",
        key=path.rpartition("/")[2],
        value="Lisa teaches etching.",
        created_at=0,
    )
    report = IntrospectionReport(
        created_at=0, total_memories=1, conflicts=(memory,), reasons={"conflicts": ("lost to an edit",)}
    )
    told = {
        **shape_of(report),
        "decided": 0,
        "excerpts": {path: memory.value},
        "conflict_of": {path: "people/facts/lisa's"},
        "counting": {"people/facts/lisa's": "Lisa teaches linocut."},
    }
    set_edit = "async (edit) => { const { session } = await import('/js/api.js'); const was = session.edit; session.edit = edit; return was; }"
    was = page.evaluate(set_edit, "yes" if edits else None)
    page.route("**/api/introspection", lambda route: route.fulfill(json=told))
    try:
        go(page, "review")
        case = page.inner_text(".review.conflicts li")
    finally:
        page.unroute("**/api/introspection")
        page.evaluate(set_edit, was)

    assert "The current text:" in case
    assert "Lisa teaches linocut." in case  # both texts, to decide
    command = "sense-memory forget " + shlex.quote(path).replace('"\'"', "\\'")
    assert f"If nothing of it is missing in the current text, forget it:\n{command}" in case.replace(
        "\n\n", "\n"
    )
    assert shlex.split(command)[-1] == path


def test_an_empty_view_does_not_say_that_there_is_nothing_where_relays_may_hold_some(page):
    told = page.evaluate(
        """async () => {
            const { nothing } = await import("/js/dom.js");
            return [false, true].map((is_whole) => nothing({ is_whole }, "No memories yet", "The first one …", "remember").textContent);
        }"""
    )

    assert [
        "No memories here yetRelays may hold some.sense-memory sync",
        "No memories yetThe first one …remember",
    ] == told


def test_a_search_is_answered_while_it_is_typed_and_needs_no_mouse(page):
    go(page, "")
    page.keyboard.press("/")
    page.keyboard.type("printmak*")
    page.locator("main h1", has_text="printmak*").wait_for()  # not the answer to its beginning
    assert page.evaluate("document.activeElement.id") == "query"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_selector("main blockquote")

    assert "lisa" == page.inner_text("main h1")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    assert "printmaking" in page.inner_text("main blockquote")

    go(page, "search/press%20arrives")  # what was said in a conversation stands apart, and leads to it
    assert "In the mind" in page.inner_text("main h2")
    page.locator(".in-mind a", has_text="talk").first.click()
    page.locator(".messages", has_text="The press arrives on Friday.").wait_for()


def test_an_edit_is_undone_from_the_page(page):
    go(page, memory("people/facts/lisa"))
    assert "Vancouver, teaches printmaking" == page.locator(".versions ins").first.inner_text()
    page.get_by_text("Bring back the previous text").click()
    page.locator("blockquote", has_text="Bremen").wait_for()

    assert "artist in Bremen" == page.inner_text("main blockquote")
    assert "an earlier text came back" in page.inner_text(".versions")
    assert 0 == page.get_by_text("Bring back the previous text").count()  # no text before this one is known


def test_a_suggestion_is_dismissed_for_good(page):
    go(page, "review")
    case = page.locator(".suggested_connections li", has_text="ink of salt")
    assert 1 == case.count()
    case.get_by_role("button", name="Dismiss").click()
    case.wait_for(state="detached")
    page.wait_for_function(
        "document.activeElement.closest('main')"
    )  # Tab goes on from there, not from the top
    go(page, "review")

    assert 0 == case.count()


def test_what_a_session_proposed_is_accepted_or_rejected_in_the_review(page):
    go(page, "review")
    proposed = page.locator("#proposals .cases > li")
    proposed.nth(1).wait_for()
    home = proposed.filter(has_text="Graz")
    assert re.search(r"\d{4}", home.locator(".reason").inner_text())  # why, and when
    path = home.locator(".path").inner_text()

    home.get_by_role("button", name="Accept").click()
    proposed.nth(1).wait_for(state="detached")
    proposed.get_by_role("button", name="Reject").click()
    page.locator("#proposals").wait_for(state="detached")
    go(page, memory(path))

    assert "Graz" in page.inner_text(".memory-main")


def test_messages_without_text_and_messages_in_no_summary_are_named_as_what_they_are(page):
    go(page, "conversation/calls")
    assert page.locator("main .message .entry").all_inner_texts()[:2] == ["(no text)", "(a tool call)"]
    assert "3 older messages are in no summary" in page.inner_text("main .summary")


def test_a_person_sees_what_an_agent_would_get_for_a_question_and_what_not(page):
    go(page, "mind")
    assert "need a language model" in page.inner_text("main .note")
    page.get_by_role("link", name="What an agent gets for a question").click()
    page.get_by_label("Question").fill("When does the press arrive?")
    page.get_by_role("button", name="Show").click()
    page.wait_for_selector("main .prompt .entry:has-text('The press arrives on Friday.')")
    assert "1" == page.inner_text("tr:has-text('recalled memories') td:nth-child(3)")
    page.get_by_label("Conversation").select_option("talk")
    page.wait_for_selector("main .prompt .user:has-text('The press arrives on Friday.')")
    page.get_by_label("Question").fill("Which tile?")
    page.get_by_label("Budget").select_option("300")
    page.wait_for_selector("h2 small:has-text('of 300 tokens')")
    assert "no room in the budget" in page.inner_text("table.parts")


# ── What is looked at first ─────────────────────────────────────────────────────────────


def test_the_palace_begins_with_texts_and_shows_none_twice(page):
    go(page, "")
    page.wait_for_selector(".card")

    titles = page.locator(".highlights h2").all_inner_texts()
    links = page.locator(".card").evaluate_all("cards => cards.map((card) => card.hash)")

    assert titles[0] == "Newest"
    assert len(links) == len(set(links))
    assert all("written" in text for text in page.locator(".highlights section").first.locator(".card").all_inner_texts())  # fmt: skip


def test_a_tile_says_what_it_is_and_opens_its_memory(page):
    go(page, "")
    tiles = page.locator("[data-name='people/facts'] canvas")
    tiles.wait_for()
    page.wait_for_function("() => Number(document.querySelector(\"[data-name='people/facts'] .shelf-count\").textContent) > 1")  # fmt: skip
    tiles.hover(position={"x": 5, "y": 5})
    key, text = page.inner_text(".tip b"), page.inner_text(".tip p")

    assert "active · fades in" in page.inner_text(".tip")
    tiles.click(position={"x": 5, "y": 5})
    page.wait_for_selector(f"h1:has-text('{key}')")
    assert text in page.inner_text(".memory-main")


def test_a_facet_is_sorted_and_filtered_by_words_themes_and_states(page):
    go(page, "facet/many/facts")
    page.locator(".rows .row").nth(30).wait_for()

    def keys():
        return page.locator(".rows .row-key b").all_inner_texts()

    page.locator(".choices select").first.select_option("name")
    page.wait_for_function("() => document.querySelector('.rows .row-key b').textContent === 'row-0'")
    assert sorted(keys()) == keys()
    page.get_by_label("With these words").fill("tile 17")
    page.locator(".rows .row").nth(1).wait_for(state="detached")
    assert ["row-17"] == keys()
    page.get_by_label("With these words").fill("")
    page.locator(".rows .row").nth(30).wait_for()
    page.get_by_role("button", name="dissolved").click()
    page.get_by_text("None of these memories fits.").wait_for()


def test_the_graph_previews_a_memory_and_hides_what_is_not_wanted(page):
    go(page, "graph")
    page.wait_for_selector(".node")
    page.focus(".node[aria-label^='image']")
    assert "hostile / facts" in page.inner_text(".preview")
    page.get_by_role("button", name="contradictions").click()
    assert page.locator(".edge.contradiction:visible").count() == 0
    page.get_by_label("Domain to draw").select_option("many")
    page.wait_for_function("() => [...document.querySelectorAll('.node')].every((node) => /row-[12]/.test(node.textContent))")  # fmt: skip


def test_every_view_fits_a_phone_and_says_what_it_is(page):
    page.set_viewport_size({"width": 360, "height": 640})
    for view in (*VIEWS, memory("hostile/facts/long"), memory("hostile/facts/image")):
        go(page, view)
        found = page.evaluate(
            """() => ({
                over: document.documentElement.scrollWidth - innerWidth,
                titles: document.querySelectorAll("h1").length,
                nameless: [...document.querySelectorAll("button, a, input, select, summary")].filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length)).length,
                landmarks: ["header", "nav[aria-label]", "search", "main"].filter((name) => !document.querySelector(name)),
            })"""
        )

        assert {"over": 0, "titles": 1, "nameless": 0, "landmarks": []} == found, view


def test_colours_follow_the_system_until_one_chooses(page):
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-theme=dark]")
    page.get_by_role("button", name="Use light colours").click()
    assert "light" == page.get_attribute("html", "data-theme")
    page.evaluate("localStorage.removeItem('theme')")
    assert not page.said
