// The nodes by their place in the network, each with a map of its cards and tiles.

import { amount, arrange, byId, make, plural, setText } from "./dom.js";
import { FILTERS, STATES, factsOf, holdersOf, isPart, sum, tileState } from "./model.js";

const MOST_OPEN = 64; // with more nodes, the lower levels begin closed
const MOST_SORTED = 500;
const MOST_SQUARES = 16;
const collator = new Intl.Collator("en", { numeric: true });

export class NodeMap {
  constructor(picture, view) {
    this.picture = picture;
    this.view = view;
    this.order = []; // the names of all nodes by their place
    this.isOrdered = true;
    this.nodes = new Map(); // what is drawn of each node: its element, and of which node and for which query
    this.domains = new Map(); // what is drawn of each domain of the network
    this.choices = new Map(); // which domains the person has opened or closed
    this.tree = byId("tree");
    this.tree.addEventListener("keydown", (event) => this.walk(event));
    this.tree.addEventListener("focusin", (event) => event.target.closest(".node") && this.rove(event.target));
    this.tree.addEventListener("click", (event) => {
      const node = event.target.closest(".node");
      if (node) view.set({ open: `node:${node.dataset.node}` });
    });
  }

  // Nodes are new, have another place or are gone.
  reorder() {
    this.isOrdered = false;
  }

  draw() {
    if (!this.isOrdered) this.sort();
    const { view } = this;
    const shown = [];
    const counts = Object.fromEntries(Object.keys(FILTERS).map((key) => [key, 0]));
    for (const name of this.order) {
      const node = this.picture.nodes.get(name);
      const facts = factsOf(name, node);
      if (!view.takesNode(facts)) continue;
      for (const key of facts.filters) counts[key] += 1;
      if (facts.filters.includes(view.show)) shown.push({ name, node, facts });
    }
    const levels = this.picture.about.get("cluster")?.levels ?? [];
    const hasPlaces = shown.some(({ node }) => (node.place ?? []).length);
    this.isWide = shown.length > MOST_OPEN;
    this.grids = new Map();
    this.openDomains = new Set();
    if (view.sort === "cards") arrange(this.tree, this.drawSorted(shown));
    else arrange(this.tree, hasPlaces ? this.drawDomains(shown, levels, []) : [this.drawGrid("", shown)]);
    this.forgetUnseen();
    const all = this.picture.nodes.size;
    setText(byId("shown"), shown.length === all ? plural(all, "node") : `${shown.length.toLocaleString("en")} of ${plural(all, "node")}`);
    if (!this.current?.isConnected) this.rove(this.tree.querySelector(".node button"));
    return counts;
  }

  // Those with the most whole free cards first, in one grid.
  drawSorted(nodes) {
    const sorted = nodes.toSorted((a, b) => b.facts.cardsFree - a.facts.cardsFree);
    const rest = sorted.length - MOST_SORTED;
    const more = rest > 0 ? [make("p", { class: "none" }, `${plural(rest, "node")} more: find them, or choose fewer.`)] : [];
    return [this.drawGrid("", sorted.slice(0, MOST_SORTED)), ...more];
  }

  sort() {
    this.order = [...this.picture.nodes].sort(byPlace).map(([name]) => name);
    this.isOrdered = true;
    for (const name of [...this.nodes.keys()]) if (!this.picture.nodes.has(name)) this.nodes.delete(name);
  }

  drawDomains(nodes, levels, above) {
    const groups = new Map();
    for (const one of nodes) {
      const part = (one.node.place ?? [])[above.length];
      if (!groups.has(part)) groups.set(part, []);
      groups.get(part).push(one);
    }
    return [...groups].map(([part, some]) => this.drawDomain(part, some, levels, above));
  }

  drawDomain(part, nodes, levels, above) {
    const place = [...above, part ?? ""];
    const key = JSON.stringify(place);
    const isLast = part === undefined || place.length >= levels.length - 1;
    const opens = this.choices.get(key) ?? (!isLast || !this.isWide || (Boolean(this.view.query) && nodes.length <= MOST_OPEN));
    const domain = this.domain(key);
    domain.isOpen = opens;
    domain.details.open = opens;
    drawSummary(domain, part, levels[above.length], nodes);
    arrange(domain.inside, !opens ? [] : isLast ? [this.drawGrid(key, nodes)] : this.drawDomains(nodes, levels, place));
    return domain.details;
  }

  domain(key) {
    this.openDomains.add(key);
    const known = this.domains.get(key);
    if (known) return known;
    const domain = { summary: make("summary"), inside: make("div", { class: "inside" }) };
    domain.details = make("details", { class: "domain", data: { key } }, domain.summary, domain.inside);
    domain.details.addEventListener("toggle", () => {
      if (domain.details.open === domain.isOpen) return;
      this.choices.set(key, domain.details.open);
      this.draw();
    });
    this.domains.set(key, domain);
    return domain;
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
  }

  drawGrid(key, nodes) {
    const grid = this.lastGrids?.get(key) ?? make("ul", { class: "grid" });
    this.grids.set(key, grid);
    arrange(grid, nodes.map((one) => this.drawNode(one)));
    return grid;
  }

  // The element of a node: filled anew only where the node is another one.
  drawNode({ name, node, facts }) {
    let drawn = this.nodes.get(name);
    if (!drawn) {
      drawn = { element: make("li", { class: "node", data: { node: name } }, make("button", { type: "button", tabindex: -1 })) };
      this.nodes.set(name, drawn);
    }
    const { query, sort } = this.view;
    if (drawn.node !== node || drawn.query !== query || drawn.sort !== sort) fillNode(drawn.element, name, node, facts, this.view);
    Object.assign(drawn, { node, query, sort });
    return drawn.element;
  }

