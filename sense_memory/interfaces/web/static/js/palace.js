// The palace: its rooms at a moment that a slider chooses, and the memories of one facet.

import { get, palace } from "./api.js";
import { GLYPHS, STATES, countsOver, memoryOf, relevanceThen, stateOf } from "./decay.js";
import { ago, announce, clock, count, day, el, figure, growing, heading, nothing, number, quoted, route, seconds } from "./dom.js";
import { draw } from "./app.js";
import { colours, stacked } from "./charts.js";

const DAY = 86400;
const ROWS = 100;
const moments = { now: 0, at: 0 }; // the slider stays where it was left, from one room to the next

/** What a memory is at a moment; null where it did not exist. */
function seen(memory, at) {
  const relevance = relevanceThen(memory, at);
  return relevance === null ? null : { memory, relevance, state: stateOf(relevance) };
}

const seenAll = (memories, at) => memories.map((memory) => seen(memory, at)).filter(Boolean);

function tally(items) {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  for (const item of items) counts[item.state] += 1;
  return counts;
}

const inWords = (counts) => STATES.filter((state) => counts[state]).map((state) => `${number(counts[state])} ${state}`).join(", ") || "nothing yet";

export const stateMark = (state) => el("span", { class: `state ${state}` }, el("span", { "aria-hidden": "true" }, GLYPHS[state]), ` ${state}`);

function legend(counts) {
  return STATES.map((state) => el("span", { class: `state ${state}` }, el("span", { "aria-hidden": "true" }, GLYPHS[state]), ` ${number(counts[state])} ${state}`));
}

// ── Time ────────────────────────────────────────────────────────────────────────────────

