// The palace: what is new, used or about to fade, and its rooms at a moment that a slider chooses.

import { get, palace } from "./api.js";
import { memoryOf } from "./decay.js";
import { count, el, nothing, number, quoted, route, seconds } from "./dom.js";
import { draw } from "./app.js";
import { highlights } from "./cards.js";
import { colours } from "./charts.js";
import { drawTiles, readable, tileSize } from "./tiles.js";
import { moments, timeline } from "./timeline.js";

const DAY = 86400;

export async function showPalace() {
  let isPart = false, rest = null;
  const whole = await new Promise((done, failed) => { // the first piece is drawn at once, the whole when it is here
    const reading = palace(undefined, (rows, isWhole, now) => {
      if (!isWhole && !isPart) { isPart = true; done({ rows: [...rows], now }); }
    });
    rest = reading;
    reading.then(done, failed);
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
  readable(rooms);
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
    shelves.forEach((one, place) => drawTiles(one, by.get(one.dataset.name) ?? [], size, widths[place], palette));
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
    const more = el("p", { class: "loading" }, "Opening more memories…");
    rooms.append(more);
    requestAnimationFrame(() => rest.then(() => { if (rooms.isConnected) draw({ keepsFocus: true }); }, () => more.replaceChildren("The rest of the memories could not be read. Open the page anew to try it again.")));
  }
  rooms.style.columnCount = Math.min(4, rooms.querySelectorAll(".room").length); // and no more than fit, by the width of a column
  return [title, highlights(memories, whole.now), time?.box, rooms].filter(Boolean);
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
