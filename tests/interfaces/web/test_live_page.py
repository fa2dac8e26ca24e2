"""What others write while a page is open, in a real Chromium: it appears by itself, and takes nothing out of a person's hands."""

from __future__ import annotations

import time

import pytest

from tests.interfaces.web.chromium import ABSENT, CHROMIUM, go, memory, press, value
from tests.interfaces.web.conftest import LISA
from tests.time_unit import SECOND


pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)
EMIL = "people/facts/emil"


def remembers(path, text):
    """What another process does: remember a text."""

    async def work(store):
        await store.palace.remember(path, text)

    return work


class Held:
    """Holds the requests of a page that fit a pattern, until they are let go."""

    def __init__(self, page, pattern):
        self.page, self.pattern, self.routes, self.is_open = page, pattern, [], False
        page.route(pattern, self.hold)

    def hold(self, route):
        if self.is_open:
            route.continue_()
        else:
            self.routes.append(route)

    def let_go(self):
        """Send them, and wait for their answers."""
        self.is_open = True
        for route in self.routes:
            with self.page.expect_response(route.request.url):
                route.continue_()
        self.page.unroute(self.pattern, self.hold)


# ── It appears by itself ────────────────────────────────────────────────────────────────


def test_what_another_process_writes_appears_within_a_second(page, elsewhere):
    async def appears(store):
        await store.palace.remember("people/facts/otto", "plays the cello")
        written.append(time.time())

    written = []
    go(page, "facet/people/facts")
    page.evaluate(
        """() => {
            window.told = [], window.shownAt = 0;
            new MutationObserver((seen, all) => {
                told.push(document.getElementById("news").textContent);
                if (/otto/.test(document.querySelector("main .rows")?.textContent)) { shownAt = Date.now() / 1000; all.disconnect(); }
            }).observe(document.body, { childList: true, subtree: true });
        }"""
    )
    elsewhere(appears)
    page.locator("main .rows", has_text="otto").wait_for()
    told, shown = page.evaluate("[told.join(), shownAt]")

    assert shown - written[0] < 1.5 * SECOND
    assert "Written elsewhere: people / facts / otto" in told


def test_what_a_tab_changes_is_no_news_to_it(page, elsewhere):
    edit = """async (wanted) => {
        await (await import("/js/api.js")).edit(wanted);
        await new Promise((done) => setTimeout(done, 400)); // longer than a view waits to be drawn anew
    }"""
    asked = []
    go(page, "facet/people/facts")
    page.on("request", lambda request: asked.append(request.url) if "/api/palace" in request.url else None)
    page.evaluate(edit, {"action": "pin", "path": LISA})
    elsewhere(remembers("people/facts/olga", "plays the oboe"))  # its event comes after that of the pin
    page.locator("main .rows", has_text="olga").wait_for()
    assert 1 == len(asked)
    page.evaluate(edit, {"action": "unpin", "path": LISA})


@pytest.mark.parametrize("view", ["mind", "log", "review"])
def test_what_is_said_and_proposed_elsewhere_appears_too(page, elsewhere, view):
    async def appears(store):
        await store.mind.log.append("agent.spoke", {"text": f"Seen in {view}."}, actor="agent")
        await store.mind.proposals.propose([f"From now on always name the {view} first."])

    go(page, view)
    elsewhere(appears)

    words = "name the review first" if view == "review" else f"Seen in {view}."
    page.locator("main", has_text=words).wait_for()


def test_a_form_that_was_left_open_does_not_stop_other_views_from_showing_news(page, elsewhere):
    go(page, memory(EMIL))
    press(page, "Edit")
    page.locator("#edit-text").wait_for()
    go(page, "facet/people/facts")
    elsewhere(remembers("people/facts/ines", "plays the drums"))

    page.locator("main .rows", has_text="ines").wait_for()


