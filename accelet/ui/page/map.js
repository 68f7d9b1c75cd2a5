// The nodes by their place in the network, each with a map of its cards and tiles.

import { amount, byId, make, plural } from "./dom.js";
import { FILTERS, STATES, countTiles, holdersOf, isPart, isWrong, textOf, tileState } from "./model.js";

const MOST_OPEN = 64; // with more nodes, the lower levels begin closed
const MOST_SQUARES = 16;

export class NodeMap {
  constructor(picture, show) {
    this.picture = picture;
    this.show = show;
    this.query = "";
    this.filter = "all";
    this.texts = new Map();
    this.elements = new Map();
    this.choices = new Map(); // which domains the person has opened or closed
    this.tree = byId("tree");
    this.tree.addEventListener("keydown", (event) => this.walk(event));
  }

  // Nodes that are new or other, or gone; all where there is no list of them.
  forget(names) {
    if (names === undefined) {
      this.texts.clear();
      this.elements.clear();
      return;
    }
    for (const name of names) {
      this.texts.delete(name);
      this.elements.delete(name);
    }
  }

  find(query) {
    if (this.query !== query) this.elements.clear();
    this.query = query;
  }

  draw() {
    const shown = [];
    const counts = Object.fromEntries(Object.keys(FILTERS).map((key) => [key, 0]));
    for (const [name, node] of this.picture.nodes) {
      if (this.query && !this.text(name, node).includes(this.query)) continue;
      for (const [key, filter] of Object.entries(FILTERS)) if (filter.takes(node)) counts[key] += 1;
      if (FILTERS[this.filter].takes(node)) shown.push([name, node]);
    }
    shown.sort(byPlace);
    const held = document.activeElement?.dataset?.node;
    const levels = this.picture.about.get("cluster")?.levels ?? [];
    const depth = Math.max(0, levels.length - 1);
    const hasPlaces = shown.some(([, node]) => (node.place ?? []).length);
    this.isWide = shown.length > MOST_OPEN;
    this.tree.replaceChildren(...(hasPlaces ? this.domains(shown, levels, depth, []) : [this.grid(shown)]));
    const all = this.picture.nodes.size;
    byId("shown").textContent = shown.length === all ? plural(all, "node") : `${shown.length} of ${plural(all, "node")}`;
    this.rove(held);
    return counts;
  }

  text(name, node) {
    if (!this.texts.has(name)) this.texts.set(name, textOf(name, node));
    return this.texts.get(name);
  }

  domains(nodes, levels, depth, above) {
    const groups = new Map();
    for (const one of nodes) {
      const part = (one[1].place ?? [])[above.length];
      if (!groups.has(part)) groups.set(part, []);
      groups.get(part).push(one);
    }
    return [...groups].map(([part, some]) => this.domain(part, some, levels, depth, above));
  }

  domain(part, nodes, levels, depth, above) {
    const place = [...above, part ?? ""];
    const key = JSON.stringify(place);
    const isLast = part === undefined || place.length >= depth;
    const fill = () => (isLast ? [this.grid(nodes)] : this.domains(nodes, levels, depth, place));
    const opens = this.choices.get(key) ?? (!isLast || !this.isWide || (Boolean(this.query) && nodes.length <= MOST_OPEN));
    const title = part === undefined
      ? [make("span", { class: "level" }, "no place in the network")]
      : [make("span", { class: "level" }, levels[above.length]), make("bdi", { class: "part" }, part)];
    const summary = make("summary", {}, ...title, make("span", { class: "count" }, plural(nodes.length, "node")), meter(nodes));
    const details = make("details", { class: "domain", open: opens, data: { key } }, summary);
    if (opens) details.append(...fill());
    details.addEventListener("toggle", () => {
      if (details.open === (details.childElementCount > 1)) return;
      if (details.open) details.append(...fill());
      else details.replaceChildren(summary);
      this.rove();
    });
    summary.addEventListener("click", () => this.choices.set(key, !details.open));
    return details;
  }

  setAll(isOpen) {
    this.choices.clear();
    const levels = this.picture.about.get("cluster")?.levels ?? [];
    for (const node of this.picture.nodes.values()) {
      const place = node.place ?? [];
      if (!place.length) this.choices.set(JSON.stringify([""]), isOpen);
      for (let depth = 1; depth < Math.max(2, levels.length); depth += 1) {
        if (place.length >= depth) this.choices.set(JSON.stringify(place.slice(0, depth)), isOpen);
      }
    }
    this.draw();
  }

  grid(nodes) {
    return make("div", { class: "grid" }, ...nodes.map(([name, node]) => this.node(name, node)));
  }

  node(name, node) {
    const known = this.elements.get(name);
    if (known) return known;
    const element = drawNode(name, node, this.query);
    element.addEventListener("click", () => this.show(name));
    this.elements.set(name, element);
    return element;
  }

  // One node is in the tab order: the last that had the focus.
  rove(name) {
    const nodes = [...this.tree.querySelectorAll(".node")];
    const wanted = name ?? this.last;
    const chosen = nodes.find((one) => one.dataset.node === wanted) ?? nodes[0];
    for (const one of nodes) one.tabIndex = one === chosen ? 0 : -1;
    if (name !== undefined && chosen) chosen.focus({ preventScroll: true });
  }

