"""What a person does in the page, in a real Chromium: write, edit, move, forget and take back."""

from __future__ import annotations

import re
import time
from urllib.parse import quote

import pytest

from tests.interfaces.web.chromium import ABSENT, CHROMIUM, go, memory, new, press, value
from tests.interfaces.web.conftest import DAY, FAIR, LISA
from tests.time_unit import SECOND


pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=ABSENT)


# ── Writing ─────────────────────────────────────────────────────────────────────────────


def test_a_new_memory_is_written_and_taken_back(page):
    new(page, "people/facts/nora", "neighbour")
    assert "neighbour" == value(page)
    assert "Written: people / facts / nora" in page.inner_text("#done")
    press(page, "Take back")
    page.locator("#done", has_text="taken back").wait_for()
    page.locator("main h1", has_text="facts").wait_for()  # the facet where it was

    assert "nora" not in page.inner_text("main .rows")


def test_a_path_that_is_taken_is_shown_and_not_written_over(page):
    go(page, "new")
    page.fill("#new-path", "people/facts/emil")
    page.fill("#new-text", "eight")
    press(page, "Save")

    assert "Nothing was saved. It says:\n\nseven" in page.locator(".meanwhile").inner_text()
    go(page, memory("people/facts/emil"))
    assert "seven" == value(page)


def test_a_text_is_edited_in_its_place_with_what_changes_and_undone_there(page):
    go(page, memory(LISA))
    press(page, "Edit")
    assert page.locator("main .value").is_hidden()
    page.fill("#edit-text", "artist in Vancouver")
    page.locator(".edit-form ins", has_text="Vancouver").wait_for()
    assert "Bremen" == page.inner_text(".edit-form del")
    press(page, "Save")
    page.locator("#done", has_text="Changed").wait_for()
    assert "artist in Vancouver" == value(page)
    assert "user" in page.inner_text(".memory-side")  # who edits here speaks for themselves
    press(page, "Undo")
    page.locator("main .value", has_text="Bremen").wait_for()

    assert "artist in Bremen" == value(page)


def test_escape_leaves_a_text_as_it_was(page):
    go(page, memory(LISA))
    press(page, "Edit")
    page.fill("#edit-text", "nothing")
    page.keyboard.press("Escape")
    page.locator(".edit-form").wait_for(state="detached")

    assert "artist in Bremen" == value(page)
    assert "Edit" == page.evaluate("document.activeElement.textContent")


def test_a_text_that_was_not_saved_is_there_when_one_comes_back(page):
    go(page, memory(LISA))
    press(page, "Edit")
    page.fill("#edit-text", "half a sentence")
    go(page, "review")
    go(page, memory(LISA))

    page.locator("#edit-text").wait_for()
    assert "half a sentence" == page.input_value("#edit-text")
    page.keyboard.press("Escape")


def test_a_text_that_changes_elsewhere_while_one_writes_is_shown_and_not_replaced(page, elsewhere):
    async def changes(store):
        await store.palace.remember("people/facts/emil", "eight since May")

    go(page, memory("people/facts/emil"))
    press(page, "Edit")
    page.fill("#edit-text", "seven and a half")
    elsewhere(changes)
    page.locator(".meanwhile ins", has_text="eight since May").wait_for()  # by itself
    assert "seven and a half" == page.input_value("#edit-text")
    page.locator("#edit-text").press("Control+Enter")
    page.locator(".problem, .meanwhile").first.wait_for()
    go(page, "graph")
    go(page, memory("people/facts/emil"))
    page.locator("#edit-text").press("Escape")  # what was written waits there
    page.locator(".edit-form").wait_for(state="detached")
    assert "eight since May" == value(page)  # nothing was written over it

    press(page, "Edit")
    page.fill("#edit-text", "nine")
    page.locator(".edit-form del", has_text="eight since May").wait_for()
    press(page, "Save")
    page.locator("main .value", has_text="nine").wait_for()


def test_one_may_write_over_what_changed_elsewhere_once_one_has_seen_it(page, elsewhere):
    async def changes(store):
        await store.remember("user_timezone", "Europe/Berlin")

    go(page, memory("user_timezone"))
    press(page, "Edit")
    page.fill("#edit-text", "America/Vancouver")
    elsewhere(changes)
    press(page, "Go on with mine, over it")
    page.locator(".edit-form del", has_text="Europe").wait_for()
    press(page, "Save")
    page.locator("main .value", has_text="America/Vancouver").wait_for()

    assert "Berlin" in page.inner_text(".versions")


