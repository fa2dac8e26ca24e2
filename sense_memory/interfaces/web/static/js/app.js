// Starts the page: the session, the theme, the search field, and which view an address means.

import { isWorking, open, session, TAB } from "./api.js";
import { announce, el, empty, memoryLink, route } from "./dom.js";
import { showEdits } from "./done.js";
import { changedElsewhere, isEditing, showNew } from "./edit.js";
import { showFacet, showFlat } from "./facet.js";
import { showPalace } from "./palace.js";
import { showGraph } from "./graph.js";
import { showJournal } from "./journal.js";
import { follow } from "./live.js";
import { showMemory } from "./memory.js";
import { showMirrors } from "./mirrors.js";
import { showArchive, showConversation, showLog, showMind, showScene, showScenes } from "./mind.js";
import { togglePalette } from "./palette.js";
import { showPrompt } from "./prompt.js";
import { showRelays } from "./relays.js";
import { showReview } from "./review.js";
import { showSearch } from "./search.js";

const main = document.getElementById("main");
const query = document.getElementById("query");
const VIEWS = { "": showPalace, facet: showFacet, flat: showFlat, graph: showGraph, memory: showMemory, new: showNew, done: showEdits, review: showReview, journal: showJournal, mind: showMind, log: showLog, archive: showArchive, scenes: showScenes, scene: showScene, conversation: showConversation, prompt: showPrompt, relays: showRelays, mirrors: showMirrors, search: showSearch };
const TAB_OF = { "": "palace", facet: "palace", flat: "palace", memory: "palace", new: "palace", conversation: "mind", prompt: "mind", log: "mind", archive: "mind", scenes: "mind", scene: "mind", mirrors: "relays" };
let turn = 0;

// ── Addresses ───────────────────────────────────────────────────────────────────────────

