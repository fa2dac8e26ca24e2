// One memory: its text, how it fades, what it is linked with, its versions, and which relays hold it.

import { act, get, session } from "./api.js";
import { GLYPHS, fate } from "./decay.js";
import { ago, announce, count, day, el, figure, heading, memoryLink, moment, percent, quoted, route, seconds, timeOf } from "./dom.js";
import { life } from "./charts.js";
import { difference } from "./diff.js";
import { editing } from "./edit.js";
import { marksButton, textOf } from "./markdown.js";
import { draw } from "./app.js";

export const HELD = {
  queued: "queued", acked: "accepted", confirmed: "accepted and shown", refused: "refused", parked: "not accepted for a week", superseded: "replaced by a newer version", deleted: "deleted there",
};

/** A button that carries out an action and draws the page anew. */
export function button(words, action, names, done, kind = "") {
  const made = el("button", { type: "button", class: `act ${kind}` }, words);
  made.addEventListener("click", async () => {
    made.disabled = true;
    const place = placeOfAct(made);
    try {
      const result = await act(action, ...names);
      announce(result.changed ? done : "There was nothing to change.");
      await draw({ keepsFocus: true });
      refocus(place);
    } catch (error) {
      made.disabled = false;
      announce(error.message);
      made.after(el("span", { class: "problem", role: "alert" }, error.message));
    }
  });
  return made;
}

/** Which one a button is of those of the view. */
export const placeOfAct = (button) => [...document.querySelectorAll("main .act")].indexOf(button);

/** Put the focus on the button that replaced the pressed one, or on the title; otherwise Tab would begin at the top. */
export function refocus(place) {
  const left = [...document.querySelectorAll("main .act")], title = document.querySelector("main h1");
  if (document.activeElement !== document.body) return;
  if (title) title.tabIndex = -1;
  (left[Math.min(place, left.length - 1)] ?? title)?.focus({ preventScroll: true });
}

export async function showMemory(path) {
  const told = await get("memory", { path });
  const { memory, now } = told;
  const isPersona = memory.kind === "palace";
  const state = isPersona ? memory.state : null;
  const crumbs = isPersona
    ? [el("a", { href: "#/" }, "Palace"), " / ", el("span", { text: memory.domain, dir: "auto" }), " / ", el("a", { href: route("facet", memory.domain, memory.facet), text: memory.facet, dir: "auto" })]
    : [el("a", { href: "#/" }, "Palace"), " / ", el("a", { href: route("flat") }, "Flat memories")];
  const head = el("div", { class: "memory-head" },
    el("p", { class: "crumbs" }, crumbs),
    heading(memory.key),
    state ? el("p", { class: "standing" }, el("span", { class: `state ${state}` }, el("span", { "aria-hidden": "true" }, GLYPHS[state]), ` ${state}`), ` · ${fate(shapeOf(memory), now)} · last written, linked or recalled `, timeOf(memory.last_accessed, ago(memory.last_accessed, now))) : el("p", { class: "standing" }, `Written ${ago(memory.created_at, now)}; flat memories do not fade.`));
  const text = textOf(memory.value, "blockquote", memory.value.length > 900 ? "value long" : "value");
  const marks = marksButton([memory.value], () => draw({ keepsFocus: true }));
  const edits = session.edit ? editing(memory, text) : null;
  const against = isPersona ? opposed(memory) : null;
  const actions = session.edit ? el("p", { class: "actions" }, edits.buttons,
    told.can_undo ? button("Bring back the previous text", "undo", [path], "The previous text is back.") : null,
    isPersona ? button("Recall: revive this memory", "recall", [path], "Recalled; it fades anew from now on.") : null, marks) : marks && el("p", { class: "actions" }, marks);
  return [head, el("div", { class: "memory" },
    el("div", { class: "memory-main" }, text, edits?.place, against, actions, isPersona ? curve(memory, told) : null, versions(told)),
    el("aside", { class: "memory-side", "aria-label": "About this memory" }, isPersona ? facts(memory, now) : null, isPersona ? links(memory) : null, holders(told)))];
}

function opposed(memory) {
  const names = [...new Set([memory.superseded_by, ...memory.contradicts].filter(Boolean))];
  const later = memory.suspected_by;
  if (!names.length && !later.length) return null;
  return el("div", { class: "against-box" }, names.map((name) => el("p", {},
    name === memory.superseded_by ? "Superseded by " : "Contradicted by ", memoryLink(name), name === memory.superseded_by ? ", so it fades four times as fast. " : ". ",
    session.edit ? button("Both are right", "reconcile", [memory.path, name], "Reconciled.") : null)), later.map((name) => el("p", {},
    "Perhaps contradicted by ", memoryLink(name), ", written later. ",
    session.edit ? button("The later one counts", "contradict", [memory.path, name], "Marked.") : null,
    session.edit ? button("Both are right", "dismiss", [memory.path, name], "Dismissed.") : null)));
}