def test_a_memory_is_forgotten_after_its_key_was_typed_and_brought_back(page):
    go(page, memory(LISA))
    press(page, "Forget…")
    assert page.get_by_role("button", name="Forget", exact=True).is_disabled()
    page.fill("#edit-typed", "lis")
    page.keyboard.press("Enter")
    page.fill("#edit-typed", "lisa")
    press(page, "Forget")
    page.locator("#done", has_text="Forgotten").wait_for()
    page.locator("main h1", has_text="facts").wait_for()
    assert "lisa" not in page.inner_text("main .rows")
    press(page, "Bring back")
    page.locator("main h1", has_text="lisa").wait_for()

    assert "artist in Bremen" == value(page)
    assert "emil" in page.inner_text(".memory-side")


def test_a_memory_moves_and_moves_back(page):
    go(page, memory("user_timezone"))
    text = value(page)
    press(page, "Move…")
    page.fill("#edit-to", "timezone")
    press(page, "Move")
    page.locator("main h1", has_text=re.compile("^timezone$")).wait_for()
    page.locator("#done", has_text="Moved").wait_for()
    assert text == value(page)
    press(page, "Move back")
    page.locator("main h1", has_text="user_timezone").wait_for()

    assert text == value(page)


def test_a_memory_is_pinned_and_all_edits_are_listed_to_be_taken_back(page):
    go(page, memory(LISA))
    press(page, "Pin")
    page.locator(".memory-side .chip", has_text="pinned").wait_for()
    page.get_by_role("link", name="All edits").click()
    page.locator("main h1", has_text="Edits").wait_for()
    first = page.locator(".edits li").first
    assert "Pinned: people / facts / lisa" in first.inner_text()
    first.get_by_role("button").click()
    page.locator(".edits li", has_text="Pinned, and taken back").first.wait_for()

    go(page, memory(LISA))
    assert "pinned" not in page.inner_text(".memory-side")


def test_themes_are_changed_undone_and_taken_away(page):
    chips = page.locator("main dd .chip")

    def give(themes):
        press(page, "Themes…")
        page.fill("#edit-themes", themes)
        page.locator("#edit-themes").press("Enter")
        page.locator(".edit-form").wait_for(state="detached")

    go(page, memory("projects/plans/fair"))
    text = value(page)
    give("spring, Bremen ,spring")
    chips.nth(1).wait_for()
    assert ["spring", "Bremen"] == chips.all_inner_texts()
    give("Bremen")
    chips.nth(1).wait_for(state="detached")
    page.locator("#done", has_text="Other themes: projects / plans / fair").wait_for()
    press(page, "Undo")
    chips.nth(1).wait_for()
    assert {"spring", "Bremen"} == set(chips.all_inner_texts())
    give("")
    chips.nth(0).wait_for(state="detached")

    assert text == value(page)


# ── Ctrl-K ──────────────────────────────────────────────────────────────────────────────


def test_control_k_goes_to_a_memory_by_parts_of_its_path_and_needs_no_mouse(page):
    go(page, "review")
    page.keyboard.press("Control+k")
    box = page.get_by_role("dialog", name="Go to, or do")
    field = box.get_by_role("combobox")
    assert field.evaluate("one => one === document.activeElement")
    for _ in range(3):
        page.keyboard.press("Tab")
    assert field.evaluate("one => one === document.activeElement")  # the focus stays within
    field.fill("peo lis")
    page.keyboard.press("Enter")
    page.locator("main h1", has_text="lisa").wait_for()

    assert 0 == box.count()


def test_control_k_finds_by_words_does_actions_and_closes_with_escape(page):
    go(page, "journal")
    page.locator("#journal-date").focus()
    focused = page.evaluate("document.activeElement.id")
    page.keyboard.press("Control+k")
    page.fill("#palette-query", "artist bremen")
    page.locator("[role=option]", has_text="lisa").wait_for()
    page.keyboard.press("ArrowDown")
    assert page.evaluate(
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).getAttribute('aria-selected')"
    )
    page.keyboard.press("Escape")
    page.locator("dialog").wait_for(state="detached")
    assert focused == page.evaluate("document.activeElement.id")
    page.keyboard.press("Control+k")
    page.fill("#palette-query", "new mem")
    page.locator("[role=option]", has_text="New memory").wait_for()
    page.keyboard.press("Enter")

    page.locator("main h1", has_text="New memory").wait_for()


def test_a_question_leaves_the_field_with_its_hits_and_comes_back_with_them(page):
    go(page, "")
    page.keyboard.press("/")
    page.keyboard.type("artist")
    page.locator(
        ".search-title q", has_text=re.compile("^artist$")
    ).wait_for()  # not the hits of its beginning
    page.locator(".hits a", has_text="lisa").click()
    page.locator("main h1", has_text="lisa").wait_for()
    assert "" == page.input_value("#query")
    page.go_back()
    page.locator(".hits").wait_for()
    assert "artist" == page.input_value("#query")
    page.go_back()
    page.locator("main h1", has_text="Palace").wait_for()
    assert "" == page.input_value("#query")
    page.go_forward()
    page.locator(".hits").wait_for()
    assert "artist" == page.input_value("#query")


