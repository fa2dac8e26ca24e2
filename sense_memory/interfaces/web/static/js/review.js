// Introspection: what needs attention, and the decisions on it. Looking writes nothing.

import { get, session } from "./api.js";
import { GLYPHS, STATES } from "./decay.js";
import { count, day, el, empty, memoryLink, nothing, number, quoted, route, timeOf, visible } from "./dom.js";
import { button } from "./memory.js";

const TITLES = {
  contradictions: ["Contradictions to confirm", "In each pair, one memory counts less or was superseded, and nobody has confirmed that."],
  suggested_contradictions: ["Suspected contradictions", "The two memories of each pair seem to contradict each other, but are not marked."],
  suggested_connections: ["Could be connected", "The memories share themes or words."],
  conflicts: ["Edits that lost", "Another device changed the same memory at the same time; the edit that lost is kept as a memory of its own."],
  suggested_revisions: ["May be outdated", "Old enough to be wrong by now."],
  stale_beliefs: ["Weak beliefs", "Low confidence, and hardly ever recalled."],
  forgotten_memories: ["Forgotten", "They dissolve unless they are recalled; the next to dissolve comes first."],
  orphaned: ["Not connected", "Active or fading, and connected with no other memory."],
  overloaded_facets: ["Large facets", "Too many active memories in one facet."],
  suggested_compressions: ["Large domains", "The active memories of each would fill a prompt."],
};

/** Why something was proposed. */
const WHY = { asked: "asked to be remembered", instruction: "an instruction", preference: "a preference", family: "about the family", project: "about a project" };

export async function showReview() {
  const [told, { proposals }] = await Promise.all([get("introspection"), get("proposals")]);
  const title = el("h1", {}, "Review");
  const lists = Object.keys(TITLES).map((name) => ({ name, count: told.counts[name] - (name === "contradictions" ? told.decided : 0), items: told[name], bounded: told.bounded[name] })).filter((list) => list.count || list.bounded);
  const proposed = proposals.length ? proposedSection(proposals) : null;
  if (!told.total_memories && !proposed) return [title, nothing(told, "Nothing to review yet", "The palace has no memories.")];
  const head = el("p", { class: "tally" }, STATES.map((state) => el("span", { class: `state ${state}` }, el("span", { "aria-hidden": "true" }, GLYPHS[state]), ` ${number(told[state])} ${state}`)));
  const note = session.edit ? null : el("p", { class: "note" }, "Read-only. Start sense-memory web --edit to decide here.");
  const pairs = told.decided;
  const decided = pairs ? el("p", { class: "note decided" }, `${count(pairs, "contradiction")} ${pairs === 1 ? "is" : "are"} decided, and not listed here.`) : null;
  if (!lists.length && !proposed) return [title, head, decided, empty("All in order", "Nothing to decide, no suggestion, nothing forgotten.")].filter(Boolean);
  return [title, head, decided, note, el("div", { class: "reviews" }, proposed, lists.map((list) => section(list, told)))].filter(Boolean);
}

/** The memories that sessions proposed: nothing of them is in the palace before somebody accepts it. */
function proposedSection(proposals) {
  return el("section", { class: "review proposals", id: "proposals" },
    el("h2", {}, "Proposed by sessions", el("small", {}, number(proposals.length))), el("p", { class: "note" }, "What was said and may be worth keeping. It is in the palace once you accept it."),
    el("ul", { class: "cases" }, proposals.map(proposal)));
}