/** A part of an address, decoded; unchanged if its encoding is wrong. */
function decoded(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/**
 * Draw the view of the address; drop an earlier view that is still loading. With `unless`, leave what stands there where
 * that is true once the view has loaded: a person may have begun to edit in the meantime. `before` is called just before what
 * stands there goes. Tells whether it was drawn; null where another view took its place.
 */
export async function draw({ keepsFocus = false, unless = () => false, before = () => {} } = {}) {
  const [name, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const mine = ++turn, address = location.hash;
  const view = Object.hasOwn(VIEWS, name) ? VIEWS[name] : showPalace;
  for (const tab of document.querySelectorAll("#tabs a")) {
    if (tab.dataset.view === (TAB_OF[name] ?? name)) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (!keepsFocus) query.value = name === "search" ? parts[0] ?? "" : ""; // a question leaves the field with its hits, and comes back with them
  main.setAttribute("aria-busy", "true");
  const slow = setTimeout(() => { if (mine === turn && !keepsFocus) main.replaceChildren(el("p", { class: "loading" }, "One moment…")); }, 250);
  let shown;
  try {
    shown = await view(...parts);
  } catch (error) {
    shown = problem(error);
  }
  clearTimeout(slow);
  if (mine !== turn || address !== location.hash) return null; // the view of another address is drawn, or about to be
  main.removeAttribute("aria-busy");
  if (unless()) return false;
  before();
  main.replaceChildren(...[shown].flat());
  if (document.querySelector("#news .show-now")) document.getElementById("news").replaceChildren(); // it is shown now
  const title = main.querySelector("h1");
  document.title = title ? `${title.textContent} · ${session.agent || "Palace"}` : "Palace";
  if (title) title.tabIndex = -1;
  if (!keepsFocus) {
    window.scrollTo(0, 0);
    title?.focus({ preventScroll: true });
  }
  return true;
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
addEventListener("hashchange", () => clearTimeout(typing)); // who went on meanwhile is not called back to the search
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
  if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    event.preventDefault();
    togglePalette();
    return;
  }
  if (document.querySelector("dialog[open]")) return;
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

// ── What changes elsewhere ──────────────────────────────────────────────────────────────

/** What a view shows: memories, the journal, other records such as those of the mind, or any of them. Views that are not here are not drawn anew. */
const REDRAWN = { "": "memory", facet: "memory", flat: "memory", memory: "memory", graph: "memory", search: "any", journal: "journal", relays: "any", mirrors: "other", review: "any", mind: "other", log: "other", archive: "other", scenes: "other", scene: "other", conversation: "other" };
const news = new Map(); // what changed and is not shown yet, by path
let waiting = 0, lastTook = 0;

const viewName = () => location.hash.replace(/^#\/?/, "").split("/")[0];

/** Whether drawing anew would take something out of a person's hands. Views mark with `data-held` what would be lost. */
function isBusy() {
  const selected = String(getSelection()).trim() !== "", focused = document.activeElement;
  const isFar = scrollY > innerHeight && main.querySelector("[data-grown], .journal, .log, .messages") !== null; // the newest come first and would push the text away
  return selected || isFar || isEditing() || hasForm() || document.querySelector("dialog[open], main details[open], main [data-held]") !== null || (main.contains(focused) && focused.matches("input, select, textarea")) || (focused === query && query.value !== "");
}

const hasForm = () => main.querySelector(".edit-form:not(.write)") !== null;

let isPressed = false; // a button or a key is down: what is replaced under it is never clicked
const released = (event) => setTimeout(() => { isPressed = false; }, event.pointerType === "touch" ? 300 : 0); // the click comes after it
addEventListener("pointerdown", () => { isPressed = true; }, true);
addEventListener("keydown", (event) => { if ([" ", "Enter"].includes(event.key)) isPressed = true; }, true);
for (const name of ["pointerup", "pointercancel", "keyup"]) addEventListener(name, released, true);
addEventListener("blur", released); // of the window: what is let go outside of it is not told
addEventListener("pointermove", (event) => { if (!event.buttons) isPressed = false; }, { capture: true, passive: true });

/** Whether something is under way that is over in a moment: a view that loads, a click, an edit that is being made. */
const isUnderWay = () => main.hasAttribute("aria-busy") || isPressed || isWorking();

function changed(name, change) {
  if (change.by === TAB) return; // made and drawn here
  const isJournal = change.kind === "journal" || change.path?.startsWith("journal/");
  const wanted = REDRAWN[viewName()];
  if (name === "change" && change.kind !== "edited") news.set(change.path, change);
  if (name === "change" && changedElsewhere(named(change.path))) { tellNews(); return; }
  const what = name === "other" ? "other" : isJournal ? "journal" : "memory";
  const isShown = wanted && (name === "missed" || wanted === "any" || wanted === what);
  tellNews();
  if (isShown) redrawSoon();
}

/** The path of a memory as the page names it. */
const named = (path) => path?.replace(/^persona\//, "") ?? "";

function redrawSoon() {
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    if (!Object.hasOwn(REDRAWN, viewName())) return;
    if (isUnderWay()) redrawSoon();
    else if (isBusy()) tellNews(true);
    else if ((await redraw(() => isBusy() || isPressed || isWorking())) === false) redrawSoon();
  }, Math.min(5000, Math.max(150, 3 * lastTook)));
}

/** Draw what an edit changed; where a form is open, offer it instead. */
export async function drawEdited() {
  if ((await draw({ keepsFocus: true, unless: hasForm })) === false) tellNews(true);
}

/** What a person would call the same link, button or field after a view was drawn anew. */
const nameOf = (one) => one.getAttribute("href") ?? (one.id || one.getAttribute("aria-label") || one.textContent);
const alike = (one) => [...main.querySelectorAll(one.localName)].filter((other) => nameOf(other) === nameOf(one));

/** Put the focus on what replaced the element that had it; `place` is which one it was of those that are alike. */
function refocus(lost, place) {
  if (lost && !lost.isConnected && document.activeElement === document.body) alike(lost)[place]?.focus({ preventScroll: true });
}

/** Draw the view anew where it stands: what had the focus keeps it, and what is new is marked for some seconds. */
async function redraw(unless) {
  const begun = performance.now(), place = scrollY;
  document.documentElement.dataset.live = "true"; // without the movement of a new view
  let focused = null, among = 0; // as late as can be: the focus may move while the view loads
  const isDrawn = await draw({ keepsFocus: true, unless, before() { focused = main.contains(document.activeElement) ? document.activeElement : null; among = focused && alike(focused).indexOf(focused); } });
  lastTook = performance.now() - begun;
  if (!isDrawn) { delete document.documentElement.dataset.live; return isDrawn; }
  scrollTo(0, place);
  refocus(focused, among);
  const fresh = new Set([...news.keys()].map((path) => route("memory", named(path))));
  for (const link of main.querySelectorAll("a[href]")) if (fresh.has(link.getAttribute("href"))) link.classList.add("fresh");
  news.clear();
  setTimeout(() => { delete document.documentElement.dataset.live; for (const link of main.querySelectorAll(".fresh")) link.classList.remove("fresh"); }, 4000);
  return true;
}

/** Say what is new: its name, and a button to see it where the view was not drawn anew. */
function tellNews(isHeld = false) {
  const bar = document.getElementById("news");
  const paths = [...news.values()].filter((one) => one.kind !== "journal").map((one) => named(one.path));
  if (!paths.length && !isHeld) return;
  const more = paths.length > 1 ? ` and ${paths.length - 1} more` : "";
  const last = paths.at(-1), isGone = last && news.get([...news.keys()].at(-1))?.kind === "forgotten";
  const show = el("button", { type: "button", class: "plain show-now" }, "Show now"), close = el("button", { type: "button", class: "icon", "aria-label": "Close this message" }, "×");
  show.addEventListener("click", () => { bar.replaceChildren(); redraw(); });
  close.addEventListener("click", () => { news.clear(); bar.replaceChildren(); });
  bar.replaceChildren(el("p", {}, last ? [isGone ? "Forgotten elsewhere: " : "Written elsewhere: ", memoryLink(last), more] : "Something changed."), isHeld ? show : "", close);
  announce(bar.querySelector("p").textContent);
  clearTimeout(hiding);
  if (!isHeld) hiding = setTimeout(() => { bar.replaceChildren(); news.clear(); }, 8000);
}
let hiding = 0;

function connected(isConnected) {
  const mark = document.getElementById("live");
  mark.hidden = false;
  mark.classList.toggle("off", !isConnected);
  mark.title = isConnected ? "What is written elsewhere appears here by itself" : "Not connected: what is written elsewhere does not appear here until the program answers again";
  mark.querySelector(".live-words").textContent = isConnected ? "live" : "not connected";
}

// ── Begin ───────────────────────────────────────────────────────────────────────────────

try {
  await open();
  document.getElementById("agent").textContent = session.agent && session.agent !== "default" ? session.agent : "Palace";
  document.querySelector(".brand").title = session.npub;
  const mode = document.getElementById("mode");
  mode.hidden = false;
  mode.textContent = session.edit ? "editing" : "read-only";
  mode.title = session.edit ? `What you decide here is written${session.relays ? " and sent to your relays" : "; no relays are configured"}.` : "Start sense-memory web --edit to change memories here.";
  document.getElementById("write").hidden = !session.edit;
  document.getElementById("palette").addEventListener("click", togglePalette);
  addEventListener("hashchange", () => draw());
  follow(changed, connected); // first, so that nothing changes unseen between the two
  await draw();
  document.documentElement.dataset.ready = "true";
} catch (error) {
  main.replaceChildren(problem(error));
}
