// Editing: a new memory, a text in its place with what changes, a move, a pin, forgetting, and a journal entry.
// A text that changed elsewhere meanwhile is shown, and not replaced.

import { draw, drawEdited } from "./app.js";
import { edit, get, palace, session, synced } from "./api.js";
import { difference } from "./diff.js";
import { announce, count, el, heading, quoted, route } from "./dom.js";
import { showDone } from "./done.js";
import { placeOfAct, refocus } from "./memory.js";

const drafts = new Map(); // unsaved texts by path, while the page is open
const open = new Map(); // by path, the form of a text, and what it does when its memory changes elsewhere

/** Whether something new is being written that was not saved. */
export const isEditing = () => [...document.querySelectorAll("main form.write :is(textarea, input)")].some((field) => field.value !== field.defaultValue);

addEventListener("beforeunload", (event) => { if (drafts.size) event.preventDefault(); });

/** Tell an open form that its memory was written elsewhere; returns whether there is such a form. */
export function changedElsewhere(path) {
  const [form, told] = open.get(path) ?? [];
  if (form?.isConnected) told();
  else open.delete(path);
  return open.has(path);
}

/** The texts of a difference as elements. */
export const shownDifference = (before, after) => difference(before, after).map(([piece, text]) => el({ same: "span", gone: "del", new: "ins" }[piece], { text }));

const problem = (words) => el("p", { class: "problem", role: "alert" }, words);

/** Make an edit, say that it was done, and go on to a view; a problem is shown in `place`. */
async function make(wanted, place, next) {
  place.replaceChildren();
  try {
    const done = await edit(wanted);
    await next(done);
    showDone(done, (back) => redrawn(back));
    return true;
  } catch (error) {
    place.replaceChildren(problem(error.message));
    return error;
  }
}

/** Draw what there is after an edit was taken back: the memory that came back, or the place where it was. */
async function redrawn(back) {
  const there = route("memory", back.path);
  const isShown = back.to && location.hash === route("memory", back.to);
  if (isShown || (back.action === "forget" && location.hash !== there && location.hash.startsWith("#/facet"))) location.hash = there;
  else if (back.action === "new" && location.hash === there) location.hash = placeOf(back.path);
  else await drawEdited();
}

const placeOf = (path) => (path.includes("/") ? route("facet", ...path.split("/").slice(0, 2)) : route("flat"));

// ── A text in its place ─────────────────────────────────────────────────────────────────

/** The actions of a memory, and the place where their forms open. */
export function editing(memory, text) {
  const place = el("div", { class: "edit-place" });
  const isPersona = memory.kind === "palace";
  const isPinned = isPersona && memory.themes.includes("pinned");
  const button = (words, act) => {
    const made = el("button", { type: "button", class: "act" }, words);
    made.addEventListener("click", () => act(made));
    return made;
  };
  const opened = (form) => (made) => {
    text.hidden = false; // another form may have hidden it; what was written there is kept
    open.delete(memory.path);
    place.replaceChildren(form(memory, () => { place.replaceChildren(); text.hidden = false; made.focus(); }, text));
    place.querySelector("textarea, input")?.focus();
  };
  const buttons = [
    button("Edit", opened(textForm)),
    isPersona ? button(isPinned ? "Unpin" : "Pin", (made) => pin(memory, isPinned, place, made)) : null,
    isPersona ? button("Themes…", opened(themesForm)) : null,
    button("Move…", opened(moveForm)),
    button("Forget…", opened(forgetForm)),
  ];
  if (drafts.has(memory.path)) requestAnimationFrame(() => place.isConnected && !place.firstChild && opened(textForm)(buttons[0]));
  return { buttons, place };
}

async function pin(memory, isPinned, place, made) {
  const where = placeOfAct(made);
  made.disabled = true;
  await make({ action: isPinned ? "unpin" : "pin", path: memory.path }, place, drawEdited);
  made.disabled = false;
  refocus(where);
}

