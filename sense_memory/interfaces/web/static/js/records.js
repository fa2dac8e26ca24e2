// What is not in the palace's rooms: the journal, the mind with its conversations, and the relays.

import { get } from "./api.js";
import { ago, clock, count, el, empty, growing, heading, longDay, moment, nothing, number, quoted, route, timeOf } from "./dom.js";

// ── Journal ─────────────────────────────────────────────────────────────────────────────

export async function showJournal() {
  const title = el("h1", {}, "Journal");
  const days = el("div", { class: "journal" });
  let next = 0, last = "", list = null, piece = null;
  async function more() {
    piece = await get("journal", { start: next });
    for (const entry of piece.rows) {
      const name = longDay(entry.created_at);
      if (name !== last) {
        list = el("ol", { class: "entries" });
        days.append(el("section", {}, el("h2", {}, name), list));
        last = name;
      }
      list.append(el("li", {}, timeOf(entry.created_at, clock(entry.created_at)), quoted(entry.value, "p", "entry")));
    }
    next = piece.next;
    return next === null;
  }
  const isDone = await more();
  if (!list) return [title, nothing(piece, "No journal entries", "Entries appear here by day.", "sense-memory journal \"Met Lisa. She teaches printmaking.\"")];
  return [title, isDone ? days : growing(days, more)];
}

// ── Mind ────────────────────────────────────────────────────────────────────────────────

const RULES = "Rules quote what was said (decisions, dates, preferences, corrections, instructions) and conclude nothing else; summaries in new words, and conclusions with a confidence, need a language model.";

export async function showMind() {
  const mind = await get("mind");
  const title = el("div", {}, el("h1", {}, "Mind"), el("p", { class: "note" }, RULES), el("p", { class: "note" }, el("a", { href: "#/prompt" }, "What an agent gets for a question")));
  const blocks = mind.blocks.filter((block) => block.version > 0);
  const parts = [
    blocks.length ? el("section", {}, el("h2", {}, "Blocks", el("small", {}, "always in the prompt")), el("div", { class: "blocks" }, blocks.map(block))) : null,
    mind.identity.lines.length ? el("section", {}, el("h2", {}, "Identity"), mind.identity.lines.map((line) => quoted(line, "p", "entry"))) : null,
    mind.objectives.length ? el("section", {}, el("h2", {}, "Objectives"), el("ol", { class: "objectives" }, mind.objectives.map((objective) => el("li", {}, el("span", { class: "chip" }, `priority ${objective.priority}`), quoted(objective.text))))) : null,
    mind.topics.length ? el("section", {}, el("h2", {}, "Topics", el("small", {}, number(mind.topics_total))), el("dl", { class: "topics" }, mind.topics.map((topic) => [el("dt", {}, el("b", { text: topic.name, dir: "auto" }), el("small", {}, count(topic.passages, "passage"))), el("dd", {}, topic.summary ? quoted(topic.summary) : "No summary yet.")])), unlisted(mind.topics_total - mind.topics.length)) : null,
    mind.conversations.length ? el("section", {}, el("h2", {}, "Conversations", el("small", {}, number(mind.conversations_total))), el("ul", { class: "rows" }, mind.conversations.map((one) => el("li", {}, el("a", { class: "row", href: route("conversation", one.id) }, el("span", { class: "row-key" }, el("b", { text: one.id, dir: "auto" })), one.title ? quoted(one.title, "span", "row-text") : el("span", { class: "row-text" }), el("span", { class: "row-state" }, count(one.messages, "message")))))), unlisted(mind.conversations_total - mind.conversations.length)) : null,
  ].filter(Boolean);
  if (!parts.length) return [title, nothing(mind, "No blocks, topics or conversations yet", "They appear here once an agent has written them. Passages without a topic, the log and scenes are not shown here.", "sense-memory mind --help")];
  return [title, mind.is_whole ? null : partial(), el("div", { class: "mind" }, parts)].filter(Boolean);
}

const partial = () => el("p", { class: "note" }, "No relay has shown everything yet, so relays may hold more: ", el("code", {}, "sense-memory sync"));
const unlisted = (left) => (left ? el("p", { class: "note" }, `${number(left)} more ${left === 1 ? "is" : "are"} not shown here.`) : null);

function block(one) {
  const size = [...one.value].length, used = one.limit ? size / one.limit : 0;
  return el("article", { class: "block" }, el("h3", {}, el("span", { text: one.label }), one.read_only ? el("span", { class: "chip" }, "read-only") : null),
    one.description ? quoted(one.description, "p", "note") : null, quoted(one.value || "Empty.", "p", "entry"),
    el("p", { class: "note" }, `version ${one.version}, ${moment(one.updated_at)} · ${number(size)} of ${number(one.limit)} characters${used > 0.9 ? ", nearly full" : ""}`));
}

