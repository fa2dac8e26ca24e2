// The journal: its entries by day, one day or one month of them, and a new entry.

import { draw } from "./app.js";
import { get } from "./api.js";
import { clock, count, el, growing, longDay, nothing, number, route, timeOf } from "./dom.js";
import { entryForm } from "./edit.js";
import { marksButton, textOf } from "./markdown.js";

/** The first moment of a day of this browser, `2026-05-12`, or of a month, `2026-05`; and the first one after it. */
function span(date) {
  const [, year, month, day] = /^(\d{4})-(\d\d)(?:-(\d\d))?$/.exec(date) ?? [];
  if (!year) return null;
  const from = new Date(+year, +month - 1, +(day ?? 1)), to = day ? new Date(+year, +month - 1, +day + 1) : new Date(+year, +month, 1);
  return { from: from.getTime() / 1000, to: to.getTime() / 1000 };
}

export async function showJournal(date = "") {
  const within = span(date) ?? {};
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const days = el("div", { class: "journal" });
  let next = 0, last = "", list = null, piece = null, first = null;
  async function more() {
    piece = await get("journal", { ...within, start: next });
    first ??= piece;
    for (const entry of piece.rows) {
      const name = longDay(entry.created_at);
      if (name !== last) {
        list = el("ol", { class: "entries" });
        days.append(el("section", {}, el("h2", {}, name), list));
        last = name;
      }
      list.append(el("li", {}, timeOf(entry.created_at, clock(entry.created_at)), textOf(entry.value, "p", "entry")));
    }
    next = piece.next;
    return next === null;
  }
  const [isDone, known] = await Promise.all([more(), get("journal-days", { zone })]);
  const title = el("h1", {}, "Journal");
  if (!list && !known.days.length) return [title, entryForm(), nothing(piece, "No journal entries", "Entries appear here by day.", "sense-memory journal \"Met Lisa. She teaches printmaking.\"")].filter(Boolean);
  const marks = marksButton(first.rows.map((entry) => entry.value), () => draw({ keepsFocus: true }));
  const shown = list ? (isDone ? days : growing(days, more)) : el("p", { class: "note" }, "No entry is of this time.");
  return [title, entryForm(), calendar(known.days, date, marks), shown].filter(Boolean);
}

const MONTH = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric" });

/** Which days there are: a day by the date field, the days around it, and the months. */
function calendar(days, date, marks) {
  const names = days.map(([name]) => name); // the newest first
  const months = new Map();
  for (const [name, size] of days) months.set(name.slice(0, 7), (months.get(name.slice(0, 7)) ?? 0) + size);
  const field = el("input", { type: "date", id: "journal-date", min: names.at(-1), max: names[0], value: date.length === 10 ? date : null });
  field.addEventListener("change", () => { location.hash = field.value ? route("journal", field.value) : route("journal"); });
  const month = el("select", { id: "journal-month" }, el("option", { value: "" }, "every month"), [...months].map(([name, size]) => el("option", { value: name, selected: name === date.slice(0, 7) && date !== "" }, `${MONTH.format(new Date(`${name}-15T12:00`))} (${number(size)})`)));
  month.addEventListener("change", () => { location.hash = month.value ? route("journal", month.value) : route("journal"); });
  const earlier = date.length === 10 ? names.find((name) => name < date) : null, later = date.length === 10 ? names.findLast((name) => name > date) : null;
  const entries = days.reduce((sum, [, size]) => sum + size, 0);
  return el("p", { class: "tools-row" }, el("label", { for: "journal-date" }, "Day "), field, el("label", { for: "journal-month" }, "Month "), month,
    earlier ? el("a", { class: "plain", href: route("journal", earlier), rel: "prev" }, "← earlier") : null, later ? el("a", { class: "plain", href: route("journal", later), rel: "next" }, "later →") : null,
    date ? el("a", { class: "plain", href: route("journal") }, `All ${count(entries, "entry", "entries")}`) : el("span", { class: "note" }, `${count(entries, "entry", "entries")} on ${count(days.length, "day")}`), marks);
}
