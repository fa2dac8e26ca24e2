// The mind: blocks, identity, objectives, topics, conversations, the log, the archive and scenes.

import { draw } from "./app.js";
import { get } from "./api.js";
import { clock, count, el, growing, heading, longDay, moment, nothing, number, quoted, route, timeOf } from "./dom.js";
import { marksButton, textOf } from "./markdown.js";

const RULES = "Rules quote what was said (decisions, dates, preferences, corrections, instructions) and conclude nothing else; summaries in new words, and conclusions with a confidence, need a language model.";
const FIRST = 5; // entries of the log, and passages, that the overview shows

export async function showMind() {
  const [mind, log, archive, { scenes }] = await Promise.all([get("mind"), get("log", { count: FIRST }), get("archive", { count: FIRST }), get("scenes")]);
  const title = el("div", {}, el("h1", {}, "Mind"), el("p", { class: "note" }, RULES), el("p", { class: "note" }, el("a", { href: "#/prompt" }, "What an agent gets for a question")));
  const parts = [
    ...always(mind), topics(mind), conversations(mind),
    log.total ? el("section", {}, el("h2", {}, "Log", el("small", {}, number(log.total))), el("ol", { class: "log" }, log.rows.map((one) => entry(one, true))), all("log", log, "entry", "entries")) : null,
    archive.total ? el("section", {}, el("h2", {}, "Archive", el("small", {}, number(archive.total))), el("ol", { class: "log" }, archive.rows.map(passage)), all("archive", archive, "passage", "passages")) : null,
    scenes.length ? el("section", {}, el("h2", {}, "Scenes", el("small", {}, number(scenes.length))), sceneRows(scenes)) : null,
  ].filter(Boolean);
  if (!parts.length) return [title, nothing(mind, "No blocks, topics or conversations yet", "They appear here once an agent has written them, as do its log, its archive and its scenes.", "sense-memory mind --help")];
  return [title, mind.is_whole ? null : partial(), el("div", { class: "mind" }, parts)].filter(Boolean);
}

function always(mind) {
  const blocks = mind.blocks.filter((one) => one.version > 0);
  return [
    blocks.length ? el("section", {}, el("h2", {}, "Blocks", el("small", {}, "always in the prompt")), el("div", { class: "blocks" }, blocks.map(block))) : null,
    mind.identity.lines.length ? el("section", {}, el("h2", {}, "Identity"), mind.identity.lines.map((line) => quoted(line, "p", "entry"))) : null,
    mind.objectives.length ? el("section", {}, el("h2", {}, "Objectives"), el("ol", { class: "objectives" }, mind.objectives.map((objective) => el("li", {}, el("span", { class: "chip" }, `priority ${objective.priority}`), quoted(objective.text))))) : null,
  ];
}

function topics(mind) {
  if (!mind.topics.length) return null;
  const rows = mind.topics.map((topic) => [el("dt", {}, el("a", { href: route("archive", topic.name) }, el("b", { text: topic.name, dir: "auto" })), el("small", {}, count(topic.passages, "passage"))), el("dd", {}, topic.summary ? quoted(topic.summary) : "No summary yet.")]);
  return el("section", {}, el("h2", {}, "Topics", el("small", {}, number(mind.topics_total))), el("dl", { class: "topics" }, rows), unlisted(mind.topics_total - mind.topics.length));
}

function conversations(mind) {
  if (!mind.conversations.length) return null;
  const rows = mind.conversations.map((one) => el("li", {}, el("a", { class: "row", href: route("conversation", one.id) }, el("span", { class: "row-key" }, el("b", { text: one.id, dir: "auto" })), one.title ? quoted(one.title, "span", "row-text") : el("span", { class: "row-text" }), el("span", { class: "row-state" }, count(one.messages, "message")))));
  return el("section", {}, el("h2", {}, "Conversations", el("small", {}, number(mind.conversations_total))), el("ul", { class: "rows" }, rows), unlisted(mind.conversations_total - mind.conversations.length));
}