export async function showConversation(id) {
  const list = el("ol", { class: "messages", reversed: true });
  let next = 0, told = null;
  async function more() {
    told = await get("conversation", { id, start: next });
    for (const message of told.messages) {
      list.append(el("li", { class: `message ${message.role}` }, el("p", { class: "message-head" }, el("b", { text: message.name || message.role }), " ", timeOf(message.at, moment(message.at))), quoted(message.content || (message.tool_calls.length ? "(a tool call)" : "(no text)"), "p", "entry")));
    }
    next = told.next;
    return next === null;
  }
  const isDone = await more();
  const head = el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/mind" }, "Mind"), " / Conversations"), heading(id));
  if (!told.total) return [head, nothing(told, "No messages", "This conversation has no messages on this machine.")];
  const dropped = told.dropped_count ? `${count(told.dropped_count, "older message")} ${told.dropped_count === 1 ? "is" : "are"} in no summary, and no longer in the context.` : "";
  const summary = told.summary || dropped ? el("section", { class: "summary" }, el("h2", {}, told.summary ? `Summary of ${count(told.covered_count, "earlier message")}` : "No summary"), told.summary ? quoted(told.summary, "p", "entry") : null, dropped ? el("p", { class: "note" }, dropped) : null) : null;
  return [head, el("p", { class: "note" }, `${count(told.total, "message")}, the newest first`), told.is_whole ? null : partial(), summary, isDone ? list : growing(list, more)].filter(Boolean);
}

// ── Relays ──────────────────────────────────────────────────────────────────────────────

export async function showRelays() {
  const told = await get("relays");
  const title = el("h1", {}, "Relays");
  const held = el("p", { class: "lead" }, `This machine holds ${count(told.heads, "record")}: ${count(told.memories, "memory", "memories")}, ${count(told.journal_entries, "journal entry", "journal entries")}, and those of the mind.${told.drafts ? ` ${count(told.drafts, "draft")} ${told.drafts === 1 ? "is" : "are"} in no memory.` : ""}`);
  if (!told.relays.length) return [title, held, empty("No relays are configured", "Everything is on this machine only. If the machine is lost, the memory is lost.", "sense-memory relays add wss://relay.example")];
  const elsewhere = told.relays.filter((relay) => relay.holds_all && !relay.is_local).length;
  const fate = told.relays.every((relay) => relay.is_local) ? "the memory would be lost: its only relays are on this machine. Add one elsewhere: sense-memory relays add wss://relay.example" : "a part of the memory would be lost: no relay elsewhere has all of it. Run sense-memory sync.";
  const verdict = elsewhere
    ? el("p", { class: "lead good" }, `If this machine were lost, the memory would survive: ${count(elsewhere, "relay")} elsewhere ${elsewhere === 1 ? "says it holds" : "say they hold"} all of it. Keep the key elsewhere too.`)
    : el("p", { class: "lead bad" }, `If this machine were lost, ${fate}`);
  const copies = el("p", { class: "note" }, "A copy of this data folder, as in the image of a container, is a device of its own: what both wrote is kept, and sync names what lost.");
  const sign = (kind, words) => el("span", {}, el("span", { class: "holding", "aria-hidden": "true" }, kind && el("i", { class: kind })), words);
  const legend = el("p", { class: "holding-legend" }, sign("held", "shown: the relay has sent it back"), sign("promised", "accepted: the relay says it kept it"), sign("", "missing there"));
  return [title, held, verdict, legend, el("div", { class: "relays" }, told.relays.map((relay) => one(relay, told))), copies];
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
    el("p", { class: "standing" }, relay.last_complete === null ? "Never showed everything, so the relay may have memories that are not here." : [relay.hides_journal ? "Last seen whole, but for the journal, " : "Last seen whole ", timeOf(relay.last_complete, ago(relay.last_complete, told.now)), relay.holds_all ? " · says it holds everything" : ""]),
    bar, el("dl", { class: "figures" }, rows.map(([name, value, why]) => el("div", { title: why }, el("dt", {}, name), el("dd", {}, value)))),
    remarks.length ? el("ul", { class: "remarks" }, remarks.map((remark) => el("li", { text: remark }))) : null,
    relay.notices.length ? el("details", {}, el("summary", {}, "Recent notices of the relay"), el("ul", { class: "remarks" }, relay.notices.map((notice) => el("li", {}, quoted(notice))))) : null);
}