def test_a_mirrored_file_among_the_hits_is_counted_as_one_and_leads_to_the_folders(page):
    def with_a_file(route):
        answer = route.fetch()
        told = answer.json()
        told["hits"] = [{**told["hits"][0], "kind": "file", "path": "engine:MEMORY.md", "state": None}]
        route.fulfill(response=answer, json=told)

    page.route("**/api/search?*", with_a_file)
    go(page, "search/artist")
    page.locator(".search-title", has_text="1 mirrored file for").wait_for()
    page.get_by_role("link", name="engine:MEMORY.md").click()

    page.locator("main h1", has_text="Mirrored folders").wait_for()


# ── The mind and the journal ────────────────────────────────────────────────────────────


def test_the_mind_shows_its_log_its_archive_and_its_scenes(page):
    go(page, "mind")
    assert "The door is open." in page.inner_text("main .log")
    for view, text in (
        ("log/world.observed", "The door is open."),
        ("archive/fair", "Our table is number 12."),
        ("scenes", "studio"),
    ):
        go(page, view)
        assert text in page.inner_text("main")
    assert "I am there." not in page.inner_text("main")
    page.get_by_role("link", name="studio").click()
    page.locator(".entry", has_text="The kettle boils.").wait_for()
    assert "Members: Nora" in page.inner_text("main")


def test_the_journal_is_read_by_day_and_by_month_and_written(page):
    go(page, "journal")
    page.locator(".tools-row", has_text="3 entries on 3 days").wait_for()
    day = page.evaluate(
        f"new Date({(time.time() - 70 * DAY) * 1000}).toLocaleDateString('sv')"
    )  # as the date field has it
    page.fill("#journal-date", day)
    page.locator(".entries li").nth(1).wait_for(state="detached")
    assert "Bought paper." in page.inner_text(".journal")
    page.get_by_role("link", name="later").click()
    page.locator(".journal", has_text="press was late").wait_for()
    page.select_option("#journal-month", day[:7])
    page.locator(".journal", has_text="press was late").wait_for(state="detached")
    assert "Bought paper." in page.inner_text(".journal")

    go(page, "journal")
    page.fill("#entry-text", "Wrote to Nora.")
    page.keyboard.press("Control+Enter")
    page.locator(".entries", has_text="Wrote to Nora.").wait_for()
    press(page, "Take back")
    page.locator(".entries", has_text="Wrote to Nora.").wait_for(state="detached")


# ── Markdown ────────────────────────────────────────────────────────────────────────────


def test_markdown_is_shown_as_what_it_means_and_as_written_where_one_wants_that(page):
    go(page, memory("projects/plans/fair"))
    text = page.locator("main .value")
    link = text.locator("a")
    assert ("https://example.com/a_b", "noopener noreferrer nofollow", "_blank") == tuple(
        link.get_attribute(name) for name in ("href", "rel", "target")
    )
    assert "the order (example.com)" == link.inner_text()
    assert ["Fair", "soon", "twelve", 'x = "<b>1</b>"'] == [
        text.locator(tag).inner_text() for tag in ("h4", "strong", "em", "pre code")
    ]
    assert (2, 1, 2) == tuple(
        text.locator(f"{tag}:visible").count() for tag in ("ol > li", "ul > li", "table tr")
    )
    press(page, "As written")
    page.locator("main .value", has_text="## Fair").wait_for()
    assert FAIR.strip() == text.inner_text().strip()
    press(page, "As written")
    page.locator("main .value strong").wait_for()


ALLOWED = [
    "P",
    "EM",
    "STRONG",
    "S",
    "CODE",
    "PRE",
    "UL",
    "OL",
    "LI",
    "HR",
    "H3",
    "H4",
    "H5",
    "H6",
    "BLOCKQUOTE",
    "TABLE",
    "THEAD",
    "TBODY",
    "TR",
    "TH",
    "TD",
    "A",
    "DIV",
    "SPAN",
    "FIGURE",
    "FIGCAPTION",
    "BUTTON",
]