const all = (view, told, one, many) => (told.next === null ? null : el("p", {}, el("a", { href: route(view) }, `All ${count(told.total, one, many)}`)));
const partial = () => el("p", { class: "note" }, "No relay has shown everything yet, so relays may hold more: ", el("code", {}, "sense-memory sync"));
const unlisted = (left) => (left ? el("p", { class: "note" }, `${number(left)} more ${left === 1 ? "is" : "are"} not shown here.`) : null);

function block(one) {
  const size = [...one.value].length, used = one.limit ? size / one.limit : 0;
  return el("article", { class: "block" }, el("h3", {}, el("span", { text: one.label }), one.read_only ? el("span", { class: "chip" }, "read-only") : null),
    one.description ? quoted(one.description, "p", "note") : null, textOf(one.value || "Empty.", "p", "entry"),
    el("p", { class: "note" }, `version ${one.version}, ${moment(one.updated_at)} · ${number(size)} of ${number(one.limit)} characters${used > 0.9 ? ", nearly full" : ""}`));
}

// ── Log, archive and scenes ─────────────────────────────────────────────────────────────

/** An entry of the log: who, what, when, and its words; the other parts of its payload below. */
function entry(one, hasDay) {
  const rest = Object.entries(one.payload).filter(([name, value]) => !["text", "content", "belief"].includes(name) && value !== null && value !== "");
  return el("li", { class: "log-entry" },
    el("p", { class: "message-head" }, el("b", { text: one.actor, dir: "auto" }), " ", el("span", { class: "chip", text: one.kind }), one.conversation ? el("a", { class: "chip", href: route("conversation", one.conversation), text: one.conversation, dir: "auto" }) : null, " ", timeOf(one.at, hasDay ? moment(one.at) : clock(one.at))),
    one.text ? textOf(one.text, "p", "entry") : null,
    rest.length ? el("details", {}, el("summary", {}, count(rest.length, "more field")), el("dl", { class: "payload" }, rest.map(([name, value]) => [el("dt", { text: name }), el("dd", { class: "quoted", dir: "auto", text: typeof value === "string" ? value : JSON.stringify(value) })]))) : null);
}

function passage(one) {
  return el("li", { class: "log-entry" },
    el("p", { class: "message-head" }, one.title ? el("b", { text: one.title, dir: "auto" }) : null, " ", one.topics.map((name) => el("a", { class: "chip", href: route("archive", name), text: name, dir: "auto" })), one.tags.map((name) => el("span", { class: "chip", text: name, dir: "auto" })), " ", timeOf(one.at, moment(one.at))),
    textOf(one.content, "p", "entry"));
}

/** A list of the API, by days, that grows; returns its element and its first piece. */
async function byDays(name, parameters, made) {
  const days = el("div", { class: "journal" });
  let next = 0, last = "", list = null, first = null;
  async function more() {
    const piece = await get(name, { ...parameters, start: next });
    first ??= piece;
    for (const one of piece.rows) {
      const title = longDay(one.at);
      if (title !== last) {
        list = el("ol", { class: "entries" });
        days.append(el("section", {}, el("h2", {}, title), list));
        last = title;
      }
      list.append(made(one));
    }
    next = piece.next;
    return next === null;
  }
  const isDone = await more();
  return [isDone ? days : growing(days, more), first];
}

const crumbs = (...names) => el("p", { class: "crumbs" }, el("a", { href: "#/mind" }, "Mind"), names.map(([words, address]) => [" / ", address ? el("a", { href: address }, words) : words]));
const marks = (texts) => marksButton(texts, () => draw({ keepsFocus: true }));

export async function showLog(kind = "") {
  const [days, first] = await byDays("log", kind ? { kind } : {}, (one) => entry(one, false));
  const title = el("div", {}, crumbs(["Log"]), heading("Log"));
  if (!first.total) return [title, nothing(first, "Nothing in the log yet", "What agents say, do and observe appears here by day.", "sense-memory mind log append --help")];
  const select = el("select", { id: "log-kind" }, el("option", { value: "" }, `everything (${number(first.kinds.reduce((sum, [, size]) => sum + size, 0))})`), first.kinds.map(([name, size]) => el("option", { value: name, selected: name === kind }, `${name} (${number(size)})`)));
  select.addEventListener("change", () => { location.hash = select.value ? route("log", select.value) : route("log"); });
  return [title, el("p", { class: "tools-row" }, el("label", { for: "log-kind" }, "Show "), select, " ", marks(first.rows.map((one) => one.text))), days];
}

