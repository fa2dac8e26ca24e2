// The slider through time with the chart behind it, for the whole palace and for one facet.

import { palace } from "./api.js";
import { GLYPHS, STATES, countsOver, memoryOf, relevanceThen, stateOf } from "./decay.js";
import { ago, announce, count, day, el, number } from "./dom.js";
import { stacked } from "./charts.js";

const DAY = 86400;
export const moments = { now: 0, at: 0 }; // the slider stays where it was left, from one room to the next

/** What a memory is at a moment; null where it did not exist. */
function seen(memory, at) {
  const relevance = relevanceThen(memory, at);
  return relevance === null ? null : { memory, relevance, state: stateOf(relevance) };
}

const seenAll = (memories, at) => memories.map((memory) => seen(memory, at)).filter(Boolean);

export function tally(items) {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0]));
  for (const item of items) counts[item.state] += 1;
  return counts;
}

export const inWords = (counts) => STATES.filter((state) => counts[state]).map((state) => `${number(counts[state])} ${state}`).join(", ") || "nothing yet";

export const stateMark = (state) => el("span", { class: `state ${state}` }, el("span", { "aria-hidden": "true" }, GLYPHS[state]), ` ${state}`);

function legend(counts) {
  return STATES.map((state) => el("span", { class: `state ${state}` }, el("span", { "aria-hidden": "true" }, GLYPHS[state]), ` ${number(counts[state])} ${state}`));
}

/** What the note says of a past that the ledger knows, but for some memories. */
const ofTheLedger = (missing) => `As this machine's ledger has it.${missing ? ` It has no version of ${count(missing, "memory", "memories")} from then: shown by ${missing === 1 ? "its date" : "their dates"}, with today's text.` : ""} The chart goes by the dates of today's memories.`;

/**
 * The slider with the chart behind it.
 *
 * `moved` gets the memories as they are known at a time, the time, and what `flatAt` gave for a past that the ledger was
 * asked for; null before that. `keeps` says which memories of the palace belong here.
 */
export function timeline(memories, moved, { keeps = () => true, flatAt = async () => null } = {}) {
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
    delete play.dataset.held;
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
    play.dataset.held = "true"; // not drawn anew while it plays
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