/** What the note says of a past that the ledger knows, but for some memories. */
const ofTheLedger = (missing) => `As this machine's ledger has it.${missing ? ` It has no version of ${count(missing, "memory", "memories")} from then: shown by ${missing === 1 ? "its date" : "their dates"}, with today's text.` : ""} The chart goes by the dates of today's memories.`;

/**
 * The slider with the chart behind it.
 *
 * `moved` gets the memories as they are known at a time, the time, and what `flatAt` gave for a past that the ledger was
 * asked for; null before that. `keeps` says which memories of the palace belong here.
 */
function timeline(memories, moved, { keeps = () => true, flatAt = async () => null } = {}) {
  const now = moments.now;
  const first = Math.min(now - 30 * DAY, ...[memories.reduce((least, memory) => Math.min(least, memory.created), now)]);
  const days = { back: Math.ceil((now - first) / DAY), ahead: 365 };
  const times = Array.from({ length: 240 }, (_, index) => first + (index * (days.back + days.ahead) * DAY) / 239);
  const chart = el("div", { class: "timeline-chart", "aria-hidden": "true" });
  const slider = el("input", { type: "range", min: -days.back, max: days.ahead, step: 1, value: Math.round((moments.at - now) / DAY), id: "when", list: null });
  const words = el("output", { class: "when", for: "when" });
  const tallied = el("p", { class: "tally" });
  const note = el("p", { class: "note" });
  const play = el("button", { type: "button", class: "plain" }, "Play the year ahead");
  const back = el("button", { type: "button", class: "plain", hidden: true }, "Back to now");
  let asking = 0, playing = 0, past = null;

  function show() {
    const at = moments.at, asked = past?.at === at ? past : null;
    const items = seenAll(asked ? [...asked.memories, ...asked.missing] : memories, at);
    const offset = Math.round((at - now) / DAY);
    const name = offset === 0 ? "Today" : day(at);
    words.replaceChildren(el("b", {}, name), offset === 0 ? "" : ` · ${ago(at, now)}`);
    slider.setAttribute("aria-valuetext", `${name}: ${inWords(tally(items))}`);
    slider.parentElement?.style.setProperty("--at", `${(100 * (offset + days.back)) / (days.back + days.ahead)}%`);
    tallied.replaceChildren(...legend(tally(items)));
    back.hidden = offset === 0;
    if (offset > 0) note.textContent = "If nothing is recalled or written until then.";
    else if (offset === 0) note.textContent = "";
    else note.textContent = asked ? ofTheLedger(asked.missing.length) : "By the dates of today's memories.";
    moved(items, at, asked && asked.flat);
  }

  function choose(offset) {
    moments.at = offset === 0 ? now : Math.max(0, now + offset * DAY);
    clearTimeout(asking);
    if (offset < 0) asking = setTimeout(recall, 180, moments.at);
    show();
  }

  async function recall(at) {
    const [found, flat] = await Promise.all([palace(at), flatAt(at)]).catch(() => []);
    if (found && at === moments.at && slider.isConnected) {
      const then = found.rows.map(memoryOf).filter(keeps), paths = new Set(then.map((memory) => memory.path));
      past = { at, memories: then, missing: memories.filter((memory) => !paths.has(memory.path) && memory.created <= at), flat };
      show();
    }
  }

  function step() {
    const offset = Math.min(days.ahead, Number(slider.value) + 2);
    slider.value = offset;
    choose(offset);
    playing = offset < days.ahead && slider.isConnected ? requestAnimationFrame(step) : stop();
  }

  function stop() {
    cancelAnimationFrame(playing);
    play.textContent = "Play the year ahead";
    return 0;
  }

  slider.addEventListener("input", () => { if (playing) playing = stop(); choose(Number(slider.value)); });
  slider.addEventListener("change", () => announce(slider.getAttribute("aria-valuetext")));
  back.addEventListener("click", () => { if (playing) playing = stop(); slider.value = 0; choose(0); slider.focus(); });
  play.addEventListener("click", () => {
    if (playing) { playing = stop(); return; }
    if (Number(slider.value) >= days.ahead || Number(slider.value) < 0) slider.value = 0;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) { // one step instead of a film
      slider.value = Math.min(days.ahead, Number(slider.value) + 30);
      choose(Number(slider.value));
      return;
    }
    play.textContent = "Pause";
    playing = requestAnimationFrame(step);
  });

  const scale = el("div", { class: "scale", "aria-hidden": "true" },
    el("span", {}, days.back * 5 < days.ahead ? "" : day(first)), el("span", { class: "scale-now" }, "today"), el("span", {}, days.ahead * 5 < days.back ? "" : day(now + days.ahead * DAY)));
  const track = el("div", { class: "track" }, chart, slider, scale);
  track.style.setProperty("--now", `${(100 * days.back) / (days.back + days.ahead)}%`);
  const box = el("section", { class: "timeline", "aria-label": "Time" },
    el("div", { class: "timeline-head" }, el("label", { for: "when", class: "hidden" }, "Show the palace at this day"), words, tallied, el("span", { class: "grow" }), back, play),
    track, note);
  const drawn = () => stacked(chart, times, countsOver(memories, times));
  return { box, begin() { drawn(); choose(Number(slider.value)); } };
}

// ── Rooms ───────────────────────────────────────────────────────────────────────────────

export async function showPalace() {
  let isPart = false;
  const whole = await new Promise((done, failed) => { // the first piece is drawn at once, the whole when it is here
    const reading = palace(undefined, (rows, isWhole, now) => {
      if (!isWhole && !isPart) { isPart = true; done({ rows: [...rows], now }); }
    });
    reading.then((all) => {
      if (isPart) document.dispatchEvent(new CustomEvent("whole"));
      else done(all);
    }, failed);
  });
  moments.now = whole.now;
  if (!moments.at || Math.abs(moments.at - whole.now) < DAY) moments.at = whole.now;
  const memories = whole.rows.map(memoryOf);
  const flat = await get("flat").catch(() => ({ total: 0, rows: [] }));
  const title = el("h1", {}, "Palace");
  if (!memories.length && !flat.total) {
    return [title, nothing(whole, "No memories yet", "The first memory appears here, and fades unless it is recalled.", "sense-memory remember people/facts/lisa \"artist, teaches workshops\"")];
  }
  const rooms = el("div", { class: "rooms" });
  const cards = new Map();
  for (const memory of memories) {
    const facets = cards.get(memory.domain) ?? cards.set(memory.domain, new Map()).get(memory.domain);
    const facet = facets.get(memory.facet) ?? facets.set(memory.facet, { size: 0 }).get(memory.facet);
    facet.size += 1;
  }
  const sizes = [...cards].map(([domain, facets]) => [domain, facets, [...facets.values()].reduce((sum, facet) => sum + facet.size, 0)]);
  sizes.sort(([one, , size], [other, , more]) => more - size || one.localeCompare(other));
  for (const [domain, facets] of sizes) rooms.append(room(domain, facets));
  const flatHolder = flat.total ? el("section", { class: "room" }) : null;
  if (flatHolder) { flatHolder.append(...flatRoom(flat)); rooms.append(flatHolder); }

  /** The flat memories of a time: those of the ledger, or until it has answered those of today by their dates. */
  function paintFlat(at, then) {
    if (!flatHolder) return;
    const isPast = at < whole.now, rows = isPast ? flat.rows.filter((memory) => seconds(memory.created_at) <= at) : flat.rows;
    const byDates = { rows, total: !isPast ? flat.total : flat.next === null ? rows.length : null };
    flatHolder.replaceChildren(...flatRoom((isPast && then) || byDates, isPast ? flat.total : null));
  }

  function paint(items) {
    const by = new Map();
    for (const item of items) {
      const name = `${item.memory.domain}/${item.memory.facet}`;
      (by.get(name) ?? by.set(name, []).get(name)).push(item);
    }
    const shelves = [...rooms.querySelectorAll(".shelf")], palette = colours();
    const widths = shelves.map((one) => one.querySelector("canvas").clientWidth || 260); // read before anything is written
    const size = tileSize(Math.max(...[...by.values()].map((held) => held.length), 1));
    shelves.forEach((one, place) => drawShelf(one, by.get(one.dataset.name) ?? [], size, widths[place], palette));
    for (const one of rooms.querySelectorAll("[data-facet]")) one.textContent = ` ${number(by.get(one.dataset.facet)?.length ?? 0)}`;
    const held = new Map();
    for (const item of items) held.set(item.memory.domain, (held.get(item.memory.domain) ?? 0) + 1);
    for (const one of rooms.querySelectorAll("[data-domain]")) one.textContent = count(held.get(one.dataset.domain) ?? 0, "memory", "memories");
  }
  let last = [];
  const time = memories.length ? timeline(memories, (items, at, then) => { last = items; paint(items); paintFlat(at, then); }, { flatAt: (at) => (flatHolder ? get("flat", { at }) : null) }) : null;
  const begin = () => { time?.begin(); };
  requestAnimationFrame(begin);
  document.addEventListener("painted", () => { if (rooms.isConnected) paint(last); });
  if (isPart) {
    rooms.append(el("p", { class: "loading" }, "Opening more memories…"));
    document.addEventListener("whole", () => { if (rooms.isConnected) draw({ keepsFocus: true }); }, { once: true });
  }
  return [title, time?.box, rooms].filter(Boolean);
}

function room(domain, facets) {
  const listed = [...facets].sort(([one], [other]) => one.localeCompare(other));
  const more = listed.slice(12);
  return el("section", { class: "room" },
    el("h2", { dir: "auto" }, el("span", { text: domain }), el("small", { "data-domain": domain })),
    el("ul", { class: "shelves" }, listed.slice(0, 12).map(([facet]) => shelf(domain, facet))),
    more.length ? el("details", {}, el("summary", {}, count(more.length, "more facet")), el("ul", { class: "plain-list" }, more.map(([facet]) => el("li", {}, el("a", { href: route("facet", domain, facet), text: facet }), el("span", { "data-facet": `${domain}/${facet}` }))))) : null);
}

function shelf(domain, facet) {
  return el("li", {}, el("a", { class: "shelf", href: route("facet", domain, facet), "data-name": `${domain}/${facet}` },
    el("span", { class: "shelf-name", dir: "auto", text: facet }), el("span", { class: "shelf-count" }), el("canvas", { "aria-hidden": "true" }), el("span", { class: "hidden shelf-words" })));
}

/** The side of a tile and of the gap after it, in pixels, by how many the fullest shelf holds. */
const tileSize = (most) => (most > 1200 ? [3, 1] : most > 200 ? [5, 1] : most > 60 ? [9, 2] : [18, 3]);

/** One tile for each memory, the more relevant the fuller. */
function drawShelf(box, items, [tile, gap], width, palette) {
  const canvas = box.querySelector("canvas"), dots = devicePixelRatio || 1;
  const across = Math.max(1, Math.floor((width + gap) / (tile + gap)));
  const height = Math.max(1, Math.ceil(items.length / across)) * (tile + gap);
  const pen = canvas.getContext("2d");
  if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    canvas.style.height = `${height}px`;
  }
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, width, height);
  items.sort((one, other) => other.relevance - one.relevance);
  items.forEach((item, place) => {
    const x = (place % across) * (tile + gap), y = Math.floor(place / across) * (tile + gap);
    const full = Math.min(1, item.relevance);
    pen.fillStyle = palette[item.state];
    pen.globalAlpha = 0.22;
    pen.fillRect(x, y, tile, tile);
    pen.globalAlpha = item.state === "dissolved" ? 0.35 : 1;
    const filled = Math.max(1, tile * full);
    pen.fillRect(x, y + tile - filled, tile, filled);
  });
  box.querySelector(".shelf-count").textContent = number(items.length);
  box.querySelector(".shelf-words").textContent = `: ${inWords(tally(items))}`;
}

/** The first flat memories of a time, and how many there are, if that is known; `today` is how many there are now. */
function flatRoom(flat, today = null) {
  const all = today === null ? `All ${number(flat.total)}` : `All ${number(today)} of today`;
  return [
    el("h2", {}, el("span", {}, "Flat memories"), el("small", {}, flat.total === null ? "…" : number(flat.total))),
    el("ul", { class: "plain-list" }, flat.rows.slice(0, 6).map((memory) => el("li", {}, el("a", { class: "flat", href: route("memory", memory.path) }, el("b", { text: memory.path, dir: "auto" }), " ", quoted(memory.value))))),
    el("p", { class: "note" }, flat.total === 0 ? "None was here then." : "Flat memories have a key instead of a path, and never fade."),
    (today ?? flat.total) > 6 ? el("p", {}, el("a", { href: route("flat") }, all)) : null,
  ].filter(Boolean);
}

// ── One facet ───────────────────────────────────────────────────────────────────────────

export async function showFacet(domain = "", facet = "") {
  const whole = await palace();
  moments.now = whole.now;
  if (!moments.at) moments.at = whole.now;
  const memories = whole.rows.map(memoryOf).filter((memory) => memory.domain === domain && memory.facet === facet);
  const title = el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Palace"), " / ", el("span", { text: domain })), heading(facet));
  if (!memories.length) return [title, nothing(whole, "No memories in this facet", "There is no memory in it, or none any more.")];
  const list = el("ul", { class: "rows" });
  let items = [], shown = 0;
  function more() {
    for (const item of items.slice(shown, shown + ROWS)) list.append(row(item));
    shown = Math.min(items.length, shown + ROWS);
    return shown >= items.length;
  }
  const holder = el("div");
  let waiting = 0;
  const time = timeline(memories, (found) => {
    items = found.sort((one, other) => other.relevance - one.relevance || one.memory.path.localeCompare(other.memory.path));
    cancelAnimationFrame(waiting);
    waiting = requestAnimationFrame(() => {
      shown = 0;
      list.replaceChildren();
      if (!items.length) list.append(el("li", { class: "none" }, "Nothing was here then."));
      holder.replaceChildren(more() ? list : growing(list, async () => more(), "Show more"));
    });
  }, { keeps: (memory) => memory.domain === domain && memory.facet === facet });
  requestAnimationFrame(() => time.begin());
  return [title, time.box, holder];
}

function row({ memory, relevance, state }) {
  const bar = el("span", { class: `bar ${state}`, "aria-hidden": "true" }, el("i"));
  bar.firstChild.style.width = `${Math.min(100, Math.max(2, 100 * relevance))}%`;
  return el("li", {}, el("a", { class: `row ${state}`, href: route("memory", memory.path) },
    el("span", { class: "row-key" }, el("b", { text: memory.key, dir: "auto" }), memory.isSuperseded ? el("span", { class: "chip against" }, "superseded") : memory.contradicts ? el("span", { class: "chip against" }, "contradicted") : null),
    quoted(memory.excerpt, "span", "row-text"),
    el("span", { class: "row-state" }, bar, el("span", {}, stateMark(state), ` ${figure(relevance)}`))));
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
