// The links of the palace. d3-force places the memories before anything is shown, so that nothing wobbles.

import { get } from "./api.js";
import { GLYPHS, memoryOf, relevanceAt, stateOf } from "./decay.js";
import { count, el, empty, memoryLink, number, percent, route, svg, visible } from "./dom.js";

const LABEL = 12; // pixels on the screen, at any zoom

export async function showGraph(path) {
  const told = await get("graph", { path });
  const nodes = told.rows.map((row) => {
    const memory = memoryOf(row), relevance = relevanceAt(memory, told.now);
    return { memory, relevance, state: stateOf(relevance), r: 5 + 9 * Math.sqrt(Math.min(1, relevance)), degree: 0 };
  });
  const edges = told.edges.map(([source, target, kind]) => ({ source, target, kind }));
  for (const edge of edges) { nodes[edge.source].degree += 1; nodes[edge.target].degree += 1; }
  const title = path
    ? el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/graph" }, "Graph"), " / ", memoryLink(path)), el("h1", {}, "Around ", el("span", { text: path.split("/").at(-1), dir: "auto" })))
    : el("h1", {}, "Graph");
  if (!nodes.length || (!edges.length && !path)) {
    return [title, empty("No links yet", "Connect two memories to see them here.", "sense-memory palace connect lisa bremen")];
  }
  const part = path ? `The ${number(nodes.length)} nearest of ${number(told.reachable)} memories.` : `${number(nodes.length)} of ${number(told.reachable)} linked memories: the most linked ones, and those that they are linked with.`;
  const shown = nodes.length < told.reachable ? part : `${count(nodes.length, "memory", "memories")}, ${count(edges.length, "link")}.`;
  const lead = el("p", { class: "note" }, shown, " Larger is more relevant; ", el("span", { class: "against-word" }, "dashed red"), " is a contradiction.");
  return [title, lead, picture(nodes, edges, path), list(nodes, edges)];
}

function picture(nodes, edges, path) {
  const isNarrow = innerWidth < 640;
  place(nodes, edges, isNarrow ? [460, 640] : [Math.min(1000, innerWidth), 640]);
  const lines = edges.map((edge) => svg("line", { class: `edge ${edge.kind}`, x1: edge.source.x, y1: edge.source.y, x2: edge.target.x, y2: edge.target.y }));
  const points = nodes.map((node) => {
    const label = visible(node.memory.key);
    return svg("a", { href: route("memory", node.memory.path), class: `node ${node.state}${node.memory.path === path ? " centre" : ""}`, "aria-label": `${label}, ${node.state}, ${percent(node.relevance)}, ${count(node.degree, "link")}`, transform: `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})` },
      svg("circle", { class: "halo", r: node.r + 12 }), svg("circle", { class: "dot", r: node.r }),
      svg("text", { y: node.r + 3, dy: "1em", "text-anchor": "middle" }, label.length > 26 ? `${label.slice(0, 25)}…` : label));
  });
  const box = bounds(nodes);
  const drawing = svg("svg", { class: "graph", viewBox: box.join(" "), role: "group", "aria-label": "Memories and their links; the list below says the same in words" }, svg("g", { "aria-hidden": "true" }, lines), points);
  const weight = (node) => (node.memory.path === path ? Infinity : node.degree + node.relevance);
  const ranked = nodes.map((node, index) => [node, points[index]]).sort(([one], [other]) => weight(other) - weight(one));
  /** Labels keep their size on the screen. A label that would cover a more important one is hidden until the pointer or the focus is there. */
  function relabel(seen) {
    const shape = drawing.getBoundingClientRect(), scale = Math.max(seen[2] / (shape.width || 1000), seen[3] / (shape.height || 600));
    drawing.style.setProperty("--label", `${LABEL * scale}px`);
    const taken = [], dots = nodes.map((node) => [node.x, 0.8 * node.r, node.y - 0.8 * node.r, node.y + 0.8 * node.r]);
    for (const [node, point] of ranked) {
      const half = (3.6 * point.lastChild.textContent.length + 4) * scale, height = 15 * scale, gap = node.r + 2 * scale;
      const isFree = (boxes, top) => boxes.every(([x, wide, y, end]) => Math.abs(x - node.x) > half + wide || top + height < y || top > end);
      const sides = [node.y + gap, node.y - gap - height]; // below the memory, or above it where another one is in the way
      const top = sides.find((side) => isFree(taken, side) && isFree(dots, side)) ?? (node.degree > 2 ? sides.find((side) => isFree(taken, side)) : undefined);
      point.classList.toggle("named", top !== undefined);
      point.lastChild.setAttribute("y", (top ?? sides[0]) - node.y);
      if (top !== undefined) taken.push([node.x, half, top, top + height]);
    }
  }
  const tools = zoomable(drawing, box, relabel);
  requestAnimationFrame(() => relabel(box));
  return el("div", { class: "graph-box" }, drawing, tools);
}

