// The tiles of a facet: one for each memory, the more relevant the fuller. A pointer shows what a tile is, and opens it.

import { fate } from "./decay.js";
import { el, number, route } from "./dom.js";
import { inWords, moments, tally } from "./timeline.js";

const drawn = new WeakMap(); // by canvas: the memories in the order of their tiles, and where the tiles are

/** The side of a tile and of the gap after it, in pixels, by how many the fullest facet holds. */
export const tileSize = (most) => (most > 1200 ? [3, 1] : most > 200 ? [5, 1] : most > 60 ? [9, 2] : [18, 3]);

/** One tile for each memory. */
export function drawTiles(box, items, [tile, gap], width, palette) {
  const canvas = box.querySelector("canvas"), dots = devicePixelRatio || 1;
  const across = Math.max(1, Math.floor((width + gap) / (tile + gap)));
  const height = Math.max(1, Math.ceil(items.length / across)) * (tile + gap);
  const pen = canvas.getContext("2d");
  if (canvas.width !== Math.round(width * dots) || canvas.height !== Math.round(height * dots)) {
    canvas.width = Math.round(width * dots);
    canvas.height = Math.round(height * dots);
    canvas.style.height = `${height}px`;
  }
  pen.setTransform(dots, 0, 0, dots, 0, 0);
  pen.clearRect(0, 0, width, height);
  items.sort((one, other) => other.relevance - one.relevance);
  items.forEach((item, place) => {
    const x = (place % across) * (tile + gap), y = Math.floor(place / across) * (tile + gap);
    const full = Math.min(1, item.relevance);
    pen.fillStyle = palette[item.state];
    pen.globalAlpha = 0.22;
    pen.fillRect(x, y, tile, tile);
    pen.globalAlpha = item.state === "dissolved" ? 0.35 : 1;
    const filled = Math.max(1, tile * full);
    pen.fillRect(x, y + tile - filled, tile, filled);
  });
  drawn.set(canvas, { items, across, step: tile + gap });
  box.querySelector(".shelf-count").textContent = number(items.length);
  box.querySelector(".shelf-words").textContent = `: ${inWords(tally(items))}`;
}

/** The memory whose tile is under the pointer. */
function under(event) {
  const tiles = drawn.get(event.target);
  if (!tiles) return null;
  const column = Math.floor(event.offsetX / tiles.step), line = Math.floor(event.offsetY / tiles.step);
  return column < tiles.across ? tiles.items[line * tiles.across + column] ?? null : null;
}

/** Let a pointer read and open the tiles within an element. Keys and fingers open the facet, which lists the same memories. */
export function readable(holder) {
  const tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const hide = () => { tip.hidden = true; };
  holder.append(tip);
  holder.addEventListener("pointermove", (event) => {
    const item = event.pointerType === "mouse" ? under(event) : null;
    if (!item) { hide(); return; }
    if (tip.dataset.path !== item.memory.path || tip.hidden) {
      tip.dataset.path = item.memory.path;
      tip.replaceChildren(el("b", { text: item.memory.key, dir: "auto" }), el("p", { class: "quoted", text: item.memory.excerpt, dir: "auto" }), el("small", {}, `${item.state} · ${fate(item.memory, moments.at)}`));
      tip.hidden = false;
    }
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18}px`;
  });
  holder.addEventListener("pointerleave", hide);
  addEventListener("scroll", hide, { passive: true });
  let pointer = "";
  holder.addEventListener("pointerdown", (event) => { pointer = event.pointerType; });
  holder.addEventListener("click", (event) => {
    const item = pointer === "mouse" && !event.ctrlKey && !event.metaKey && !event.shiftKey ? under(event) : null;
    if (!item) return;
    event.preventDefault();
    location.hash = route("memory", item.memory.path);
  });
}