function textForm(memory, close, text) {
  const draft = drafts.get(memory.path) ?? { value: memory.value, seen: memory.event_id, base: memory.value };
  const field = el("textarea", { id: "edit-text", rows: 4, spellcheck: "true", dir: "auto" });
  field.value = draft.value;
  const changes = el("p", { class: "diff quoted", dir: "auto", "aria-live": "off" });
  const told = el("div"), meanwhile = el("div");
  const save = el("button", { type: "submit", class: "act yes" }, "Save");
  const cancel = el("button", { type: "button", class: "act" }, "Cancel");
  const form = el("form", { class: "edit-form" }, el("label", { for: "edit-text" }, "Text"), field, meanwhile, el("h3", {}, "What changes"), changes, told, el("p", { class: "actions" }, save, cancel, el("span", { class: "note" }, "Ctrl-Enter saves, Escape leaves the text as it was.")));
  let showing = 0, isSaving = false;
  function show() {
    const value = field.value, isSame = value === draft.base;
    if (isSame && draft.seen === memory.event_id) drafts.delete(memory.path);
    else drafts.set(memory.path, Object.assign(draft, { value }));
    save.disabled = isSame || !value.trim();
    field.style.height = "auto";
    field.style.height = `${Math.min(innerHeight * 0.6, field.scrollHeight + 4)}px`;
    clearTimeout(showing);
    showing = setTimeout(() => changes.replaceChildren(...(isSame ? [el("span", { class: "note" }, "Nothing yet.")] : shownDifference(draft.base, value))), 60);
  }
  function leave() {
    open.delete(memory.path);
    drafts.delete(memory.path);
    close();
  }
  /** What is there now, while this text was written; null where it was forgotten. */
  function compare(now) {
    if (now && now.value === draft.base) { draft.seen = now.event_id; return; }
    const theirs = el("button", { type: "button", class: "act" }, now ? "Take that text" : "Leave it forgotten");
    const mine = el("button", { type: "button", class: "act" }, now ? "Go on with mine, over it" : "Write mine anew");
    theirs.addEventListener("click", () => { leave(); draw({ keepsFocus: true }); });
    mine.addEventListener("click", () => {
      Object.assign(draft, { seen: now ? now.event_id : null, base: now ? now.value : "" });
      meanwhile.replaceChildren();
      told.replaceChildren();
      show();
      field.focus();
      announce("Below is what saving changes now.");
    });
    meanwhile.replaceChildren(el("div", { class: "meanwhile", role: "alert" },
      el("p", {}, now ? "This memory was changed elsewhere while you were writing. Nothing was saved. There it says now:" : "This memory was forgotten elsewhere while you were writing. Nothing was saved."),
      now ? el("p", { class: "diff quoted", dir: "auto" }, shownDifference(draft.base, now.value)) : null,
      el("p", { class: "actions" }, mine, theirs)));
  }
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (save.disabled) return;
    save.disabled = field.readOnly = isSaving = true; // what were typed now would be lost
    const saved = () => make({ action: "write", path: memory.path, value: field.value, seen: draft.seen }, told, async () => { const isHere = form.isConnected; leave(); await drawEdited(); if (isHere) document.querySelector("main h1")?.focus(); });
    let found = await saved();
    if (found.now?.value === draft.base) { draft.seen = found.now.event_id; found = await saved(); } // only its links or themes are others
    if (found === true) return;
    if (found.now !== undefined) { told.replaceChildren(); compare(found.now); }
    save.disabled = field.readOnly = isSaving = false;
  });
  cancel.addEventListener("click", leave);
  keys(form, leave);
  field.addEventListener("input", show);
  open.set(memory.path, [form, async () => {
    const { memory: now } = await get("memory", { path: memory.path }).catch(() => ({ memory: null }));
    if (!isSaving && form.isConnected) compare(now); // otherwise the answer to the edit tells it
  }]);
  text.hidden = true;
  requestAnimationFrame(show);
  return form;
}

/** Ctrl-Enter sends a form, Escape leaves it. */
function keys(form, leave) {
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); leave(); }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); form.requestSubmit(); }
  });
}