  // Domains and grids that are not there any more.
  forgetUnseen() {
    this.lastGrids = this.grids;
    for (const key of [...this.domains.keys()]) if (!this.openDomains.has(key)) this.domains.delete(key);
  }

  // One node is in the tab order: the last that had the focus.
  rove(button) {
    if (this.current) this.current.tabIndex = -1;
    this.current = button;
    if (button) button.tabIndex = 0;
  }

  walk(event) {
    const here = event.target.closest(".node");
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!here || !steps) return;
    event.preventDefault();
    neighbour(here, [...this.tree.querySelectorAll(".node")], ...steps)?.querySelector("button").focus();
  }
}

function byPlace([nameA, a], [nameB, b]) {
  const [one, other] = [a.place ?? [], b.place ?? []];
  if (!one.length !== !other.length) return one.length ? -1 : 1;
  for (let level = 0; level < Math.min(one.length, other.length) - 1; level += 1) {
    const found = collator.compare(one[level], other[level]);
    if (found) return found;
  }
  return collator.compare(nameA, nameB);
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

// A domain's name, and how the tiles of its nodes divide among the states; drawn where that is other than before.
function drawSummary(domain, part, level, nodes) {
  const counts = {};
  let wrong = 0;
  for (const { facts } of nodes) {
    wrong += facts.isWrong;
    for (const [state, count] of Object.entries(facts.counts)) counts[state] = (counts[state] ?? 0) + count;
  }
  const signature = JSON.stringify([level, nodes.length, wrong, counts]);
  if (domain.signature === signature) return;
  domain.signature = signature;
  const all = sum(counts);
  const title = part === undefined
    ? [make("span", { class: "level" }, "no place in the network")]
    : [make("span", { class: "level" }, level), make("bdi", { class: "part" }, part)];
  domain.summary.replaceChildren(...title, make("span", { class: "count" }, plural(nodes.length, "node")),
    make("span", { class: "meter" },
      wrong ? make("span", { class: "badge bad" }, `${wrong} unhealthy`) : "",
      make("span", { class: "figures" }, all ? `${(counts.free ?? 0).toLocaleString("en")} of ${all.toLocaleString("en")} free` : ""),
      drawBar(counts)));
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

function fillNode(element, name, node, { free, all, isWrong, cardsFree }, { query, sort }) {
  const marks = [...badges(node), ...(sort === "cards" ? [make("span", { class: "count" }, `${cardsFree.toLocaleString("en")} whole`)] : [])];
  const label = [name, ...marks.map((one) => one.textContent), all ? `${free} of ${all} free` : "nothing to give"];
  const button = element.querySelector("button");
  button.setAttribute("aria-label", label.join(", "));
  button.replaceChildren(make("bdi", {}, name), ...marks);
  element.classList.toggle("wrong", isWrong);
  arrange(element, [button,
    node.problem ? make("span", { class: "problem" }, node.problem) : "",
    (node.cards ?? []).length ? make("span", { class: "cards" }, ...node.cards.map((card) => drawCard(card, query))) : "",
    ...(node.amounts ?? []).filter((one) => !isPart(one.resource)).map((one) => drawAmount(one))].filter(Boolean));
}

export function badges(node) {
  const said = [];
  if (node.is_away) said.push(["bad", "NotReady"]);
  if (node.is_cordoned) said.push(["closed", "cordoned"]);
  const ill = (node.cards ?? []).filter((card) => card.ill).length;
  if (ill) said.push(["bad", `${ill} unhealthy`]);
  const twice = (node.cards ?? []).filter((card) => (card.conflicts ?? []).length).length;
  if (twice) said.push(["bad", `${twice} held twice`]);
  if ((node.strays ?? []).length) said.push(["bad", `${node.strays.length} assigned what is not there`]);
  if (node.more_cards) said.push(["closed", `${node.more_cards} more cards`]);
  return said.map(([kind, text]) => make("span", { class: `badge ${kind}` }, text));
}

export function drawCard(card, query = "") {
  const classes = ["card", card.ill ? "ill" : "", card.is_closed ? "shut" : ""].filter(Boolean).join(" ");
  const label = [card.card || card.id, card.ill ? "unhealthy" : "", card.is_closed ? "out of service" : ""].filter(Boolean).join(", ");
  return make("span", { class: classes, role: "group", "aria-label": label, data: { card: card.id } }, ...card.tiles.map((_, tile) => drawTile(card, tile, query)));
}

function drawTile(card, tile, query) {
  const holders = holdersOf(card, tile);
  const state = tileState(card, tile);
  const isHit = query && holders.some((one) => one.name.toLowerCase().includes(query));
  const words = card.ill && state === "closed" ? `unhealthy: ${card.ill}` : STATES[state];
  const title = [`${card.card || card.id} tile ${tile}: ${words}`, ...holders.map((one) => one.name)].join("\n");
  return make("span", { class: `tile ${state}${isHit ? " hit" : ""}`, role: "img", "aria-label": title.replaceAll("\n", ", "), title, data: { tile, state } });
}

export function drawAmount(one) {
  const [offered, taken] = [one.offered ?? 0, one.taken ?? 0];
  const squares = offered <= MOST_SQUARES ? Array.from({ length: offered }, (_, index) =>
    make("span", { class: `tile ${index < taken ? "held" : "free"}` })) : [];
  const words = `${amount(one.resource, taken)} of ${amount(one.resource, offered)} taken`;
  return make("span", { class: "amount", title: `${one.resource}: ${words}`, data: { resource: one.resource } },
    make("span", { class: "resource" }, one.resource),
    squares.length ? make("span", { class: "card", role: "img", "aria-label": words }, ...squares) : "",
    make("span", { class: "figures" }, `${amount(one.resource, taken)}/${amount(one.resource, offered)}`));
}
