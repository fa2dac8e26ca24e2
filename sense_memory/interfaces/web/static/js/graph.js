// The links of the palace. d3-force places the memories before anything is shown, so that nothing wobbles.

import { get } from "./api.js";
import { GLYPHS, fate, memoryOf, relevanceAt, stateOf } from "./decay.js";
import { count, el, memoryLink, nothing, number, percent, route, svg, visible } from "./dom.js";

const LABEL = 12; // pixels on the screen, at any zoom

const HUES = 8; // domains with a colour of their own; the others share a grey

export async function showGraph(path, domain) {
  const told = await get("graph", path ? { path } : { domain: domain || undefined });
  const nodes = told.rows.map((row) => {
    const memory = memoryOf(row), relevance = relevanceAt(memory, told.now);
    return { memory, relevance, state: stateOf(relevance), hue: hueOf(told.domains, memory.domain), r: 5 + 9 * Math.sqrt(Math.min(1, relevance)), degree: 0 };
  });
  const edges = told.edges.map(([source, target, kind]) => ({ source, target, kind }));
  for (const edge of edges) { nodes[edge.source].degree += 1; nodes[edge.target].degree += 1; }
  const title = path
    ? el("div", {}, el("p", { class: "crumbs" }, el("a", { href: "#/graph" }, "Graph"), " / ", memoryLink(path)), el("h1", {}, "Around ", el("span", { text: path.split("/").at(-1), dir: "auto" })))
    : el("h1", {}, "Graph");
  if (!nodes.length || (!edges.length && !path)) {
    return [title, nothing(told, "No links yet", "Connect two memories to see them here.", "sense-memory palace connect lisa bremen")];
  }
  const drawn = picture(nodes, edges, path, told.now);
  return [title, el("p", { class: "note" }, limit(nodes, edges, told, path)), choices(told, nodes, edges, path, domain, drawn), drawn.box, list(nodes, edges)];
}

/** What is drawn, and what is not. */
function limit(nodes, edges, told, path) {
  if (nodes.length === told.reachable) return `${count(nodes.length, "memory", "memories")}, ${count(edges.length, "link")}. Larger is more relevant.`;
  const which = path ? "the nearest ones" : "the most linked ones, and those that they are linked with";
  return `${number(nodes.length)} of ${number(told.reachable)} linked memories: ${which}. A drawing of more could not be read; ${path ? "follow a memory" : "choose a domain"} to see others. Larger is more relevant.`;
}

const hueOf = (domains, domain) => { const place = domains.indexOf(domain); return place >= 0 && place < HUES ? `hue-${place}` : "hue-other"; };

/** The legend, which is also the filter: of the domains, and of the kinds of links. */
function choices(told, nodes, edges, path, domain, drawn) {
  const here = new Map();
  for (const node of nodes) here.set(node.memory.domain, (here.get(node.memory.domain) ?? 0) + 1);
  const hidden = new Set();
  const key = (name, words, mark) => {
    const box = el("button", { type: "button", class: "plain key", "aria-pressed": "true" }, mark, " ", words);
    box.addEventListener("click", () => {
      if (!hidden.delete(name)) hidden.add(name);
      box.setAttribute("aria-pressed", String(!hidden.has(name)));
      drawn.box.toggleAttribute("data-held", hidden.size > 0); // a choice, which is not lost to what happens elsewhere
      drawn.filter((node) => !hidden.has(`domain ${node.memory.domain}`), (edge) => !hidden.has(edge.kind));
    });
    return box;
  };
  const shown = [...here].sort(([one], [other]) => told.domains.indexOf(one) - told.domains.indexOf(other));
  const keys = shown.length > 1 ? shown.map(([name, times]) => key(`domain ${name}`, el("span", { text: `${name} ${number(times)}`, dir: "auto" }), el("i", { class: `swatch ${hueOf(told.domains, name)}`, "aria-hidden": "true" }))) : [];
  const kinds = new Set(edges.map((edge) => edge.kind));
  if (kinds.has("connection") && kinds.size > 1) keys.push(key("connection", "connections", el("i", { class: "line", "aria-hidden": "true" })));
  if (kinds.has("contradiction")) keys.push(key("contradiction", "contradictions", el("i", { class: "line contradiction", "aria-hidden": "true" })));
  const select = path || told.domains.length < 2 ? null : el("select", { "aria-label": "Domain to draw" }, el("option", { value: "" }, "All domains"), told.domains.map((name) => el("option", { value: name, selected: name === domain }, name)));
  select?.addEventListener("change", () => { location.hash = select.value ? route("graph", "", select.value) : "#/graph"; });
  return el("div", { class: "graph-keys ask" }, select, keys);
}

function picture(nodes, edges, path, now) {
  const isNarrow = innerWidth < 640;
  place(nodes, edges, isNarrow ? [460, 640] : [Math.min(1000, innerWidth), 640]);
  const lines = edges.map((edge) => svg("line", { class: `edge ${edge.kind}`, x1: edge.source.x, y1: edge.source.y, x2: edge.target.x, y2: edge.target.y }));
  const points = nodes.map((node) => {
    const label = visible(node.memory.key);
    return svg("a", { href: route("memory", node.memory.path), class: `node ${node.state} ${node.hue}${node.memory.path === path ? " centre" : ""}`, "aria-label": `${label}, ${node.state}, ${percent(node.relevance)}, ${count(node.degree, "link")}`, transform: `translate(${node.x.toFixed(1)} ${node.y.toFixed(1)})` },
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
  const preview = el("div", { class: "preview", hidden: true });
  nodes.forEach((node, index) => {
    const show = () => {
      const { memory } = node;
      preview.replaceChildren(el("p", { class: "place", text: `${memory.domain} / ${memory.facet}`, dir: "auto" }), el("b", { text: memory.key, dir: "auto" }), el("p", { class: "quoted", text: memory.excerpt, dir: "auto" }), el("p", { class: "note" }, el("span", { class: `state ${node.state}`, "aria-hidden": "true" }, GLYPHS[node.state]), ` ${node.state} · ${fate(memory, now)} · ${count(node.degree, "link")}`));
      preview.hidden = false;
    };
    points[index].addEventListener("pointerenter", show);
    points[index].addEventListener("focus", show);
    for (const left of ["pointerleave", "blur"]) points[index].addEventListener(left, () => { preview.hidden = true; });
  });
  /** Draw only some of the memories and links; a link is drawn where both its memories are. */
  function filter(keepsNode, keepsEdge) {
    nodes.forEach((node, index) => points[index].classList.toggle("off", !keepsNode(node)));
    edges.forEach((edge, index) => lines[index].classList.toggle("off", !(keepsEdge(edge) && keepsNode(edge.source) && keepsNode(edge.target))));
  }
  return { box: el("div", { class: "graph-box" }, drawing, preview, tools), filter };
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
    drawing.toggleAttribute("data-held", box.some((value, side) => Math.abs(value - home[side]) > 1));
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