// ── Themes, move and forget ─────────────────────────────────────────────────────────────────────

/** The themes of a text with commas. */
const themesIn = (text) => [...new Set(text.split(",").map((theme) => theme.trim()).filter(Boolean))];

function themesForm(memory, close) {
  const before = memory.themes.filter((theme) => theme !== "pinned" && themesIn(theme)[0] === theme && !/[\r\n]/.test(theme)); // others stay
  const field = el("input", { id: "edit-themes", autocomplete: "off", value: before.join(", ") });
  const told = el("div"), save = el("button", { type: "submit", class: "act yes" }, "Save"), cancel = el("button", { type: "button", class: "act" }, "Cancel");
  const form = el("form", { class: "edit-form" }, el("label", { for: "edit-themes" }, "Themes, separated by commas"), field, told, el("p", { class: "actions" }, save, cancel, el("span", { class: "note" }, "The text stays as it is.")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (save.disabled) return;
    const wanted = themesIn(field.value), add = wanted.filter((theme) => !memory.themes.includes(theme)), remove = before.filter((theme) => !wanted.includes(theme));
    if (!add.length && !remove.length) { told.replaceChildren(problem("These are the themes that it has.")); return; }
    save.disabled = true;
    await make({ action: "themes", path: memory.path, add, remove }, told, () => { const isHere = form.isConnected; if (isHere) close(); return isHere ? drawEdited() : null; });
    save.disabled = false;
  });
  cancel.addEventListener("click", close);
  keys(form, close);
  return form;
}

function moveForm(memory, close) {
  const isPersona = memory.kind === "palace";
  const field = el("input", { id: "edit-to", autocomplete: "off", spellcheck: "false", list: "known-places" });
  field.value = memory.path;
  const told = el("div"), move = el("button", { type: "submit", class: "act yes" }, "Move"), cancel = el("button", { type: "button", class: "act" }, "Cancel");
  const form = el("form", { class: "edit-form" }, el("label", { for: "edit-to" }, isPersona ? "New path: domain/facet/key" : "New key"), field, places(),
    el("p", { class: "note" }, isPersona ? "Its text, dates and links move, and memories that name it name the new path. Earlier versions of the text do not: they are forgotten with the old path." : "Its text and its date move. Earlier versions of the text do not: they are forgotten with the old key."),
    told, el("p", { class: "actions" }, move, cancel));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const to = field.value.trim();
    if (to === memory.path) { told.replaceChildren(problem("This is where it is.")); return; }
    await make({ action: "move", path: memory.path, to, seen: memory.event_id }, told, (done) => { if (form.isConnected) location.hash = route("memory", done.to); });
  });
  cancel.addEventListener("click", close);
  keys(form, close);
  return form;
}

const typedToForget = (path) => { const key = path.slice(path.lastIndexOf("/") + 1); return key.length <= 40 && /^[\x20-\x7e]*$/.test(key) ? key : "forget"; };

function forgetForm(memory, close) {
  const wanted = typedToForget(memory.path);
  const field = el("input", { id: "edit-typed", autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const told = el("div"), forget = el("button", { type: "submit", class: "act no", disabled: true }, "Forget"), cancel = el("button", { type: "button", class: "act" }, "Cancel");
  const form = el("form", { class: "edit-form against-box" }, el("p", {}, `It is forgotten on this machine${session.relays ? ", and every relay is asked to delete it" : ""}; its earlier versions are gone for good. Until this program ends, “Bring back” writes the text and its links again.`),
    el("label", { for: "edit-typed" }, "To forget it, type ", el("b", { text: wanted })), field, told, el("p", { class: "actions" }, forget, cancel));
  field.addEventListener("input", () => { forget.disabled = field.value !== wanted; });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (forget.disabled) return;
    await make({ action: "forget", path: memory.path, seen: memory.event_id, typed: field.value }, told, () => { if (form.isConnected) location.hash = placeOf(memory.path); });
  });
  cancel.addEventListener("click", close);
  keys(form, close);
  return form;
}