export async function showArchive(topic = "") {
  const [days, first] = await byDays("archive", topic ? { topic } : {}, passage);
  const title = el("div", {}, crumbs(topic ? ["Archive", route("archive")] : ["Archive"], ...(topic ? [[visibleName(topic)]] : [])), heading(topic || "Archive"));
  if (!first.total) return [title, nothing(first, "No passages", topic ? "No passage has this topic." : "Passages that agents keep appear here.", "sense-memory mind archive --help")];
  return [title, el("p", { class: "note" }, `${count(first.total, "passage")}, the newest first `, marks(first.rows.map((one) => one.content))), days];
}

const visibleName = (name) => el("span", { text: name, dir: "auto" });

const sceneRows = (scenes) => el("ul", { class: "rows" }, scenes.map((scene) => el("li", {}, el("a", { class: "row", href: route("scene", scene.id) },
  el("span", { class: "row-key" }, el("b", { text: scene.name, dir: "auto" })), quoted(Object.values(scene.members).join(", "), "span", "row-text"), el("span", { class: "row-state" }, count(Object.keys(scene.members).length, "member"))))));

export async function showScenes() {
  const { scenes } = await get("scenes");
  const title = el("div", {}, crumbs(["Scenes"]), heading("Scenes"));
  if (!scenes.length) return [title, nothing({}, "No scenes", "A scene is a log that several agents share.", "sense-memory mind scenes --help")];
  return [title, sceneRows(scenes)];
}

export async function showScene(id = "") {
  const [days, first] = await byDays("scene", { id }, (one) => entry(one, false));
  const { scene } = first;
  const title = el("div", {}, crumbs(["Scenes", route("scenes")]), heading(scene.name));
  const who = el("p", { class: "note" }, "Members: ", quoted(Object.values(scene.members).join(", ")), ".", first.is_member ? "" : " The owner removed you.", first.forged ? ` ${count(first.forged, "entry", "entries")} not shown: not signed by the author who is named.` : "");
  if (!first.total) return [title, who, nothing(first, "No entries yet", "What the members say appears here.", "sense-memory mind scenes --help")];
  return [title, who, el("p", { class: "tools-row" }, marks(first.rows.map((one) => one.text))), days];
}

// ── Conversations ───────────────────────────────────────────────────────────────────────

export async function showConversation(id) {
  const list = el("ol", { class: "messages", reversed: true });
  let next = 0, told = null;
  async function more() {
    told = await get("conversation", { id, start: next });
    for (const message of told.messages) {
      list.append(el("li", { class: `message ${message.role}` }, el("p", { class: "message-head" }, el("b", { text: message.name || message.role }), " ", timeOf(message.at, moment(message.at))), textOf(message.content || (message.tool_calls.length ? "(a tool call)" : "(no text)"), "p", "entry")));
    }
    next = told.next;
    return next === null;
  }
  const isDone = await more();
  const head = el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/mind" }, "Mind"), " / Conversations"), heading(id));
  if (!told.total) return [head, nothing(told, "No messages", "This conversation has no messages on this machine.")];
  const dropped = told.dropped_count ? `${count(told.dropped_count, "older message")} ${told.dropped_count === 1 ? "is" : "are"} in no summary, and no longer in the context.` : "";
  const summary = told.summary || dropped ? el("section", { class: "summary" }, el("h2", {}, told.summary ? `Summary of ${count(told.covered_count, "earlier message")}` : "No summary"), told.summary ? textOf(told.summary, "p", "entry") : null, dropped ? el("p", { class: "note" }, dropped) : null) : null;
  return [head, el("p", { class: "note" }, `${count(told.total, "message")}, the newest first `, marksButton(told.messages.map((message) => message.content), () => draw({ keepsFocus: true }))), told.is_whole ? null : partial(), summary, isDone ? list : growing(list, more)].filter(Boolean);
}