function place(nodes, edges, [width, height]) {
  const domains = [...new Set(nodes.map((node) => node.memory.domain))];
  nodes.forEach((node, index) => {
    const turn = (2 * Math.PI * domains.indexOf(node.memory.domain)) / domains.length;
    node.x = width * (0.5 + 0.23 * Math.cos(turn)) + (index % 7) * 3;
    node.y = height * (0.5 + 0.23 * Math.sin(turn)) + (index % 5) * 3;
    node.home = [width * (0.5 + 0.2 * Math.cos(turn)), height * (0.5 + 0.2 * Math.sin(turn))];
  });
  d3.forceSimulation(nodes)
    .force("link", d3.forceLink(edges).distance(96).strength(0.5))
    .force("charge", d3.forceManyBody().strength(-420).distanceMax(420))
    .force("x", d3.forceX((node) => node.home[0]).strength(width > height ? 0.05 : 0.1))
    .force("y", d3.forceY((node) => node.home[1]).strength(width > height ? 0.09 : 0.05))
    .force("apart", d3.forceCollide((node) => node.r + 26).iterations(2))
    .stop()
    .tick(nodes.length > 100 ? 160 : 260);
}

function bounds(nodes) {
  const side = innerWidth < 640 ? 125 : 110; // half of a long label
  const xs = nodes.map((node) => node.x), ys = nodes.map((node) => node.y);
  const [left, top] = [Math.min(...xs) - side, Math.min(...ys) - 45];
  return [left, top, Math.max(320, Math.max(...xs) + side - left), Math.max(260, Math.max(...ys) + 55 - top)].map(Math.round);
}

/** Zoom by wheel and buttons, move by dragging. */
function zoomable(drawing, home, changed) {
  let box = [...home];
  function set() {
    drawing.setAttribute("viewBox", box.map((value) => value.toFixed(1)).join(" "));
    changed(box);
  }
  function zoom(factor, x = 0.5, y = 0.5) {
    const width = Math.min(home[2] * 2, Math.max(home[2] / 12, box[2] * factor)), scale = width / box[2];
    box = [box[0] + box[2] * x * (1 - scale), box[1] + box[3] * y * (1 - scale), width, box[3] * scale];
    set();
  }
  drawing.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // the page scrolls
    event.preventDefault();
    const seen = drawing.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.15 : 0.87, (event.clientX - seen.left) / seen.width, (event.clientY - seen.top) / seen.height);
  }, { passive: false });
  let held = null;
  drawing.addEventListener("pointerdown", (event) => { if (!event.target.closest("a")) { held = [event.clientX, event.clientY]; drawing.setPointerCapture(event.pointerId); } });
  drawing.addEventListener("pointermove", (event) => {
    if (!held) return;
    const scale = box[2] / drawing.getBoundingClientRect().width;
    box[0] -= (event.clientX - held[0]) * scale;
    box[1] -= (event.clientY - held[1]) * scale;
    held = [event.clientX, event.clientY];
    set();
  });
  for (const name of ["pointerup", "pointercancel"]) drawing.addEventListener(name, () => { held = null; });
  const tool = (words, sign, act) => el("button", { type: "button", class: "icon", "aria-label": words, title: words, onclick: act }, sign);
  return el("div", { class: "graph-tools" }, tool("Zoom in", "+", () => zoom(0.75)), tool("Zoom out", "−", () => zoom(1.33)), tool("Show everything", "⤢", () => { box = [...home]; set(); }));
}

function list(nodes, edges) {
  const rows = nodes.map((node) => {
    const others = edges.filter((edge) => edge.source === node || edge.target === node).map((edge) => [edge.source === node ? edge.target : edge.source, edge.kind]);
    return el("li", {}, el("span", { class: `state ${node.state}`, title: node.state, "aria-label": node.state }, GLYPHS[node.state]), " ", memoryLink(node.memory.path), el("ul", {}, others.map(([other, kind]) => el("li", {}, kind === "contradiction" ? el("span", { class: "against-word" }, "contradiction: ") : null, memoryLink(other.memory.path)))));
  });
  return el("details", { class: "as-list" }, el("summary", {}, "Show as a list"), el("ul", { class: "link-list" }, rows));
}
