// The mirrored folders of this machine: what is in step, what is not, and what was left alone and why. Looking changes nothing.

import { get } from "./api.js";
import { count, el, empty, quoted } from "./dom.js";

const WHAT = { keep: "to memory", write: "to the folder", merge: "to merge", delete: "to delete in memory", remove: "to remove from the folder", left: "left alone" };
const SHOWN = 50; // files of one folder

export async function showMirrors() {
  const { mirrors } = await get("mirrors");
  const title = el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/relays" }, "Relays"), " / Mirrored folders"), el("h1", {}, "Mirrored folders"));
  if (!mirrors.length) return [title, empty("No folder is mirrored", "A folder of notes, such as the memory of a coding agent, can be the same on all your machines.", "sense-memory mirror FOLDER")];
  return [title, el("p", { class: "note" }, "Where each folder stands now. ", el("code", {}, "sense-memory watch"), " and ", el("code", {}, "sense-memory mcp"), " keep them in step while they run, and ", el("code", {}, "sense-memory mirror --yes"), " does it once."),
    el("div", { class: "relays" }, mirrors.map(folder))];
}

function folder(one) {
  const waiting = one.steps.filter((step) => step.what !== "left").length, left = one.steps.length - waiting;
  const words = [`${count(one.in_step, "file")} in step`, waiting ? `${count(waiting, "file")} not yet` : null, left ? `${count(left, "file")} left alone` : null].filter(Boolean).join(" · ");
  const more = one.steps.length - SHOWN;
  return el("article", { class: `relay ${one.problem || waiting || left ? "part" : "whole"}` },
    el("h2", {}, el("span", { class: "url", text: one.folder, dir: "ltr" })),
    el("p", { class: "standing" }, "Known everywhere as ", el("b", { text: one.project, dir: "auto" }), one.problem ? "" : ` · ${words}`),
    one.problem ? el("ul", { class: "remarks" }, el("li", { text: one.problem })) : null,
    one.steps.length ? el("ul", { class: "steps" }, one.steps.slice(0, SHOWN).map((step) => el("li", {}, el("span", { class: "chip" }, WHAT[step.what] ?? step.what), " ", quoted(step.name), step.note ? el("small", {}, step.note) : null))) : null,
    more > 0 ? el("p", { class: "note" }, `${count(more, "more file")}: sense-memory mirror --status`) : null);
}
