// What an agent would get for a question: the messages of `mind.prompt`, and what was left out of them and why.

import { get } from "./api.js";
import { announce, count, el, number, quoted, route } from "./dom.js";

const BUDGETS = [300, 800, 2000, 8000, 32000];
const NAMES = { blocks: "blocks", identity: "identity", objectives: "objectives", preferences: "standing preferences", summary: "summary", scene: "scene", recalled: "recalled memories", messages: "messages" };

export async function showPrompt(question = "", conversation = "", budget = "2000") {
  const [mind, told] = await Promise.all([get("mind"), get("prompt", { q: question, conversation, budget })]);
  announce(`A prompt of ${count(told.report.tokens, "token")}`);
  return [
    el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/mind" }, "Mind"), " / Prompt"), el("h1", {}, "What an agent gets")),
    el("p", { class: "note" }, "What an agent's model would be sent for a question. Looking revives nothing."),
    form(mind.conversations.map((one) => one.id), question, conversation, budget),
    report(told.report),
    el("section", {}, el("h2", {}, "The prompt"), el("ol", { class: "messages prompt" }, sent(told))),
  ];
}

function form(conversations, question, conversation, budget) {
  const ask = el("input", { id: "ask", name: "question", value: question, autocomplete: "off", placeholder: "the user's last message" });
  const known = conversation && !conversations.includes(conversation) ? [...conversations, conversation] : conversations;
  const where = choice("in", [["", "no conversation"], ...known.map((id) => [id, id])], conversation);
  const size = choice("tokens", BUDGETS.map((one) => [String(one), `${number(one)} tokens`]), budget);
  const go = (event) => {
    event?.preventDefault();
    location.hash = route("prompt", ask.value.trim(), where.value, size.value);
  };
  for (const one of [where, size]) one.addEventListener("change", go);
  return el("form", { class: "ask", onsubmit: go },
    el("label", {}, el("span", {}, "Question"), ask), el("label", {}, el("span", {}, "Conversation"), where),
    el("label", {}, el("span", {}, "Budget"), size), el("button", { class: "plain", type: "submit" }, "Show"));
}

const choice = (name, options, chosen) => el("select", { name }, options.map(([value, words]) => el("option", { value, selected: value === chosen }, words)));

function report({ tokens, budget, parts, problems }) {
  const rows = parts.map((part) => el("tr", {}, el("th", { scope: "row" }, NAMES[part.name] ?? part.name),
    el("td", { class: "figure" }, number(part.tokens)), el("td", { class: "figure" }, number(part.shown)), el("td", {}, part.left_out ? `${number(part.left_out)}: ${part.why}` : "")));
  return el("section", {}, el("h2", {}, "What it costs", el("small", {}, `${number(tokens)} of ${number(budget)} tokens`)),
    parts.length ? el("table", { class: "parts" }, el("thead", {}, el("tr", {}, ["Part", "Tokens", "Shown", "Left out"].map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows)) : el("p", { class: "note" }, "Nothing is kept that this question needs."),
    problems.length ? el("ul", { class: "remarks" }, problems.map((one) => el("li", {}, one))) : null);
}

function sent({ system, messages }) {
  const first = system ? [message("system", "system prompt", system)] : [];
  return [...first, ...messages.map((one) => message(one.is_said ? one.role : "tool", one.is_said ? one.name || one.role : "what memory knows, before the newest message", one.content))];
}

const message = (kind, head, text) => el("li", { class: `message ${kind}` }, el("p", { class: "message-head" }, el("b", { text: head })), quoted(text || "(a tool call)", "p", "entry"));