def test_a_list_that_was_read_before_a_change_is_not_kept(page):
    pattern = "**/api/palace"
    requests = Held(page, pattern)
    with page.expect_request(pattern):
        page.evaluate(
            "async () => { const { forgetPalace, palace } = await import('/js/api.js'); forgetPalace(); window.reading = palace().then(() => true); forgetPalace(); }"
        )
    requests.let_go()
    assert page.evaluate("reading")
    with page.expect_request(pattern):
        page.evaluate("async () => { await (await import('/js/api.js')).palace(); }")


def test_the_rest_of_a_large_palace_is_drawn_however_early_it_comes(page):
    def piece(route):
        is_first = "picture" not in route.request.url
        rows = [[f"many/facts/row-{n}", "tile", 1, 30, now, now, 0, 0, False] for n in range(0 if is_first else 20, 20 if is_first else 40)]  # fmt: skip
        route.fulfill(
            json={
                "picture": 1,
                "now": now,
                "at": now,
                "total": 40,
                "rows": rows,
                "next": 20 if is_first else None,
                "is_whole": True,
            }
        )

    now = time.time()
    go(page, "review")
    page.evaluate("async () => (await import('/js/api.js')).forgetPalace()")
    page.route("**/api/palace*", piece)
    requests = Held(page, "**/api/flat")
    with page.expect_response("**/api/palace?picture=*"), page.expect_request("**/api/flat"):
        page.evaluate("() => { location.hash = '#/'; }")
    requests.let_go()
    page.locator(".room h2", has_text="40 memories").wait_for()
    page.unroute("**/api/palace*")

    page.evaluate("async () => (await import('/js/api.js')).forgetPalace()")


# ── Nothing is taken out of a person's hands ────────────────────────────────────────────


def test_nothing_is_redrawn_under_the_hand_of_a_person(page, elsewhere):
    async def appears(store):
        await store.palace.remember("people/facts/anna", "plays the flute")

    go(page, "facet/people/facts")
    page.evaluate("getSelection().selectAllChildren(document.querySelector('main h1'))")
    elsewhere(appears)
    page.get_by_role("button", name="Show now").wait_for()
    assert "anna" not in page.inner_text("main .rows")
    press(page, "Show now")

    page.locator("main .rows", has_text="anna").wait_for()


def test_a_form_opened_while_the_page_is_drawn_anew_stays_open(page, elsewhere):
    go(page, memory(EMIL))
    requests = Held(page, "**/api/memory?*")
    with page.expect_request("**/api/memory?*"):  # the page is being drawn anew
        elsewhere(remembers("people/facts/jon", "plays the harp"))
    press(page, "Edit")
    requests.let_go()
    page.get_by_role("button", name="Show now").wait_for()

    assert page.locator("#edit-text").is_visible()
    page.keyboard.press("Escape")
    press(page, "Show now")
    page.wait_for_selector("main:not([aria-busy])")


def test_a_button_that_is_being_pressed_is_not_replaced(page, elsewhere):
    go(page, memory(EMIL))
    requests = Held(page, "**/api/memory?*")
    with page.expect_request("**/api/memory?*"):  # the page is being drawn anew
        elsewhere(remembers("people/facts/jana", "plays the horn"))
    page.get_by_role("button", name="Pin", exact=True).hover()
    page.mouse.down()
    requests.let_go()
    page.mouse.up()

    page.locator(".memory-side .chip", has_text="pinned").wait_for()
    press(page, "Unpin")
    page.locator(".memory-side .chip", has_text="pinned").wait_for(state="detached")


def test_the_choices_of_a_list_and_the_focus_stay_when_it_is_drawn_anew(page, elsewhere):
    go(page, "facet/people/facts")
    chosen = page.get_by_role("button", name="active")
    chosen.click()
    with page.expect_response("**/api/palace"):
        elsewhere(remembers("people/facts/kira", "plays the lute"))
    page.locator("main .rows", has_text="kira").wait_for()

    assert "true" == chosen.get_attribute("aria-pressed")
    assert chosen.evaluate("one => one === document.activeElement")
    chosen.click()