  walk(event) {
    const here = event.target.closest(".node");
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!here || !steps) return;
    event.preventDefault();
    const next = neighbour(here, [...this.tree.querySelectorAll(".node")], ...steps);
    if (!next) return;
    here.tabIndex = -1;
    next.tabIndex = 0;
    this.last = next.dataset.node;
    next.focus();
  }
}

function byPlace([nameA, a], [nameB, b]) {
  const order = (x, y) => x.localeCompare(y, "en", { numeric: true });
  const [one, other] = [a.place ?? [], b.place ?? []];
  if (!one.length !== !other.length) return one.length ? -1 : 1;
  for (let level = 0; level < Math.min(one.length, other.length) - 1; level += 1) {
    const found = order(one[level], other[level]);
    if (found) return found;
  }
  return order(nameA, nameB);
}

function neighbour(here, nodes, right, down) {
  if (right) return nodes[nodes.indexOf(here) + right];
  const from = here.getBoundingClientRect();
  let best, least = Infinity;
  for (const one of nodes) {
    const at = one.getBoundingClientRect();
    const far = down * (at.top - from.top);
    if (far <= 1) continue;
    const distance = far * 4 + Math.abs(at.left - from.left);
    if (distance < least) [best, least] = [one, distance];
  }
  return best;
}

// How the tiles of some nodes divide among the states, as a bar and in figures.
export function meter(nodes) {
  const counts = {};
  for (const [, node] of nodes) countTiles(node, counts);
  const all = Object.values(counts).reduce((sum, one) => sum + one, 0);
  const wrong = nodes.filter(([, node]) => isWrong(node)).length;
  return make("span", { class: "meter" },
    wrong ? make("span", { class: "badge bad" }, `${wrong} ill or wrong`) : "",
    make("span", { class: "figures" }, all ? `${(counts.free ?? 0).toLocaleString("en")} of ${all.toLocaleString("en")} free` : ""),
    drawBar(counts));
}

// So many tiles in each state, side by side.
export function drawBar(counts) {
  const bar = make("span", { class: "bar", "aria-hidden": "true" });
  for (const state of ["held", "shared", "contested", "blocked", "closed", "free"]) {
    if (!counts[state]) continue;
    const part = make("i", { class: `tile ${state}` });
    part.style.flexGrow = String(counts[state]);
    bar.append(part);
  }
  return bar;
}

function drawNode(name, node, query) {
  const counts = countTiles(node);
  const all = Object.values(counts).reduce((sum, one) => sum + one, 0);
  const marks = badges(node);
  const label = [name, all ? `${counts.free ?? 0} of ${all} free` : "nothing to give", ...marks.map((one) => one.textContent)];
  return make("button", { type: "button", class: `node${isWrong(node) ? " wrong" : ""}`, tabindex: -1, data: { node: name }, "aria-label": label.join(", ") },
    make("span", { class: "name" }, make("bdi", {}, name), ...marks),
    node.problem ? make("span", { class: "problem" }, node.problem) : "",
    (node.cards ?? []).length ? make("span", { class: "cards" }, ...node.cards.map((card) => drawCard(card, query))) : "",
    ...(node.amounts ?? []).filter((one) => !isPart(one.resource)).map((one) => drawAmount(one)));
}

export function badges(node) {
  const said = [];
  if (node.is_away) said.push(["bad", "not ready"]);
  if (node.is_cordoned) said.push(["closed", "cordoned"]);
  const ill = (node.cards ?? []).filter((card) => card.ill).length;
  if (ill) said.push(["bad", `${ill} ill`]);
  const twice = (node.cards ?? []).filter((card) => (card.conflicts ?? []).length).length;
  if (twice) said.push(["bad", `${twice} held twice`]);
  if ((node.strays ?? []).length) said.push(["bad", `${node.strays.length} assigned what is not there`]);
  if (node.more_cards) said.push(["closed", `${node.more_cards} more cards`]);
  return said.map(([kind, text]) => make("span", { class: `badge ${kind}` }, text));
}

export function drawCard(card, query = "") {
  const classes = ["card", card.ill ? "ill" : "", card.is_closed ? "shut" : ""].filter(Boolean).join(" ");
  return make("span", { class: classes, data: { card: card.id } }, ...card.tiles.map((_, tile) => drawTile(card, tile, query)));
}

function drawTile(card, tile, query) {
  const holders = holdersOf(card, tile);
  const state = tileState(card, tile);
  const isHit = query && holders.some((one) => one.name.toLowerCase().includes(query));
  const words = card.ill && state === "closed" ? `ill: ${card.ill}` : STATES[state];
  const title = [`${card.card || card.id} tile ${tile}: ${words}`, ...holders.map((one) => one.name)].join("\n");
  return make("span", { class: `tile ${state}${isHit ? " hit" : ""}`, title, data: { tile, state } });
}

export function drawAmount(one) {
  const [offered, taken] = [one.offered ?? 0, one.taken ?? 0];
  const squares = offered <= MOST_SQUARES ? Array.from({ length: offered }, (_, index) =>
    make("span", { class: `tile ${index < taken ? "held" : "free"}` })) : [];
  return make("span", { class: "amount", title: `${one.resource}: ${amount(one.resource, taken)} of ${amount(one.resource, offered)} taken`, data: { resource: one.resource } },
    make("span", { class: "resource" }, one.resource),
    squares.length ? make("span", { class: "card" }, ...squares) : "",
    make("span", { class: "figures" }, `${amount(one.resource, taken)}/${amount(one.resource, offered)}`));
}