function proposal(one) {
  const act = (words, action, done, kind) => {
    const made = button(words, action, [one.id], `${done}: ${one.path}`, kind);
    made.setAttribute("aria-label", visible(`${words}: ${one.path}`));
    return made;
  };
  return el("li", {}, el("p", { class: "case-memory" }, el("span", { class: "path", text: one.path, dir: "auto" }), quoted(one.value, "span", "case-text")),
    el("p", { class: "reason" }, `${WHY[one.reason] ?? visible(one.reason)} · `, one.conversation ? ["said in ", el("a", { href: route("conversation", one.conversation), text: one.conversation, dir: "auto" }), " "] : null, timeOf(one.at, day(one.at))),
    one.replaces ? el("div", { class: "meanwhile" }, el("p", {}, "Accepting it replaces what is there now:"), quoted(one.replaces, "p", "case-text")) : null,
    one.themes.length ? el("p", {}, one.themes.map((theme) => el("span", { class: "chip", text: theme, dir: "auto" }))) : null,
    session.edit ? el("p", { class: "actions" }, act("Accept", "accept-proposal", "Accepted", "yes"), act("Reject", "reject-proposal", "Rejected")) : null);
}

function section(list, told) {
  const [title, lead] = TITLES[list.name] ?? [list.name, ""];
  const first = list.items.slice(0, 8), rest = list.items.slice(8);
  const left = list.count - list.items.length;
  return el("section", { class: `review ${list.name}`, id: list.name },
    el("h2", {}, title, el("small", {}, number(list.count))), el("p", { class: "note" }, lead),
    list.count ? el("ul", { class: "cases" }, first.map((item) => one(list.name, item, told))) : null,
    rest.length ? el("details", {}, el("summary", {}, `${number(rest.length)} more`), el("ul", { class: "cases" }, rest.map((item) => one(list.name, item, told)))) : null,
    left > 0 ? el("p", { class: "note" }, `${count(left, "further one", "further ones")}: sense-memory palace introspect`) : null,
    list.bounded ? el("p", { class: "note" }, list.bounded) : null);
}

function one(name, item, told) {
  const { paths } = item, { excerpts } = told;
  const body = item.name ? el("p", {}, el("b", { text: item.name, dir: "auto" })) : paths.map((path) => el("p", { class: "case-memory" }, memoryLink(path), quoted(excerpts[path] ?? "", "span", "case-text")));
  return el("li", {}, body, item.reason ? el("p", { class: "reason" }, visible(item.reason)) : null, name === "conflicts" ? lost(paths[0], told) : session.edit ? decisions(name, paths) : null);
}

/** What an edit lost to, and how it is settled: on its page, or by the command that is there to copy. */
function lost(path, { conflict_of: of = {}, counting = {} }) {
  const winner = of[path];
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const agent = session.agent && session.agent !== "default" ? ` --agent ${quote(session.agent)}` : "";
  return [winner ? el("p", { class: "case-memory" }, el("span", { class: "note" }, counting[winner] === undefined ? "The current memory is gone: " : "The current text:"), memoryLink(winner), counting[winner] === undefined ? null : quoted(counting[winner], "span", "case-text")) : null,
    el("p", { class: "note" }, "If nothing of it is missing in the current text, forget it:"), el("p", {}, el("code", { dir: "ltr" }, `sense-memory${agent} forget ${quote(path)}`))];
}

function decisions(name, paths) {
  const named = paths.map((path) => path.split("/").at(-1)).join(" and ");
  const act = (words, action, done, kind) => {
    const made = button(words, action, paths, `${done}: ${named}`, kind);
    made.setAttribute("aria-label", visible(`${words}: ${named}`));
    return made;
  };
  if (name === "contradictions") return el("p", { class: "actions" }, act("Confirm: the newer counts", "contradict", "Confirmed", "yes"), act("Both are right", "reconcile", "Reconciled"));
  if (name === "suggested_contradictions") return el("p", { class: "actions" }, act("Accept: the newer counts", "contradict", "Marked", "yes"), act("Dismiss", "dismiss", "Dismissed"));
  if (name === "suggested_connections") return el("p", { class: "actions" }, act("Connect", "connect", "Connected", "yes"), act("Dismiss", "dismiss", "Dismissed"));
  if (name === "forgotten_memories") return el("p", { class: "actions" }, act("Recall", "recall", "Recalled", "yes"));
  return null;
}
