// The hits of a question while it is typed, each with the reasons why it was found; those of the mind after the others.

import { get } from "./api.js";
import { GLYPHS } from "./decay.js";
import { ago, announce, count, el, memoryLink, moment, nothing, number, quoted, route, visible } from "./dom.js";

const WORDS = { word: "word", prefix: "beginning of a word", phrase: "phrase", neighbours: "said just before and after", session: "said that day", date: "date", speaker: "source", meaning: "meaning", supersedes: "supersedes" };
let asked = null;

export async function showSearch(query) {
  const field = document.getElementById("query");
  if (document.activeElement !== field) field.value = query;
  asked?.abort();
  asked = new AbortController();
  const begun = performance.now();
  const told = await get("search", { q: query }, { signal: asked.signal }).catch((error) => {
    if (error.name === "AbortError") return { hits: [], in_mind: [] };
    throw error;
  });
  const { hits, in_mind: inMind } = told;
  const took = performance.now() - begun;
  const title = el("h1", { class: "search-title" }, hits.length ? found(hits, told.has_more) : inMind.length ? "Only in the mind" : "Nothing", " for ", quoted(query, "q"));
  const total = hits.length + inMind.length;
  announce(total ? `${told.has_more || told.has_more_in_mind ? "The best " : ""}${count(total, "hit")}` : "No hits");
  const best = hits[0]?.score;
  const now = Date.now() / 1000;
  const late = told.forgotten_hits ?? [];
  const forgotten = late.length ? el("details", { class: "forgotten-hits" }, el("summary", {}, told.forgotten_note), el("ol", { class: "hits" }, late.map((hit) => shown(hit, late[0].score, now)))) : null;
  if (!total) return [title, nothing(told, "Nothing was found", forgotten ? "Among the active memories, that is." : "Try fewer words, or the beginning of one: photo*."), forgotten].filter(Boolean);
  return [title, el("p", { class: "note" }, `${Math.max(1, Math.round(took))} ms. Searching here revives nothing. `, el("a", { href: route("prompt", query) }, "What an agent would get for this")),
    told.is_doubtful ? el("p", { class: "note" }, inMind.length ? "Probably none of these memories answers it; what was found in the mind, below, may." : "Probably nothing about this is kept; these are only the nearest.") : null,
    el("ol", { class: "hits", "data-took": took.toFixed(1) }, hits.map((hit) => shown(hit, best, now))),
    inMind.length ? el("section", { class: "in-mind" }, el("h2", {}, "In the mind", el("small", {}, `${told.has_more_in_mind ? "the best " : ""}${number(inMind.length)}`)), el("ol", { class: "hits" }, inMind.map((hit) => said(hit, now)))) : null, forgotten].filter(Boolean);
}

/** How many memories, journal entries and mirrored files there are, or which of them are shown. */
function found(hits, hasMore) {
  const entries = hits.filter((hit) => hit.kind === "journal").length, files = hits.filter((hit) => hit.kind === "file").length, memories = hits.length - entries - files;
  const parts = [memories ? count(memories, "memory", "memories") : null, entries ? count(entries, "journal entry", "journal entries") : null, files ? count(files, "mirrored file") : null].filter(Boolean);
  return hasMore ? `The best ${number(hits.length)} hits` : parts.join(", ").replace(/, (?=[^,]*$)/, " and ");
}

/** A message, a passage or an entry of the log; only conversations have a page. */
function said(hit, now) {
  const name = hit.place === "conversation" ? el("a", { class: "memory-link", href: route("conversation", hit.conversation) }, el("span", { class: "place" }, "conversation / "), el("b", { text: hit.conversation, dir: "auto" })) : el("b", {}, hit.place);
  return el("li", { class: "hit" },
    el("p", { class: "hit-head" }, name, hit.actor ? quoted(hit.actor) : null, hit.corrected_by ? el("span", { class: "chip against" }, "perhaps corrected later") : null, el("span", { class: "hit-age" }, ago(hit.at, now))),
    el("p", { class: "hit-text quoted", dir: "auto" }, marked(hit.text, hit.why.map((reason) => reason.detail ?? reason.kind)), hit.is_cut ? "…" : ""));
}

function shown(hit, best, now) {
  const terms = hit.why.evidence.filter((item) => ["word", "prefix", "phrase"].includes(item.kind)).map((item) => item.detail.replace(/\*$/, ""));
  const name = hit.kind === "journal" ? el("a", { class: "memory-link", href: route("journal") }, el("span", { class: "place" }, "journal / "), el("b", {}, moment(hit.created_at))) : hit.kind === "file" ? el("a", { class: "memory-link", href: route("mirrors") }, el("span", { class: "place" }, "file / "), el("b", { text: hit.path, dir: "auto" })) : memoryLink(hit.path);
  const most = Math.max(...hit.why.evidence.map((item) => item.contribution), 1e-9);
  return el("li", { class: "hit" },
    el("p", { class: "hit-head" }, hit.state ? el("span", { class: `state ${hit.state}`, title: hit.state, role: "img", "aria-label": hit.state }, GLYPHS[hit.state]) : null, name, hit.state && hit.state !== "active" ? el("span", { class: "chip" }, hit.state) : null, hit.conflict_of ? el("span", { class: "chip against" }, "an edit that lost") : null, hit.superseded_by ? el("span", { class: "chip against" }, "superseded") : hit.suspected_by.length ? el("span", { class: "chip against" }, "perhaps contradicted later") : null, el("span", { class: "hit-age" }, ago(hit.written_at, now))),
    el("p", { class: "hit-text quoted", dir: "auto" }, marked(hit.value, terms), hit.is_cut ? "…" : ""),
    el("details", { class: "why" },
      el("summary", {}, el("span", { class: "score", "aria-hidden": "true" }, meter(hit.score / best)), el("span", { text: hit.why.text })),
      el("table", {}, el("caption", { class: "hidden" }, "The parts of the score"),
        el("tbody", {}, hit.why.evidence.map((item) => el("tr", {},
          el("th", { scope: "row" }, item.detail ? quoted(item.detail) : WORDS[item.kind] ?? item.kind),
          el("td", {}, item.detail ? `${WORDS[item.kind] ?? item.kind}${item.fields.length ? ` in ${item.fields.join(" and ")}` : ""}` : ""),
          el("td", { class: "meter-cell" }, meter(item.contribution / most)),
          el("td", { class: "figure" }, item.contribution.toFixed(2))))))));
}

function meter(share) {
  const inner = el("i");
  inner.style.width = `${Math.max(2, 100 * share)}%`;
  return el("span", { class: "meter" }, inner);
}

const fold = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

/** A text with the words that were found marked; words also match at their beginning, as search stems them. */
function marked(text, terms) {
  const stems = terms.map((term) => fold(term)).filter((term) => term.length > 1).map((term) => (term.length > 5 ? term.slice(0, -2) : term));
  return visible(text).split(/([\p{L}\p{N}\p{M}]+)/u).map((piece, place) => {
    const isFound = place % 2 && stems.some((stem) => fold(piece).startsWith(stem));
    return isFound ? el("mark", { text: piece }) : piece;
  });
}