def test_no_text_becomes_markup_or_a_link_that_does_more_than_open_a_page(page):
    """Random texts of the pieces that parsers trip over; a real parser of the browser would have run them."""
    found = page.evaluate(
        """async (allowed) => {
            const { rendered, linkTo } = await import("/js/markdown.js");
            const pieces = ["[", "]", "(", ")", "![", "](", "<", ">", "`", "```", "**", "*", "_", "__", "~~", "|", "\\n", "\\n\\n", "- ", "1. ", "> ", "# ", "    ", "\\\\", "|--|", "javascript:", "JaVaScRiPt:", "data:text/html,", "vbscript:", "file:///etc/passwd", "https://a.example/x", "http://u:p@b.example", "mailto:a@b.c", "//c.example", "https://x\\ty", "<img src=x onerror=hit=1>", "<script>hit=1</script>", "<svg/onload=hit=1>", "<a href=javascript:hit=1>", "&lt;b&gt;", "\\u202e", "\\u0000", "text", '"', "'", " onclick=hit=1 ", "\\r\\n"];
            let seed = 7;
            const draw = (size) => (seed = (seed * 16807) % 2147483647) % size;
            const bad = new Set(), attributes = new Set(["class", "href", "rel", "target", "title", "start", "dir", "tabindex", "type", "aria-label", "role", "scope"]);
            const place = document.createElement("div");
            document.body.append(place);
            for (let turn = 0; turn < 2000; turn += 1) {
                const text = Array.from({ length: 1 + draw(24) }, () => pieces[draw(pieces.length)]).join("");
                place.replaceChildren(...(rendered(text) ?? []));
                for (const one of place.querySelectorAll("*")) {
                    if (!allowed.includes(one.tagName)) bad.add(one.tagName);
                    for (const { name } of one.attributes) if (!attributes.has(name)) bad.add(name);
                    if (one.tagName === "A" && (!/^(https?:|mailto:)/.test(one.href) || !one.rel.includes("noopener") || new URL(one.href).username)) bad.add(one.outerHTML);
                }
            }
            place.remove();
            const refused = ["javascript:hit=1", " javascript:hit=1", "java\\nscript:hit=1", "data:text/html,x", "//evil.example", "/x", "#/x", "https:evil", "https://user@evil.example", "https://a.example\\\\@evil.example", "ftp://a.example", "blob:https://a", "https://a.example/\\u202egnp", "https://", "x".repeat(3000)].filter((one) => linkTo(one) !== null);
            return [[...bad], refused, window.hit ?? null];
        }""",
        ALLOWED,
    )

    assert [[], [], None] == found


def test_the_longest_texts_that_parsers_trip_over_are_shown_at_once(page):
    """40,000 characters each, which a careless parser reads for minutes."""
    slowest = page.evaluate(
        """async () => {
            const { rendered } = await import("/js/markdown.js");
            const texts = ["[", "![", "[](", "[a](", "*", "**a ", "_a ", "~~a ", "`", "`a``b", "> ", "- ", "  - ", "1. ", "#", "# ", "|", "|-|\\n", "<http://", "http://", "https://a.b/(", " ", "\\n ", "\\n\\n \\n", "\\\\*", "```\\n", "a_b_", "*a_b*_", "- a\\n  - b\\n", ">\\n"].map((one) => one.repeat(Math.ceil(40000 / one.length)));
            texts.push(Array.from({ length: 280 }, (_, size) => "`".repeat(size) + "a").join(""), Array.from({ length: 200 }, (_, deep) => `${" ".repeat(deep)}- x`).join("\\n"));
            let slowest = [0, ""];
            for (const text of texts) {
                const begun = performance.now();
                rendered(text);
                const took = performance.now() - begun;
                if (took > slowest[0]) slowest = [took, text.slice(0, 8)];
            }
            return slowest;
        }"""
    )

    assert slowest[0] < 5_000 * SECOND, slowest


# ── Read-only ───────────────────────────────────────────────────────────────────────────


def test_a_page_that_only_reads_offers_no_edit(page):
    page.evaluate("async () => { (await import('/js/api.js')).session.edit = null; }")
    try:
        go(page, memory(LISA))
        words = page.inner_text("main")
        go(page, "journal")
        assert 0 == page.locator("main textarea").count()
        go(page, "new")
        assert "Read-only" in page.inner_text("main")
        page.keyboard.press("Control+k")
        listed = page.inner_text("#palette-list")
        page.keyboard.press("Escape")
    finally:
        page.reload()
        page.wait_for_selector("html[data-ready]")

    assert not {"Edit", "Pin", "Move…", "Forget…"} & set(words.split("\n"))
    assert "New memory" not in listed
    assert "Journal" in listed


def test_every_view_of_work_fits_a_phone_and_names_its_fields(page):
    page.set_viewport_size({"width": 360, "height": 640})
    for view in (
        "new",
        "done",
        "journal",
        "log",
        "archive",
        "scenes",
        memory("projects/plans/fair"),
        quote("mind"),
    ):
        go(page, view)
        found = page.evaluate(
            """() => ({
                over: document.documentElement.scrollWidth - innerWidth,
                titles: document.querySelectorAll("h1").length,
                nameless: [...document.querySelectorAll("button, a, input, select, summary, textarea")].filter((one) => !(one.ariaLabel || one.textContent.trim() || one.labels?.length)).length,
            })"""
        )
        assert {"over": 0, "titles": 1, "nameless": 0} == found, view
