"""Build the palace of Otto, the assistant of a print studio, as nine months would have left it; `palace.py FOLDER`.

The notes are those of the demo. A clock that is set back lets each be written, recalled and edited on a day of its own, so
that some are fresh, some fade, and the ledger knows what the palace was at any time. Public API only; no network but
relays of this process.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from sense_memory import EmbeddedRelay, MemoryStore


NOTES = Path(__file__).with_name("notes")
DAY = 86_400.0
SPAN_DAYS = 270
PLACES = {
    "people": ("people", "facts"),
    "projects": ("projects", "facts"),
    "decisions": ("projects", "decisions"),
    "preferences": ("people", "preferences"),
    "procedures": ("studio", "procedures"),
    "dates": ("studio", "dates"),
}
MORE = {
    "self/beliefs/short-answers": "Short answers are read; long ones are filed. I start with what to do.",
    "self/beliefs/ask-before-sending": "I ask before anything leaves the studio under Lisa's name.",
    "self/beliefs/silence-is-consent": "If nobody answers in three days, the plan stands.",
    "self/emotions/proud-of-bremen": "The Bremen list had no mistake in it. I was proud of that for a week.",
    "self/emotions/wary-of-couriers": "Two crates arrived broken. I photograph every lid now.",
    "self/decisions/write-what-it-replaces": "When a note replaces another one, I say so in the note.",
    "self/facts/name": "I am Otto, the assistant of a small print studio in Vancouver.",
    "people/facts/hannah": "Hannah comes on Tuesdays, and takes the bus at 21:40; class has to end in time.",
    "people/facts/city-permit-office": "Ms Leung at the permit office answers the phone on Thursdays only.",
    "projects/facts/catalogue-2026": "32 pages, risograph, blue and fluorescent pink, 300 copies. Text by Jonas, in two languages.",
    "projects/facts/pop-up-market": "A table at the spring market, 12 square feet, prints under 40 dollars only.",
    "projects/decisions/market-once-a-year": "One market a year. Two cost a month of printing.",
    "studio/facts/press-bed": "The press bed is 61 by 107 cm. Blocks above 22 mm do not fit under the roller.",
    "studio/facts/humidity": "Kozo curls below 40 % humidity; the damp box stands beside the north window.",
    "studio/facts/keys": "Three keys: Lisa, Tomás, and the box of Mrs Okafor.",
}
HALFLIVES = {
    "facts": 90.0,
    "decisions": 60.0,
    "procedures": 120.0,
    "preferences": 75.0,
    "dates": 45.0,
    "emotions": 12.0,
    "beliefs": 40.0,
}
LINKS = (
    "bremen-exhibition jonas-weber", "bremen-exhibition framing-in-bremen", "bremen-exhibition crate-pickup",
    "bremen-exhibition kozo-order", "bremen-exhibition ship-prints-abroad", "bremen-exhibition catalogue-2026",
    "kozo-order yuki-tanabe", "kozo-order golden-week", "kozo-order paper-kozo-over-hosho", "yuki-tanabe greet-japanese-customers",
    "autumn-workshops workshop-price-2026", "autumn-workshops cancel-a-workshop", "autumn-workshops workshop-regulars",
    "workshop-regulars hannah", "website-relaunch tomas-rivera", "website-relaunch no-discount-codes", "lisa-brandt emil-brandt",
    "lisa-brandt lisa-birthday", "lisa-brandt coffee-order", "lisa-brandt sprache-mit-lisa", "mrs-okafor lease-renewal", "mrs-okafor keys",
    "priya-nair tax-deadline", "priya-nair send-an-invoice", "send-an-invoice invoices-in-two-currencies", "studio-archive back-up-the-archive",
    "risograph-repair open-the-studio", "risograph-repair catalogue-2026", "mural-library city-permit-office",
    "paper-kozo-over-hosho humidity", "print-an-edition colour-of-the-season", "proud-of-bremen bremen-exhibition", "wary-of-couriers ship-prints-abroad",
)  # fmt: skip
RECALLED = [
    "lisa-brandt",
    "jonas-weber",
    "bremen-exhibition",
    "kozo-order",
    "send-an-invoice",
    "workshop-price-2026",
    "autumn-workshops",
    "print-an-edition",
    "name",
    "short-answers",
    "catalogue-2026",
    "ask-before-sending",
    "press-bed",
    "lease-renewal",
    "keys",
    "crate-pickup",
]
EDITS = (
    (120, "projects/facts/risograph-repair", "The drum for fluorescent pink leaks at the left seal. The part came from Montréal and did not fit; the right one is ordered."),
    (96, "projects/facts/risograph-repair", "The drum for fluorescent pink has its new left seal. Watch it until the catalogue is printed."),
    (150, "projects/facts/studio-archive", "Scan every print since 2015 at 600 dpi, with edition number and paper. 268 of 340 done.\nLisa decides which ones go online; nothing is published by itself."),
    (30, "projects/facts/studio-archive", "Scan every print since 2015 at 600 dpi, with edition number and paper. 331 of 340 done.\nLisa decides which ones go online; nothing is published by itself."),
    (70, "people/facts/jonas-weber", "Jonas Weber leitet die Galerie am Deich in Bremen. Er duzt uns seit der Eröffnung, auch in Mails.\nEntscheidet schnell, liest aber keine Anhänge über 5 MB."),
)  # fmt: skip
TALK = (
    ("user", "Has Jonas answered about the frames?"),
    ("assistant", "Yes, this morning: twelve frames, 40 euros each, ready on the 10th."),
    ("user", "Good. And who picks the crate up?"),
    ("assistant", "The carrier comes on 21 August between 8 and 12. I have put the customs form into the blue folder, twice."),
    ("user", "Please remind me to photograph the lid."),
    ("assistant", "I will, on the evening before."),
)  # fmt: skip


JOURNAL_DAYS = (236, 201, 168, 124, 88, 47, 12, 1)
THEMES = ("bremen", "kozo", "workshop", "lisa", "invoice")


class Days:
    """A clock that stands at a day before today, until it is told the next one."""

    def __init__(self) -> None:
        self.today = time.time()
        self._now = self.today - SPAN_DAYS * DAY

    def __call__(self) -> float:
        """Seconds since 1970; a moment passes with each call."""
        self._now += 0.01
        return self._now

    def go(self, days_ago: float) -> None:
        """Go to a day, never back."""
        self._now = max(self._now, self.today - days_ago * DAY)


def notes(topic: str) -> list[tuple[str, str]]:
    """The notes of a topic: key and text, or for the journal day and text."""
    text = (NOTES / f"{topic}.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return [(key, value.strip()) for key, value in zip(parts[::2], parts[1::2], strict=True)]


def written() -> list[tuple[float, str, str]]:
    """Every memory: how many days ago it was written, its path and its text; those that are edited later come first."""
    found = {
        f"{'/'.join(place)}/{key}": text for topic, place in PLACES.items() for key, text in notes(topic)
    } | MORE
    edited = {path for _, path, _ in EDITS}
    paths = sorted(found, key=lambda path: (path not in edited, sum(map(ord, path)) * 7_919 % 1_009))
    return [(SPAN_DAYS - 4 - place * 3.3, path, found[path]) for place, path in enumerate(paths)]


async def fill(store: MemoryStore, days: Days) -> None:
    """Live through the months, day by day."""
    paths = {path.rpartition("/")[2]: path for _, path, _ in written()}
    entries = [text for _, text in notes("journal")]
    life: list[tuple[float, str, str, str]] = [(ago, "remember", path, text) for ago, path, text in written()]
    life += [(ago, "edit", path, text) for ago, path, text in EDITS]
    life += [(place * 2.7, "recall", paths[key], "") for place, key in enumerate(RECALLED)]
    life += [(ago, "journal", "", text) for ago, text in zip(JOURNAL_DAYS, entries, strict=True)]
    known: set[str] = set()
    for ago, what, path, text in sorted(life, key=lambda item: -item[0]):
        days.go(ago)
        if what == "journal":
            await store.journal(text)
            continue
        if what == "recall":
            await store.palace.recall(path)
        elif what == "edit":
            await store.palace.remember(path, text, contradictions="off")
        else:
            await remember(store, path, text)
            known.add(key := path.split("/")[2])
            for one, other in (pair.split() for pair in LINKS):
                if key in {one, other} and {one, other} <= known:
                    await store.palace.connect(paths[one], paths[other])
    await store.palace.contradict(paths["workshop-price-2025"], paths["workshop-price-2026"])
    days.go(0.05)
    await store.remember("user_timezone", "America/Vancouver")
    await store.remember(
        "language", "Short sentences. English, German with the family, polite Japanese with Kyoto."
    )
    await think(store)


async def remember(store: MemoryStore, path: str, text: str) -> None:
    """Write one memory, with the themes that its words mean."""
    _, facet, key = path.split("/")
    said = f"{key} {text}".lower()
    await store.palace.remember(
        path,
        text,
        [word for word in THEMES if word in said],
        halflife_days=HALFLIVES[facet],
        source="user" if facet == "facts" else "agent",
        confidence=0.4 if key == "silence-is-consent" else 0.9,
        contradictions="off",
    )


async def think(store: MemoryStore) -> None:
    """Fill the mind: blocks, a topic, objectives and a conversation."""
    mind = store.mind
    await mind.blocks.update(
        "persona", value="I am Otto. I keep the studio's promises in order, and say first what to do."
    )
    await mind.blocks.update(
        "human",
        value="Lisa Brandt, printmaker. Answers before ten and after six. Wednesdays are for printing.",
    )
    await mind.identity.set_objective("The catalogue is at the binder's before the opening.", priority=1)
    await mind.identity.set_objective("Every receipt has the short name of its project.", priority=2)
    for title in ("kozo-order", "bremen-exhibition"):
        for key, text in notes("projects"):
            if key == title:
                await mind.archive.insert(text, tags=["project"], topics=[title])
                await mind.topics.update_topic_summary(title, text)
    talk = mind.conversation("bremen-crate")
    for role, text in TALK:
        await talk.add(role, text, name="Lisa" if role == "user" else "Otto")


def make_key(home: Path) -> None:
    """Make the agent's key in a folder."""
    command = [sys.executable, "-m", "sense_memory", "init"]
    environment = {**os.environ, "SENSE_MEMORY_HOME": str(home)}
    subprocess.run(command, env=environment, check=True, capture_output=True)  # noqa: S603 - no one else's words


async def build(home: Path) -> None:
    """Make a palace in a folder that has a key, with copies on two relays, one of which misses the last weeks."""
    os.environ["SENSE_MEMORY_HOME"] = str(home)
    days = Days()
    async with (
        EmbeddedRelay(home / "relay.db") as first,
        EmbeddedRelay(home / "second.db") as second,
    ):
        relays = [first.url, second.url]
        (home / "config.toml").write_text(f"relays = {relays!r}\n".replace("'", '"'), encoding="utf-8")
        async with MemoryStore.from_settings(clock=days, background=False) as store:
            await fill(store, days)
            await store.sync()
            await store.sync()
        async with MemoryStore.from_settings(relays=[first.url], background=False) as store:
            await store.palace.remember(
                "projects/facts/next-year", "Kyoto asked whether we would come in April."
            )
            await store.journal("Yuki wrote: come in April, the mill is open to guests then.")
            await store.sync()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: palace.py FOLDER")
    folder = Path(sys.argv[1]).resolve()
    make_key(folder)
    asyncio.run(build(folder))
    print(f"built. Look at it: SENSE_MEMORY_HOME={folder} sense-memory web --edit")