/** The domains and facets that there are, to choose from while a path is typed. */
function places() {
  const list = el("datalist", { id: "known-places" });
  palace().then(({ rows }) => {
    const known = new Set(rows.map(([path]) => path.slice(0, path.lastIndexOf("/") + 1)));
    list.replaceChildren(...[...known].sort().slice(0, 500).map((value) => el("option", { value })));
  }).catch(() => {});
  return list;
}

// ── New ─────────────────────────────────────────────────────────────────────────────────

/** A form for a new memory; `given` is the beginning of its path. */
export async function showNew(given = "") {
  const title = el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Palace"), " / New"), heading("New memory"));
  if (!session.edit) return [title, readOnly()];
  const path = el("input", { id: "new-path", autocomplete: "off", spellcheck: "false", list: "known-places", placeholder: "people/facts/lisa" });
  path.defaultValue = given;
  const text = el("textarea", { id: "new-text", rows: 5, spellcheck: "true", dir: "auto" });
  const themes = el("input", { id: "new-themes", autocomplete: "off", placeholder: "art, bremen" });
  const told = el("div"), save = el("button", { type: "submit", class: "act yes" }, "Save");
  const form = el("form", { class: "edit-form write" },
    el("label", { for: "new-path" }, "Path"), path, places(), el("p", { class: "note" }, "domain/facet/key for a memory that fades unless it is used; a key without a slash for one that never fades."),
    el("label", { for: "new-text" }, "Text"), text, el("label", { for: "new-themes" }, "Themes, separated by commas (not needed)"), themes, told, el("p", { class: "actions" }, save, el("span", { class: "note" }, "Ctrl-Enter saves.")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (save.disabled) return;
    save.disabled = text.readOnly = true;
    const named = themesIn(themes.value);
    const found = await make({ action: "write", path: path.value.trim(), value: text.value, seen: null, ...(named.length && path.value.includes("/") ? { themes: named } : {}) }, told, (done) => { if (form.isConnected) location.hash = route("memory", done.path); form.reset(); });
    save.disabled = text.readOnly = false;
    if (found !== true && found.now) {
      told.replaceChildren(el("div", { class: "meanwhile", role: "alert" }, el("p", {}, "There is a memory at this path. Nothing was saved. It says:"), quoted(found.now.value, "p", "diff"), el("p", {}, el("a", { href: route("memory", found.now.path) }, "Open it, to edit it there"))));
    }
  });
  keys(form, () => {});
  return [title, form];
}

const readOnly = () => el("p", { class: "note" }, "Read-only. To write here, start ", el("code", {}, "sense-memory web --edit"), ".");

/** A form for an entry of the journal; null where the page is read-only. */
export function entryForm() {
  if (!session.edit) return null;
  const text = el("textarea", { id: "entry-text", rows: 3, spellcheck: "true", dir: "auto", placeholder: "What happened?" });
  const told = el("div"), save = el("button", { type: "submit", class: "act yes" }, "Add to the journal");
  const form = el("form", { class: "edit-form write" }, el("label", { for: "entry-text" }, "New entry"), text, told, el("p", { class: "actions" }, save, el("span", { class: "note" }, "An entry is never changed; the date is now.")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!text.value.trim()) { text.focus(); return; }
    if (save.disabled) return;
    save.disabled = text.readOnly = true;
    await make({ action: "journal", value: text.value }, told, async () => { text.value = ""; await draw({ keepsFocus: true }); document.getElementById("entry-text")?.focus(); });
    save.disabled = text.readOnly = false;
  });
  keys(form, () => {});
  return form;
}

/** Bring relays in step, and say what came of it. */
export async function syncNow() {
  announce("Syncing…");
  const told = await synced();
  const lacking = told.relays.filter((relay) => relay.problem);
  return told.relays.length ? (lacking.length ? `${count(lacking.length, "relay")} could not be used: ${lacking[0].problem}` : `In step with ${count(told.relays.length, "relay")}.`) : "No relays are configured.";
}
