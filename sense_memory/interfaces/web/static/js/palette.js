// Ctrl-K: go to a memory by its path or its words, to a view, or do something, from anywhere and without a mouse.

import { get, palace, session } from "./api.js";
import { announce, el, pathName, quoted, route } from "./dom.js";
import { syncNow } from "./edit.js";

const WAIT = 120; // milliseconds after a key, before the server is asked

/** What can be chosen apart from memories: words, what it does, and whether it writes. */
const COMMANDS = [
  ["New memory", route("new"), true],
  ["New journal entry", route("journal"), true, () => setTimeout(() => document.getElementById("entry-text")?.focus(), 300)],
  ["Sync with the relays now", null, true, sync],
  ["Edits of this run, to take back", route("done"), true],
  ["Palace", "#/"], ["Graph", route("graph")], ["Review", route("review")], ["Journal", route("journal")], ["Mind", route("mind")],
  ["Log of the mind", route("log")], ["Archive of the mind", route("archive")], ["Scenes", route("scenes")], ["What an agent gets for a question", route("prompt")],
  ["Flat memories", route("flat")], ["Relays", route("relays")], ["Mirrored folders", route("mirrors")],
  ["Change between light and dark colours", null, false, () => document.getElementById("theme").click()],
].map(([words, address, writes = false, run]) => ({ words, address, writes, run }));

async function sync() {
  const told = await syncNow().catch((error) => error.message);
  announce(told);
  const note = el("p", { class: "toast", role: "status" }, told);
  document.body.append(note);
  setTimeout(() => note.remove(), 8000);
}

let box = null;

/** Open the palette, or close it. */
export function togglePalette() {
  if (box?.open) { box.close(); return; }
  box = made();
  document.body.append(box);
  box.showModal();
}

function made() {
  const before = document.activeElement, known = everyPath();
  const field = el("input", { id: "palette-query", type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list", "aria-autocomplete": "list", autocomplete: "off", spellcheck: "false", placeholder: "A path, some words, a view, an action", "aria-label": "Go to a memory or a view, or do something" });
  const list = el("ul", { id: "palette-list", role: "listbox", "aria-label": "Where to go, and what to do" });
  const status = el("p", { class: "hidden", role: "status" });
  const dialog = el("dialog", { class: "palette", "aria-label": "Go to, or do" }, field, list, status, el("p", { class: "palette-help", "aria-hidden": "true" }, "↑ ↓ to choose, Enter to go, Escape to close"));
  let options = [], chosen = 0, asking = 0, turn = 0, asked = "", answered = Promise.resolve();

  function choose(place) {
    chosen = options.length ? (place + options.length) % options.length : 0;
    for (const [at, item] of [...list.querySelectorAll("[role=option]")].entries()) item.setAttribute("aria-selected", String(at === chosen));
    const now = list.querySelector("[aria-selected=true]");
    if (now) { field.setAttribute("aria-activedescendant", now.id); now.scrollIntoView({ block: "nearest" }); } else field.removeAttribute("aria-activedescendant");
  }

  function show(found) {
    options = found;
    list.replaceChildren(...found.map((one, place) => {
      const item = el("li", { role: "option", id: `palette-${place}`, "aria-selected": "false" }, one.shown, el("span", { class: "palette-kind" }, one.kind));
      item.addEventListener("pointermove", () => { if (chosen !== place) choose(place); });
      item.addEventListener("click", () => go(one));
      return item;
    }));
    if (!found.length) list.append(el("li", { class: "note", role: "presentation" }, "Nothing fits."));
    status.textContent = found.length ? `${found.length} to choose from` : "Nothing fits";
    choose(0);
  }

  function go(one) {
    dialog.dataset.went = "true";
    dialog.close();
    if (one.address !== null) location.hash = one.address;
    one.run?.();
  }

  async function ask(words) {
    const mine = ++turn;
    asked = words;
    const own = commands(words);
    if (!words) { show(own); return; }
    const [all, searched] = await Promise.all([known, get("search", { q: words }).catch(() => ({ hits: [] }))]);
    if (mine !== turn || !dialog.open) return;
    const paths = new Set(named(all, words));
    const byName = [...paths].map((path) => ({ shown: pathName(path), kind: "memory", address: route("memory", path) }));
    const byWords = searched.hits.filter((hit) => hit.kind !== "journal" && !paths.has(hit.path)).slice(0, 6)
      .map((hit) => ({ shown: [pathName(hit.path), quoted(hit.value.slice(0, 80), "span", "palette-text")], kind: "by its words", address: route("memory", hit.path) }));
    const search = { shown: ["Search for ", quoted(words, "q")], kind: "search", address: route("search", words) };
    show([...own.slice(0, 5), ...byName, ...byWords, search]);
  }

  field.addEventListener("input", () => { clearTimeout(asking); asking = setTimeout(() => { answered = ask(field.value.trim()); }, field.value ? WAIT : 0); });
  dialog.addEventListener("keydown", async (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) { event.preventDefault(); choose(chosen + steps[event.key]); }
    if (event.key === "Tab") { event.preventDefault(); field.focus(); } // the field is all that can have the focus
    if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(asking);
      if (asked !== field.value.trim()) answered = ask(field.value.trim()); // Enter came before the answer
      await answered;
      if (options[chosen] && dialog.open) go(options[chosen]);
    }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (!dialog.dataset.went && before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
  });
  show(commands(""));
  return dialog;
}

/** Every path and key that there is; an empty list where they cannot be read. */
const everyPath = () => Promise.all([palace(), get("flat")]).then(([whole, flat]) => [...whole.rows.map(([path]) => path), ...flat.rows.map((row) => row.path)]).catch(() => []);

/** The paths that have every word, in any order; those whose key begins with the last word come first, then the shortest. */
function named(paths, words) {
  const wanted = words.toLowerCase().split(/[\s/]+/).filter(Boolean);
  const rank = (path) => [path.slice(path.lastIndexOf("/") + 1).toLowerCase().startsWith(wanted.at(-1)) ? 0 : 1, path.length];
  return paths.filter((path) => { const name = path.toLowerCase(); return wanted.length && wanted.every((word) => name.includes(word)); })
    .map((path) => [rank(path), path]).sort(([one], [other]) => one[0] - other[0] || one[1] - other[1]).slice(0, 8).map(([, path]) => path);
}

/** The commands that have every word, in any order; those that write only where the page may. */
function commands(words) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  return COMMANDS.filter((one) => (!one.writes || session.edit) && wanted.every((word) => one.words.toLowerCase().includes(word)))
    .map((one) => ({ ...one, shown: el("span", {}, one.words), kind: one.writes || !one.address ? "action" : "view" }));
}
