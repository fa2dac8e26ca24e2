// What was done here: a bar that says it and takes it back, and the list of all edits of this run.

import { edit, get, session } from "./api.js";
import { announce, clock, el, empty, memoryLink, quoted, route } from "./dom.js";

const WORDS = { new: "Written", write: "Changed", forget: "Forgotten", move: "Moved", pin: "Pinned", unpin: "Unpinned", themes: "Other themes", journal: "Added to the journal" };
const BACK = { new: "Take back", write: "Undo", forget: "Bring back", move: "Move back", pin: "Unpin", unpin: "Pin again", themes: "Undo", journal: "Take back" };

/** An edit in words, with a link to what it left. */
function told(done) {
  const word = done.is_taken_back ? `${WORDS[done.action]}, and taken back` : WORDS[done.action];
  const path = done.is_taken_back ? done.path : done.to ?? done.path;
  const isGone = done.action === "forget" ? !done.is_taken_back : done.action === "new" && done.is_taken_back;
  const name = done.action === "journal" ? el("a", { href: route("journal") }, "the journal") : isGone ? quoted(path) : memoryLink(path);
  return done.action === "journal" ? [word, done.is_taken_back ? "" : [" · ", name]] : [`${word}: `, name];
}

function remarks(done) {
  if (done.is_taken_back) return null;
  const named = (paths) => paths.slice(0, 3).map((path, place) => [place ? ", " : "", memoryLink(path)]);
  return [
    done.superseded.length ? el("span", { class: "done-remark" }, "Counts before ", named(done.superseded)) : null,
    done.suspected.length ? el("span", { class: "done-remark" }, "Seems to contradict ", named(done.suspected)) : null,
  ];
}

/** The button that takes an edit back; `after` is called with what became of it. */
function backButton(done, after) {
  if (!done.is_undoable) return null;
  const button = el("button", { type: "button", class: "act" }, BACK[done.action]);
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      after(await edit({ action: "take-back", number: done.number }));
    } catch (error) {
      button.disabled = false;
      button.after(el("span", { class: "problem", role: "alert" }, error.message));
    }
  });
  return button;
}

/** Say what was done, until it is closed or something else was done. */
export function showDone(done, redraw) {
  document.getElementById("done")?.remove();
  const close = el("button", { type: "button", class: "icon", "aria-label": "Close this message" }, "×");
  const bar = el("section", { id: "done", "aria-label": "What was done" },
    el("p", {}, told(done), remarks(done)),
    el("span", { class: "done-actions" }, backButton(done, (back) => { showDone(back, redraw); redraw(back); }), el("a", { href: route("done"), class: "plain" }, "All edits"), close));
  close.addEventListener("click", () => { bar.remove(); document.querySelector("main h1")?.focus(); });
  document.body.append(bar);
  announce(bar.querySelector("p").textContent);
  return bar;
}

/** Every edit of this run. */
export async function showEdits() {
  document.getElementById("done")?.remove();
  const title = el("div", {}, el("h1", {}, "Edits"), el("p", { class: "note" }, "What was done on this page since the program was started. Taking something back keeps what was written later elsewhere."));
  const { edits } = session.edit ? await get("edits") : { edits: [] };
  if (!edits.length) return [title, empty("Nothing was edited", session.edit ? "What you write, move, pin or forget here appears in this list." : "Read-only. To edit here, start the page so:", session.edit ? "" : "sense-memory web --edit")];
  const list = el("ol", { class: "edits" }, edits.map((done) => row(done)));
  return [title, list];
}

function row(done) {
  const made = el("li", { class: done.is_taken_back ? "taken-back" : null }, el("time", {}, clock(done.at)), el("p", {}, told(done), remarks(done)), el("span", { class: "done-actions" }, backButton(done, (back) => made.replaceWith(row(back)))));
  return made;
}
