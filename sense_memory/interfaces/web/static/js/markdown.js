// Markdown of memory texts as elements: headings, lists, quotes, code, tables, emphasis and links, and never markup.
//
// Safe, because every text becomes a text node (`el`), no attribute but `href` holds anything of a text, and `linkTo` lets
// only http, https and mailto pass. Nothing is loaded: an image is a link. Work grows with the length of a text: each
// search for an end is bounded, or remembers that there is none; nesting is bounded.

import { el, quoted, visible } from "./dom.js";

const MAX_DEPTH = 6;
const MAX_LABEL = 400; // characters of the text of a link
const MAX_URL = 2048;
const ITEM = /^( {0,12})([-*+]|\d{1,9}[.)])(?: +|$)/;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})(?: +|$)/;
const BARE = /https?:\/\/[^\s<>"'`\\^{|}]+/y;
const ESCAPED = new Set("*_`[]#|~");

/** The elements of a text; null for a text without any Markdown, which is shown as it is. */
export function rendered(text) {
  const made = blocks(text.replaceAll("\r\n", "\n").split("\n"), 0);
  const isPlain = made.every((block) => block.localName === "p" && !block.childElementCount) && !/\\[*_`[\]#|~]/.test(text);
  return isPlain ? null : made;
}

const AS_WRITTEN = "as-written";
const showsMarks = () => localStorage.getItem(AS_WRITTEN) === "1";

/** A text of a memory: its Markdown rendered, or, where a person wants that, character by character. */
export function textOf(text, tag = "p", kind = "") {
  const made = showsMarks() ? null : rendered(text);
  return made ? el(tag === "p" ? "div" : tag, { dir: "auto", class: `quoted md ${kind}` }, made) : quoted(text, tag, kind);
}

/** The button that chooses, for all texts, between the two; null where none of these texts has Markdown. */
export function marksButton(texts, changed) {
  if (!texts.some((text) => rendered(text))) return null;
  const button = el("button", { type: "button", class: "plain", "aria-pressed": String(showsMarks()) }, "As written");
  button.addEventListener("click", () => { localStorage.setItem(AS_WRITTEN, showsMarks() ? "" : "1"); changed(); });
  return button;
}

// ── Blocks ──────────────────────────────────────────────────────────────────────────────

function blocks(lines, depth) {
  const made = [];
  let place = 0, said = [];
  const end = () => {
    if (said.length) made.push(el("p", {}, inline(said.join("\n"), depth)));
    said = [];
  };
  while (place < lines.length) {
    const line = lines[place];
    const read = line.trim() === "" ? blank : FENCE.test(line) ? fence : HEADING.test(line) ? title : isRule(line) ? rule : depth < MAX_DEPTH && /^ {0,3}>/.test(line) ? quote : depth < MAX_DEPTH && ITEM.test(line) ? list : isTable(lines, place) ? table : null;
    if (read === null) { said.push(line); place += 1; continue; }
    end();
    const [block, next] = read(lines, place, depth);
    if (block) made.push(block);
    place = next;
  }
  end();
  return made;
}

const blank = (lines, place) => [null, place + 1];
const rule = (lines, place) => [el("hr"), place + 1];

function isRule(line) {
  const marks = line.replaceAll(" ", "");
  return marks.length >= 3 && "-*_".includes(marks[0]) && marks === marks[0].repeat(marks.length);
}

function title(lines, place, depth) {
  const [found, { length: level }] = HEADING.exec(lines[place]);
  let words = lines[place].slice(found.length).trim();
  let cut = words.length;
  while (cut && words[cut - 1] === "#") cut -= 1;
  if (cut < words.length && (cut === 0 || words[cut - 1] === " ")) words = words.slice(0, cut).trimEnd();
  return [el(`h${Math.min(6, level + 2)}`, { class: "md-title" }, inline(words, depth)), place + 1];
}

function fence(lines, place) {
  const [, mark, language] = FENCE.exec(lines[place]);
  let end = place + 1;
  const closes = (line) => { const bare = line.trim(); return bare.length >= mark.length && bare === mark[0].repeat(bare.length); };
  while (end < lines.length && !closes(lines[end])) end += 1;
  return [code(lines.slice(place + 1, end).join("\n"), language.trim().slice(0, 40)), end + 1];
}

function code(text, language) {
  const copy = el("button", { type: "button", class: "plain md-copy", "aria-label": "Copy this code" }, "Copy");
  copy.addEventListener("click", async () => {
    const done = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Not copied");
    copy.textContent = done;
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  });
  return el("figure", { class: "md-code" }, el("figcaption", {}, el("span", { text: language }), copy), el("pre", { tabindex: 0, dir: "ltr" }, el("code", { text })));
}

function quote(lines, place, depth) {
  let end = place;
  const inner = [];
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) { inner.push(lines[end].replace(/^ {0,3}> ?/, "")); end += 1; }
  return [el("blockquote", { class: "md-quote" }, blocks(inner, depth + 1)), end];
}

/** Items with the indent of the first; what is indented deeper belongs to the item above it. */
function list(lines, place, depth) {
  const [, { length: indent }, mark] = ITEM.exec(lines[place]);
  const isOrdered = mark.length > 1 || /\d/.test(mark);
  const made = el(isOrdered ? "ol" : "ul", { class: "md-list", start: isOrdered && parseInt(mark, 10) !== 1 ? parseInt(mark, 10) : null });
  let end = place;
  while (end < lines.length) {
    const found = ITEM.exec(lines[end]);
    if (!found || found[1].length < indent || found[1].length > indent + 3 || (/\d/.test(found[2]) !== isOrdered) || isRule(lines[end])) break;
    const inner = [lines[end].slice(found[0].length)], width = found[0].length;
    end += 1;
    while (end < lines.length && (belongs(lines[end], found[1].length) || (lines[end].trim() === "" && end + 1 < lines.length && belongs(lines[end + 1], found[1].length)))) {
      inner.push(lines[end].slice(Math.min(width, lines[end].length - lines[end].trimStart().length)));
      end += 1;
    }
    made.append(item(inner, depth));
  }
  return [made, end];
}

const belongs = (line, indent) => line.trim() !== "" && line.length - line.trimStart().length > indent;

function item(inner, depth) {
  const task = /^\[([ xX])\] /.exec(inner[0]);
  if (task) inner[0] = inner[0].slice(4);
  const made = blocks(inner, depth + 1);
  const first = made[0]?.localName === "p" ? [...made.shift().childNodes] : [];
  return el("li", { class: task ? "md-task" : null }, task ? el("span", { role: "img", "aria-label": task[1] === " " ? "to do" : "done" }, task[1] === " " ? "☐ " : "☑ ") : null, first, made);
}

const isTable = (lines, place) => lines[place].includes("|") && place + 1 < lines.length && lines[place + 1].includes("|") && lines[place + 1].includes("-") && /^[ |:-]+$/.test(lines[place + 1]);

function cells(line) {
  const found = [""];
  const bare = line.trim().replace(/^\|/, "");
  for (let place = 0; place < bare.length; place += 1) {
    if (bare[place] === "\\" && bare[place + 1] === "|") { found[found.length - 1] += "|"; place += 1; }
    else if (bare[place] === "|") found.push("");
    else found[found.length - 1] += bare[place];
  }
  if (found.length > 1 && found.at(-1).trim() === "") found.pop();
  return found.map((cell) => cell.trim());
}

function table(lines, place, depth) {
  const head = cells(lines[place]);
  let end = place + 2;
  const rows = [];
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) { rows.push(cells(lines[end]).slice(0, head.length)); end += 1; }
  const row = (tag, found) => el("tr", {}, found.map((cell) => el(tag, tag === "th" ? { scope: "col" } : {}, inline(cell, depth))));
  return [el("div", { class: "md-table", tabindex: 0 }, el("table", {}, el("thead", {}, row("th", head)), el("tbody", {}, rows.map((found) => row("td", found))))), end];
}

// ── Within a line ───────────────────────────────────────────────────────────────────────

const EMPHASIS = [["**", "strong"], ["__", "strong"], ["~~", "s"], ["*", "em"], ["_", "em"]];
const isWord = (sign) => sign !== undefined && /[\p{L}\p{N}_]/u.test(sign);
const isSpace = (sign) => sign === undefined || /\s/.test(sign);

/** The nodes of a piece of text. */
function inline(text, depth) {
  const made = [], missing = new Set(); // missing: marks without an end from here on
  let plain = "", place = 0;
  const push = (node) => { if (plain) made.push(plain); plain = ""; made.push(node); };
  while (place < text.length) {
    const sign = text[place];
    if (sign === "\\" && ESCAPED.has(text[place + 1])) { plain += text[place + 1]; place += 2; continue; }
    const found = sign === "`" ? codeSpan(text, place, missing)
      : sign === "[" || (sign === "!" && text[place + 1] === "[") ? namedLink(text, place)
        : sign === "h" && !isWord(text[place - 1]) ? bareLink(text, place)
          : sign === "<" ? angleLink(text, place)
            : depth < MAX_DEPTH && "*_~".includes(sign) ? emphasis(text, place, depth, missing) : null;
    if (found === null) { plain += sign; place += 1; continue; }
    if (typeof found[0] === "string") plain += found[0];
    else push(found[0]);
    place = found[1];
  }
  if (plain) made.push(plain);
  return made;
}

function run(text, place) {
  let end = place;
  while (text[end] === text[place]) end += 1;
  return end - place;
}

function codeSpan(text, place, missing) {
  const size = run(text, place), mark = "`".repeat(size);
  let end = missing.has(mark) ? -1 : text.indexOf(mark, place + size);
  while (end >= 0) {
    const length = run(text, end);
    if (length === size) break;
    end = text.indexOf(mark, end + length);
  }
  if (end < 0) { missing.add(mark); return [mark, place + size]; }
  const inner = text.slice(place + size, end);
  const isPadded = inner.length > 2 && inner[0] === " " && inner.at(-1) === " " && inner.trim();
  return [el("code", { class: "md-inline", dir: "ltr", text: isPadded ? inner.slice(1, -1) : inner }), end + size];
}

function emphasis(text, place, depth, missing) {
  const [mark, tag] = EMPHASIS.find(([one]) => text.startsWith(one, place)) ?? [];
  if (!mark) return null;
  const size = run(text, place);
  const opens = size === mark.length && !isSpace(text[place + size]) && !(mark[0] === "_" && isWord(text[place - 1]));
  if (!opens || missing.has(mark)) return [text.slice(place, place + size), place + size];
  let end = text.indexOf(mark, place + size);
  while (end >= 0) {
    const length = run(text, end);
    const closes = length === mark.length && !isSpace(text[end - 1]) && !(mark[0] === "_" && isWord(text[end + length]));
    if (closes) break;
    end = text.indexOf(mark, end + length);
  }
  if (end < 0) { missing.add(mark); return [mark, place + size]; }
  return [el(tag, {}, inline(text.slice(place + size, end), depth + 1)), end + size];
}

// ── Links ───────────────────────────────────────────────────────────────────────────────

/** The address of a link that may be followed; null for any other, which stays a text. */
export function linkTo(given) {
  if (given.length > MAX_URL || !/^(https?:\/\/|mailto:)/i.test(given) || /[\s\\]/.test(given) || visible(given) !== given) return null;
  try {
    const url = new URL(given);
    const isSafe = ["http:", "https:", "mailto:"].includes(url.protocol) && !url.username && !url.password; // a name before the host hides the host
    return isSafe ? url : null;
  } catch { return null; }
}

function anchor(url, words, told = null) {
  return el("a", { href: url.href, rel: "noopener noreferrer nofollow", target: "_blank", class: "md-link", title: url.href }, words, told ? el("span", { class: "md-host", dir: "ltr" }, ` (${told})`) : null);
}

/** `[text](address)`, with the host in words, so that the text cannot name another one; an image is such a link too. */
function namedLink(text, place) {
  const start = text[place] === "!" ? place + 2 : place + 1;
  let middle = start, open = 1;
  while (middle < text.length && middle - start < MAX_LABEL && text[middle] !== "\n") {
    if (text[middle] === "[") open += 1;
    if (text[middle] === "]" && (open -= 1) === 0) break;
    middle += 1;
  }
  if (open !== 0 || text[middle + 1] !== "(") return null;
  const limit = Math.min(text.length, middle + 2 + MAX_URL);
  let end = middle + 2, depth = 1;
  while (end < limit && text[end] !== "\n") {
    if (text[end] === "(") depth += 1;
    if (text[end] === ")" && (depth -= 1) === 0) break;
    end += 1;
  }
  if (depth !== 0 || text[end] !== ")") return null;
  const url = linkTo(text.slice(middle + 2, end).trim().split(/\s/, 1)[0].replace(/^<|>$/g, ""));
  if (url === null) return null;
  const words = text.slice(start, middle).trim() || url.host || url.pathname;
  return [anchor(url, `${text[place] === "!" ? "image: " : ""}${words}`, url.protocol === "mailto:" ? url.pathname : url.host), end + 1];
}

function bareLink(text, place) {
  BARE.lastIndex = place;
  let found = BARE.exec(text)?.[0];
  if (!found || found.length > MAX_URL) return found ? [found, place + found.length] : null;
  while (found && (".,;:!?*_~".includes(found.at(-1)) || (found.at(-1) === ")" && !found.includes("(")) || (found.at(-1) === "]" && !found.includes("[")))) found = found.slice(0, -1);
  const url = linkTo(found);
  return url ? [anchor(url, found), place + found.length] : null;
}

function angleLink(text, place) {
  const found = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2048})>/y;
  found.lastIndex = place;
  const inner = found.exec(text)?.[1];
  const url = inner ? linkTo(inner) : null;
  return url ? [anchor(url, inner), place + inner.length + 2] : null;
}