def test_a_view_that_a_person_set_up_waits_to_be_drawn_anew(page, elsewhere):
    go(page, "graph")
    page.get_by_role("button", name="Zoom in").click()
    elsewhere(remembers("people/facts/lena", "plays the viola"))

    page.get_by_role("button", name="Show now").wait_for()
    assert 1 == page.locator("[data-held]").count()


def test_what_is_taken_back_beside_an_open_form_leaves_the_form(page):
    go(page, memory(EMIL))
    press(page, "Pin")
    page.locator("#done", has_text="Pinned").wait_for()
    press(page, "Edit")
    assert 0 == page.locator(".memory-side button:visible").count()  # only the form acts
    page.fill("#edit-text", "thirteen")
    page.locator("#done").get_by_role("button", name="Unpin").click()
    page.get_by_role("button", name="Show now").wait_for()
    assert "thirteen" == page.input_value("#edit-text")
    press(page, "Save")  # though the memory has another version by now: its text is the one that was seen

    page.locator("main .value", has_text="thirteen").wait_for()
    assert 0 == page.locator(".memory-side .chip", has_text="pinned").count()


def test_a_text_whose_memory_got_a_new_version_is_saved_if_it_still_says_the_same(page):
    """The ledger may no longer have the version that was seen, and then cannot compare the texts."""

    def refuse(route):
        asked.append(route.request.post_data_json["seen"])
        now = {"value": before, "event_id": asked[0], "path": EMIL}
        told = {"error": {"type": "EditConflict", "message": "another"}, "now": now}
        route.fulfill(status=409, json=told) if len(asked) == 1 else route.continue_()

    asked = []
    go(page, memory(EMIL))
    before = value(page)
    press(page, "Edit")
    page.fill("#edit-text", "fourteen")
    page.route("**/api/edit", refuse)
    page.locator("#edit-text").press("Control+Enter")
    page.locator("main .value", has_text="fourteen").wait_for()
    page.unroute("**/api/edit")

    assert 2 == len(asked)


def test_who_goes_on_while_a_question_is_typed_is_not_called_back_to_it(page):
    address = page.evaluate(
        """() => new Promise((done) => {
            const query = document.getElementById("query");
            query.value = "artist";
            query.dispatchEvent(new Event("input"));
            addEventListener("hashchange", () => setTimeout(() => done(location.hash), 100), { once: true });
            location.hash = "#/review";
        })"""
    )

    assert "#/review" == address


# ── Streams ─────────────────────────────────────────────────────────────────────────────


def test_several_tabs_read_one_stream_and_another_takes_over_when_it_is_closed(page, elsewhere):
    async def appears(store):
        await store.palace.remember("people/facts/paul", "paints")

    other = page.context.new_page()
    streams = []
    other.on("request", lambda request: streams.append(request.url) if "/api/events" in request.url else None)
    other.goto(page.url.partition("#")[0] + "#/facet/people/facts")
    other.wait_for_selector("html[data-ready]")
    assert not streams
    page.goto("about:blank")
    other.wait_for_selector("#live:not(.off)")
    elsewhere(appears)
    other.locator("main .rows", has_text="paul").wait_for()
    assert 1 == len(streams)
    page.go_back()
    page.wait_for_selector("html[data-ready]")
    other.close()


def test_a_page_that_was_cut_off_connects_again_and_shows_what_it_missed(page, elsewhere):
    async def appears(store):
        await store.palace.remember("people/facts/rosa", "weaves")

    go(page, "facet/people/facts")
    page.route("**/api/events", lambda route: route.abort())
    page.reload()  # its stream ends, and the next one does not begin
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector("#live.off")
    elsewhere(appears)
    assert "not connected" in page.locator("#live").get_attribute("title").lower()
    page.unroute("**/api/events")
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # who looks again does not wait
    page.wait_for_selector("#live:not(.off)")
    page.locator("main .rows", has_text="rosa").wait_for()
    page.said.clear()