/** A memory as `decay.js` counts with it. */
const shapeOf = (memory) => ({ relevance: memory.relevance, halflife: memory.halflife_days, accessed: seconds(memory.last_accessed), created: seconds(memory.created_at), connections: memory.connections.length, contradicts: memory.contradicts.length, isSuperseded: memory.superseded_by !== null });

function curve(memory, told) {
  const shape = shapeOf(memory);
  const place = el("div", { class: "life", role: "img", "aria-label": `Relevance is ${figure(memory.current_relevance)} now. It halves every ${count(memory.halflife_days, "day")}${shape.isSuperseded ? ", four times as fast because it is superseded" : ""}.` });
  requestAnimationFrame(() => life(place, shape, told.now, told.versions.map((version) => seconds(version.created_at))));
  return el("section", {}, el("h2", {}, "How it fades"), place, el("p", { class: "note" }, "Solid until today; dashed if the memory is not written, linked or recalled again. Triangles mark the versions below. Before it was last written, linked or recalled, the line is an estimate: how it would have faded since its first day if nothing had happened to it."));
}

function facts(memory, now) {
  const rows = [
    ["First written", timeOf(memory.created_at, day(memory.created_at))],
    memory.written_at > memory.created_at ? ["Text written", timeOf(memory.written_at, day(memory.written_at))] : null,
    ["Recalled", memory.access_count ? count(memory.access_count, "time") : "never"],
    ["Half-life", count(memory.halflife_days, "day")],
    ["Confidence", percent(memory.confidence)],
    ["Source", memory.source || "not given"],
    memory.themes.length ? ["Themes", el("span", {}, memory.themes.map((theme) => el("span", { class: "chip", text: theme, dir: "auto" })))] : null,
    memory.conflict_of ? ["Lost edit of", memoryLink(memory.conflict_of)] : null,
  ];
  return el("section", {}, el("h2", {}, "Facts"), el("dl", {}, rows.filter(Boolean).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])));
}

function links(memory) {
  if (!memory.connections.length) return null;
  const { path } = memory;
  return el("section", {}, el("h2", {}, "Connected with"), el("ul", { class: "plain-list" }, memory.connections.map((name) => el("li", {}, memoryLink(name), session.edit ? [" ", button("Disconnect", "disconnect", [path, name], "Disconnected.")] : null))), el("p", {}, el("a", { href: route("graph", path) }, "Show in the graph")));
}

function versions(told) {
  const { versions: listed } = told;
  const items = listed.map((version, place) => {
    const before = listed[place + 1];
    const isFirst = place === listed.length - 1 && listed.length === told.versions_total;
    let body, kind = "";
    if (version.value === null) body = el("p", { class: "note" }, "Forgotten.");
    else if (before?.value === undefined || before.value === null) body = quoted(version.value, "p", "diff");
    else if (before.value === version.value) { kind = "quiet"; body = null; }
    else body = el("p", { class: "diff quoted", dir: "auto" }, difference(before.value, version.value).map(([piece, text]) => el({ same: "span", gone: "del", new: "ins" }[piece], { text })));
    const word = isFirst ? "written" : version.restored && !kind ? "undone: an earlier text came back" : kind ? "same text" : "edited";
    const changes = version.changes.length ? el("p", { class: "note", text: version.changes.join("; "), dir: "auto" }) : null;
    const conflicts = version.conflicts.map((name) => el("p", { class: "note" }, "In conflict with ", memoryLink(name), ": neither device knew the text of the other."));
    return el("li", { class: kind }, el("p", { class: "version-head" }, timeOf(version.created_at, moment(version.created_at)), ` · ${word}`, version.is_head ? el("span", { class: "chip" }, "current text") : null), body, changes, conflicts);
  });
  const more = told.versions_total - listed.length;
  return el("section", {}, el("h2", {}, `${count(told.versions_total, "version")} on this machine`), el("ol", { class: "versions" }, items), more > 0 ? el("p", { class: "note" }, `${count(more, "older version")}: sense-memory history`) : null);
}

function holders(told) {
  const title = el("h2", {}, "Copies");
  if (!told.relays.length) return el("section", {}, title, el("p", { class: "note" }, "Only on this machine: no relays are configured."));
  const rows = told.relays.map((url) => {
    const state = told.holders[url];
    return el("li", { class: `copy ${state ?? "missing"}` }, el("span", { class: "dot", "aria-hidden": "true" }), el("span", { text: url, class: "url" }), el("span", { class: "copy-state" }, HELD[state] ?? "not sent there"));
  });
  return el("section", {}, title, el("ul", { class: "copies" }, rows));
}
