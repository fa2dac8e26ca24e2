// Starts the page: the session, the theme, the search field, and which view an address means.

import { open, palace, session } from "./api.js";
import { announce, el, empty } from "./dom.js";
import { showFacet, showFlat } from "./facet.js";
import { showPalace } from "./palace.js";
import { showConversation, showJournal, showMind, showRelays } from "./records.js";
import { showGraph } from "./graph.js";
import { showMemory } from "./memory.js";
import { showPrompt } from "./prompt.js";
import { showReview } from "./review.js";
import { showSearch } from "./search.js";

const main = document.getElementById("main");
const query = document.getElementById("query");
const VIEWS = { "": showPalace, facet: showFacet, flat: showFlat, graph: showGraph, memory: showMemory, review: showReview, journal: showJournal, mind: showMind, conversation: showConversation, prompt: showPrompt, relays: showRelays, search: showSearch };
const TAB_OF = { "": "palace", facet: "palace", flat: "palace", memory: "palace", conversation: "mind", prompt: "mind" };
let turn = 0;

// ── Addresses ───────────────────────────────────────────────────────────────────────────

/** A part of an address, decoded; unchanged if its encoding is wrong. */
function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/** Draw the view of the address; drop an earlier view that is still loading. */
export async function draw({ keepsFocus = false } = {}) {
  const [name, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const mine = ++turn;
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : showPalace;
  for (const tab of document.querySelectorAll("#tabs a")) {
    if (tab.dataset.view === (TAB_OF[name] ?? name)) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (name !== "search" && document.activeElement !== query) query.value = "";
  main.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => { if (mine === turn && !keepsFocus) main.replaceChildren(el("p", { class: "loading" }, "One moment…")); }, 250);
  let shown;
  try {
    shown = await view(...parts);
  } catch (error) {
    shown = problem(error);
  }
  clearTimeout(slow);
  if (mine !== turn) return;
  main.replaceChildren(...[shown].flat());
  main.removeAttribute("aria-busy");
  const title = main.querySelector("h1");
  document.title = title ? `${title.textContent} · ${session.agent || "Palace"}` : "Palace";
  if (!keepsFocus) {
    window.scrollTo(0, 0);
    if (title) { title.tabIndex = -1; title.focus({ preventScroll: true }); }
  }
}

function problem(error) {
  const shown = reason(error);
  const title = shown.querySelector(".empty-title");
  title.replaceWith(el("h1", { class: "empty-title" }, title.textContent));
  return shown;
}

function reason(error) {
  if (error.status === 401) {
    return empty("This address was used already", "An address opens in one browser, once. End the program with Ctrl-C, and start it again for a new address.", "sense-memory web");
  }
  if (error instanceof TypeError && error.message.includes("fetch")) {
    return empty("The server has ended", "Start it again, and open the address that it prints.", "sense-memory web");
  }
  return empty("This could not be shown", error.message);
}

// ── Search as one types ─────────────────────────────────────────────────────────────────

let typing = 0;
query.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const words = query.value.trim();
    const address = words ? `#/search/${encodeURIComponent(words)}` : "#/";
    history[location.hash.startsWith("#/search/") ? "replaceState" : "pushState"](null, "", address);
    draw({ keepsFocus: true });
  }, 60);
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.matches("input, textarea, select");
  if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    query.focus();
    query.select();
  }
  if (event.key === "Escape" && event.target === query && query.value) {
    event.preventDefault();
    query.value = "";
    query.dispatchEvent(new Event("input"));
  }
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    const hits = [query, ...document.querySelectorAll(".hits a.memory-link, .rows a.row")];
    const place = hits.indexOf(event.target);
    const next = hits[place + (event.key === "ArrowDown" ? 1 : -1)];
    if (place >= 0 && next && hits.length > 1) { event.preventDefault(); next.focus(); }
  }
});

// ── Light and dark ──────────────────────────────────────────────────────────────────────

const system = matchMedia("(prefers-color-scheme: dark)");
const button = document.getElementById("theme");

function paint() {
  const chosen = localStorage.getItem("theme");
  const isDark = chosen ? chosen === "dark" : system.matches;
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
  button.setAttribute("aria-label", isDark ? "Use light colours" : "Use dark colours");
  document.dispatchEvent(new Event("painted"));
}

button.addEventListener("click", () => {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  paint();
  announce(document.documentElement.dataset.theme === "dark" ? "Dark colours" : "Light colours");
});
system.addEventListener("change", paint);
paint();

// ── Begin ───────────────────────────────────────────────────────────────────────────────

try {
  await open();
  document.getElementById("agent").textContent = session.agent && session.agent !== "default" ? session.agent : "Palace";
  document.querySelector(".brand").title = session.npub;
  const mode = document.getElementById("mode");
  mode.hidden = false;
  mode.textContent = session.edit ? "editing" : "read-only";
  mode.title = session.edit ? `What you decide here is written${session.relays ? " and sent to your relays" : "; no relays are configured"}.` : "Start sense-memory web --edit to change memories here.";
  addEventListener("hashchange", () => draw());
  await draw();
  document.documentElement.dataset.ready = "true";
} catch (error) {
  main.replaceChildren(problem(error));
}
