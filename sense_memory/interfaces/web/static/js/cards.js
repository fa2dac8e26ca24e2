// What a person looks for first: the newest memories, those that are used most, and those that fade next, as texts.

import { BOUNDS, GLYPHS, fallsTo, fate, relevanceAt, stateOf } from "./decay.js";
import { ago, el, quoted, route } from "./dom.js";

const DAY = 86400;
const SHOWN = 3;
const SOON = 60 * DAY; // what is forgotten later than that does not fade next

/** A memory as a card: its text, its name, and one line about it. */
function card(memory, words, now) {
  const state = stateOf(relevanceAt(memory, now));
  return el("li", {}, el("a", { class: "card", href: route("memory", memory.path) },
    quoted(memory.excerpt, "span", "card-text"),
    el("span", { class: "card-name" }, el("span", { class: `state ${state}`, "aria-hidden": "true" }, GLYPHS[state]), " ", el("b", { text: memory.key, dir: "auto" }), el("span", { class: "place", dir: "auto", text: `${memory.domain} / ${memory.facet}` })),
    el("span", { class: "card-words" }, words)));
}

const first = (memories, order) => memories.sort((one, other) => order(one) - order(other) || (one.path < other.path ? -1 : 1)).slice(0, SHOWN);

/** The cards of a palace; null where there are too few memories to choose from. No memory is shown twice. */
export function highlights(memories, now) {
  const left = new Set(memories.filter((memory) => !memory.isSuperseded && memory.written <= now));
  const taken = (listed) => { for (const memory of listed) left.delete(memory); return listed; };
  const forgottenAt = (memory) => fallsTo(memory, BOUNDS.fading);
  const newest = taken(first([...left], (memory) => -memory.written));
  const used = taken(first([...left].filter((memory) => memory.used > 0 && forgottenAt(memory) > now), (memory) => -memory.used));
  const fading = taken(first([...left].filter((memory) => forgottenAt(memory) > now && forgottenAt(memory) < now + SOON), forgottenAt));
  const parts = [
    ["Newest", newest, (memory) => `written ${ago(memory.written, now)}`],
    ["Used most", used, (memory) => `recalled ${memory.used === 1 ? "once" : `${memory.used} times`}, ${fate(memory, now)}`],
    ["Fading next", fading, (memory) => fate(memory, now)],
  ].filter(([, listed]) => listed.length);
  if (memories.length < 2 * SHOWN || !parts.length) return null;
  return el("div", { class: "highlights" }, parts.map(([title, listed, words]) => el("section", {}, el("h2", {}, title), el("ul", {}, listed.map((memory) => card(memory, words(memory), now))))));
}
