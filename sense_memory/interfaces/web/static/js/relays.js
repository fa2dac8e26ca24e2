// What each relay has.

import { get } from "./api.js";
import { ago, count, el, empty, number, quoted, timeOf } from "./dom.js";

// ── Relays ──────────────────────────────────────────────────────────────────────────────

export async function showRelays() {
  const told = await get("relays");
  const title = el("h1", {}, "Relays");
  const held = el("p", { class: "lead" }, `This machine holds ${count(told.heads, "record")}: ${count(told.memories, "memory", "memories")}, ${count(told.journal_entries, "journal entry", "journal entries")}, and those of the mind.${told.drafts ? ` ${count(told.drafts, "draft")} ${told.drafts === 1 ? "is" : "are"} in no memory.` : ""}`);
  const mirrors = el("p", { class: "note" }, el("a", { href: "#/mirrors" }, "Mirrored folders"), ", which are kept the same on all machines");
  if (!told.relays.length) return [title, held, mirrors, empty("No relays are configured", "Everything is on this machine only. If the machine is lost, the memory is lost.", "sense-memory relays add wss://relay.example")];
  const elsewhere = told.relays.filter((relay) => relay.holds_all && !relay.is_local).length;
  const fate = told.relays.every((relay) => relay.is_local) ? "the memory would be lost: its only relays are on this machine. Add one elsewhere: sense-memory relays add wss://relay.example" : "a part of the memory would be lost: no relay elsewhere has all of it. Run sense-memory sync.";
  const verdict = elsewhere
    ? el("p", { class: "lead good" }, `If this machine were lost, the memory would survive: ${count(elsewhere, "relay")} elsewhere ${elsewhere === 1 ? "says it holds" : "say they hold"} all of it. Keep the key elsewhere too.`)
    : el("p", { class: "lead bad" }, `If this machine were lost, ${fate}`);
  const copies = el("p", { class: "note" }, "A copy of this data folder, as in the image of a container, is a device of its own: what both wrote is kept, and sync names what lost.");
  const sign = (kind, words) => el("span", {}, el("span", { class: "holding", "aria-hidden": "true" }, kind && el("i", { class: kind })), words);
  const legend = el("p", { class: "holding-legend" }, sign("held", "shown: the relay has sent it back"), sign("promised", "accepted: the relay says it kept it"), sign("", "missing there"));
  return [title, held, verdict, legend, el("div", { class: "relays" }, told.relays.map((relay) => one(relay, told))), mirrors, copies];
}

function one(relay, told) {
  const share = told.heads ? Math.min(1, relay.memories / told.heads) : 1, promised = told.heads ? Math.min(1 - share, relay.promised / told.heads) : 0;
  const bar = el("div", { class: "holding", role: "img", "aria-label": `showed ${number(relay.memories)} and accepted ${number(relay.promised)} of ${number(told.heads)}` }, el("i", { class: "held" }), el("i", { class: "promised" }));
  bar.children[0].style.width = `${100 * share}%`;
  bar.children[1].style.width = `${100 * promised}%`;
  const waits = (relay.events.queued ?? 0) + (relay.events.parked ?? 0);
  const rows = [["Shown", number(relay.memories), "sent back by the relay"], ["Accepted", number(relay.promised), "accepted, but not shown: comparing sets shows nothing that is here"], ["Missing", number(relay.missing), "neither shown nor accepted"], ["Waiting", number(waits), "to be sent"], ["Refused", number(relay.events.refused ?? 0), ""]];
  const remarks = [relay.problem, ...Object.entries(relay.reasons).map(([reason, times]) => `${reason} (${number(times)})`), ...relay.remarks].filter(Boolean);
  return el("article", { class: `relay ${relay.holds_all ? "whole" : "part"}` },
    el("h2", {}, el("span", { text: relay.url, class: "url" }), relay.is_local ? el("span", { class: "chip" }, "this machine: not a backup") : null),
    el("p", { class: "standing" }, relay.last_complete === null ? "Never showed everything, so the relay may have memories that are not here." : [relay.hides_journal ? "Last read completely, but for the journal, " : "Last read completely ", timeOf(relay.last_complete, ago(relay.last_complete, told.now)), relay.holds_all ? " · says it holds everything" : ""]),
    bar, el("dl", { class: "figures" }, rows.map(([name, value, why]) => el("div", { title: why }, el("dt", {}, name), el("dd", {}, value)))),
    remarks.length ? el("ul", { class: "remarks" }, remarks.map((remark) => el("li", { text: remark }))) : null,
    relay.notices.length ? el("details", {}, el("summary", {}, "Recent notices of the relay"), el("ul", { class: "remarks" }, relay.notices.map((notice) => el("li", {}, quoted(notice))))) : null);
}
