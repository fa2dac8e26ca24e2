// Elements and words. Text enters the page as text nodes only: nothing here parses markup.

// What sense_memory/plain_text.py hides, without joiners and selectors, which letters and emoji need. Three flags are
// spelled with tag characters, and stay.
const FLAGS = ["gbeng", "gbsct", "gbwls"].map((name) => `\u{1f3f4}${[...name].map((letter) => String.fromCodePoint(0xe0000 + letter.charCodeAt(0))).join("")}\u{e007f}`);
const HIDDEN = new RegExp(`(${FLAGS.join("|")})|[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ud800-\\udfff\\ufeff\\uffa0\\ufff0-\\ufffb\\u{e0000}-\\u{e00ff}]`, "gu");

/** A text with its control, direction, zero-width and tag characters made visible. */
export function visible(text) {
  return String(text).replace(HIDDEN, (found, flag) => flag ?? escaped(found.codePointAt(0).toString(16)));
}

const escaped = (digits) => (digits.length > 4 ? `\\U${digits.padStart(8, "0")}` : `\\u${digits.padStart(4, "0")}`);

/** An element: properties are attributes, `on…` are listeners, children are nodes or texts. */
export function el(tag, properties = {}, ...children) {
  const space = properties.svg ? "http://www.w3.org/2000/svg" : "http://www.w3.org/1999/xhtml";
  const made = document.createElementNS(space, tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "svg" || value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "text") made.append(visible(value));
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    made.append(child instanceof Node ? child : visible(child));
  }
  return made;
}

export const svg = (tag, properties, ...children) => el(tag, { svg: true, ...properties }, ...children);

/** A text of a memory: in its own direction, and apart from the words around it. */
export const quoted = (text, tag = "span", kind = "") => el(tag, { dir: "auto", class: `quoted ${kind}`, text });

const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const TIME = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const LONG = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });
const NUMBER = new Intl.NumberFormat("en-GB");

/** A time of the API, ISO 8601, as seconds since 1970; a number stays. */
export const seconds = (time) => (typeof time === "string" ? Date.parse(time) / 1000 : time);

export const day = (time) => DATE.format(seconds(time) * 1000);
export const longDay = (time) => LONG.format(seconds(time) * 1000);
export const clock = (time) => TIME.format(seconds(time) * 1000);
export const moment = (time) => `${day(time)}, ${clock(time)}`;
export const number = (value) => NUMBER.format(value);
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;
export const figure = (value) => value.toFixed(2);
export const percent = (share) => `${Math.round(100 * share)} %`;

/** How long ago, or ahead, in words. */
export function ago(time, now) {
  const then = seconds(time), passed = Math.abs(now - then);
  const steps = [[60, 1, "second"], [3600, 60, "minute"], [86400, 3600, "hour"], [86400 * 60, 86400, "day"], [86400 * 730, 86400 * 30.44, "month"], [Infinity, 86400 * 365.25, "year"]];
  const [, unit, word] = steps.find(([limit]) => passed < limit);
  const value = Math.max(1, Math.round(passed / unit));
  if (passed < 45) return "just now";
  return then <= now ? `${count(value, word)} ago` : `in ${count(value, word)}`;
}

export const timeOf = (time, words) => el("time", { datetime: new Date(seconds(time) * 1000).toISOString(), title: moment(time) }, words ?? moment(time));

/** Announce a text to screen readers. */
export function announce(words) {
  const status = document.getElementById("status");
  status.textContent = "";
  requestAnimationFrame(() => { status.textContent = visible(words); });
}

/** What a view shows where there is nothing to show: a title, a sentence, and the command that changes it. */
export const empty = (title, words = "", command = "") => el("div", { class: "empty" }, el("p", { class: "empty-title" }, title), words && el("p", {}, words), command && el("p", {}, el("code", {}, command)));

/** As `empty`; but where no relay ever showed everything, the relays may hold what is not here. */
export const nothing = (told, title, words, command) => (told.is_whole === false ? empty(title.replace(/( yet)?$/, " here yet"), "Relays may hold some.", "sense-memory sync") : empty(title, words, command));

/** The key of a memory, or another name, as the title of a page; a long one in smaller letters. */
export const heading = (name) => el("h1", { text: name, dir: "auto", class: name.length > 48 ? "long-name" : null });

/** A list that grows by a button, and by itself when its end is visible. */
export function growing(list, more, words = "Show more") {
  const button = el("button", { type: "button", class: "more" }, words);
  let isBusy = false;
  async function grow() {
    if (isBusy) return;
    isBusy = true;
    const isDone = await more();
    isBusy = false;
    list.dataset.grown = "true"; // more than is drawn at first
    if (isDone) { watch.disconnect(); button.remove(); }
  }
  const watch = new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) grow(); }, { rootMargin: "600px" });
  button.addEventListener("click", grow);
  watch.observe(button);
  return el("div", {}, list, button);
}

export const route = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;
export const memoryLink = (path, ...children) => el("a", { href: route("memory", path), class: "memory-link" }, children.length ? children : pathName(path));

/** A path with an emphasised key; domain and facet before it are subdued. */
export function pathName(path) {
  const cut = path.lastIndexOf("/");
  return el("span", { class: "path", dir: "auto" }, cut < 0 ? null : el("span", { class: "place" }, `${path.slice(0, cut).replaceAll("/", " / ")} / `), el("b", { text: path.slice(cut + 1) }));
}
