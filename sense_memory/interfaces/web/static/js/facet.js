// The memories of one facet, sorted and filtered; and the flat memories.

import { get, palace } from "./api.js";
import { GLYPHS, STATES, fate, memoryOf } from "./decay.js";
import { clock, day, el, growing, heading, nothing, number, quoted, route } from "./dom.js";
import { moments, stateMark, timeline } from "./timeline.js";

const ROWS = 100;
const THEMES = 60; // in the list to choose from

export async function showFacet(domain = "", facet = "") {
  const whole = await palace();
  moments.now = whole.now;
  if (!moments.at) moments.at = whole.now;
  const memories = whole.rows.map(memoryOf).filter((memory) => memory.domain === domain && memory.facet === facet);
  const title = el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Palace"), " / ", el("span", { text: domain })), heading(facet));
  if (!memories.length) return [title, nothing(whole, "No memories in this facet", "There is no memory in it, or none any more.")];
  const list = el("ul", { class: "rows" });
  if (wanted.facet !== `${domain}/${facet}`) Object.assign(wanted, { facet: `${domain}/${facet}`, words: "", theme: "", states: new Set() });
  const holder = el("div"), tools = memories.length > 3 ? chooser(memories, () => show()) : null;
  let items = [], chosen = [], shown = 0, waiting = 0;
  function more() {
    for (const item of chosen.slice(shown, shown + ROWS)) list.append(row(item));
    shown = Math.min(chosen.length, shown + ROWS);
    return shown >= chosen.length;
  }
  function show() {
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      chosen = tools ? tools.choose(items) : items.sort(ORDERS.relevance[1]);
      shown = 0;
      list.replaceChildren();
      if (!chosen.length) list.append(el("li", { class: "none" }, items.length ? "None of these memories fits." : "Nothing was here then."));
      holder.replaceChildren(more() ? list : growing(list, async () => more(), "Show more"));
    });
  }
  const time = timeline(memories, (found) => { items = found; show(); }, { keeps: (memory) => memory.domain === domain && memory.facet === facet });
  requestAnimationFrame(() => time.begin());
  return [title, time.box, tools?.box, holder].filter(Boolean);
}

// ── Sorted and filtered ─────────────────────────────────────────────────────────────────

const byPath = (one, other) => (one.memory.path < other.memory.path ? -1 : 1);
const ORDERS = {
  relevance: ["Most relevant first", (one, other) => other.relevance - one.relevance || byPath(one, other)],
  newest: ["Newest first", (one, other) => other.memory.written - one.memory.written || byPath(one, other)],
  used: ["Recalled most first", (one, other) => other.memory.used - one.memory.used || byPath(one, other)],
  name: ["By name", byPath],
};
const kept = { order: "relevance" }; // from one facet to the next
const wanted = { facet: "", words: "", theme: "", states: new Set() }; // of one facet: what is written elsewhere meanwhile changes no choice
const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();

/** The fields above the list: an order, words, a theme and states; `changed` is called after each choice. */
function chooser(memories, changed) {
  const option = (value, words, isChosen) => el("option", { value, selected: isChosen }, words);
  const order = el("select", {}, Object.entries(ORDERS).map(([name, [words]]) => option(name, words, name === kept.order)));
  const words = el("input", { type: "search", placeholder: "Words", autocomplete: "off", spellcheck: "false", value: wanted.words });
  const counts = new Map();
  for (const memory of memories) for (const theme of new Set(memory.themes)) counts.set(theme, (counts.get(theme) ?? 0) + 1);
  const themes = [...counts].sort(([one, most], [other, more]) => more - most || one.localeCompare(other)).slice(0, THEMES);
  const theme = themes.length ? el("select", {}, option("", "All themes"), themes.map(([name, times]) => option(name, `${name} (${number(times)})`, name === wanted.theme))) : null;
  const states = STATES.map((state) => el("button", { type: "button", class: `plain state ${state}`, "aria-pressed": String(wanted.states.has(state)), value: state }, el("span", { "aria-hidden": "true" }, GLYPHS[state]), ` ${state}`));
  for (const state of states) {
    state.addEventListener("click", () => {
      if (!wanted.states.delete(state.value)) wanted.states.add(state.value);
      state.setAttribute("aria-pressed", String(wanted.states.has(state.value)));
      changed();
    });
  }
  order.addEventListener("change", () => { kept.order = order.value; changed(); });
  words.addEventListener("input", () => { wanted.words = words.value; changed(); });
  theme?.addEventListener("input", () => { wanted.theme = theme.value; changed(); });
  const field = (name, input) => input && el("label", {}, name, input);
  const box = el("section", { class: "ask choices", "aria-label": "Which memories, in which order" }, field("Order", order), field("With these words", words), field("Theme", theme), el("div", { class: "states", role: "group", "aria-label": "States" }, states));
  return {
    box,
    choose(items) {
      const said = fold(words.value).split(/\s+/).filter(Boolean);
      const fits = ({ memory, state }) => (!wanted.states.size || wanted.states.has(state)) && (!theme?.value || memory.themes.includes(theme.value)) && said.every((word) => fold(`${memory.key} ${memory.excerpt} ${memory.themes.join(" ")}`).includes(word));
      return items.filter(fits).sort(ORDERS[order.value][1]);
    },
  };
}

function row({ memory, relevance, state }) {
  const bar = el("span", { class: `bar ${state}`, "aria-hidden": "true" }, el("i"));
  bar.firstChild.style.width = `${Math.min(100, Math.max(2, 100 * relevance))}%`;
  return el("li", {}, el("a", { class: `row ${state}`, href: route("memory", memory.path) },
    el("span", { class: "row-key" }, el("b", { text: memory.key, dir: "auto" }), memory.isSuperseded ? el("span", { class: "chip against" }, "superseded") : memory.contradicts ? el("span", { class: "chip against" }, "contradicted") : null),
    quoted(memory.excerpt, "span", "row-text"),
    el("span", { class: "row-state" }, bar, el("span", { title: `relevance ${relevance.toFixed(2)}` }, stateMark(state), ` · ${fate(memory, moments.at)}`))));
}

export async function showFlat() {
  const list = el("ul", { class: "rows" });
  let next = 0, piece = null;
  async function more() {
    piece = await get("flat", { start: next });
    for (const { path, value, created_at: created } of piece.rows) {
      list.append(el("li", {}, el("a", { class: "row", href: route("memory", path) }, el("span", { class: "row-key" }, el("b", { text: path, dir: "auto" })), quoted(value, "span", "row-text"), el("span", { class: "row-state" }, `${day(created)}, ${clock(created)}`))));
    }
    next = piece.next;
    return next === null;
  }
  const isDone = await more();
  const title = el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Palace")), el("h1", {}, "Flat memories"));
  if (!list.children.length) return [title, nothing(piece, "No flat memories", "Flat memories have a key instead of a path, and never fade.", "sense-memory remember user_timezone America/Vancouver")];
  return [title, isDone ? list : growing(list, more)];
}
