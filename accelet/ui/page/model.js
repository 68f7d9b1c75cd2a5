// What the page knows: the picture as it is told part by part, and what follows from it.

export const STATES = {
  free: "free",
  held: "held",
  shared: "shared",
  blocked: "no share left",
  closed: "out of service",
  contested: "held twice",
};

export function emptyPicture() {
  return { about: new Map(), nodes: new Map(), waiting: new Map(), plans: new Map(), slices: new Map(), tasks: new Map() };
}

// Applies what a message puts and takes; the names of the sections that it changes.
export function apply(picture, message) {
  const changed = new Set();
  for (const [section, keys] of Object.entries(message.gone)) {
    for (const key of keys) picture[section].delete(key);
    changed.add(section);
  }
  for (const [section, boxes] of Object.entries(message.put)) {
    for (const [key, box] of Object.entries(boxes)) picture[section].set(key, box);
    changed.add(section);
  }
  return changed;
}

// Whether a message brings nodes, moves them to other places in the network, or takes them.
export function changesOrder(picture, message) {
  const placeOf = (node) => (node ? JSON.stringify(node.place ?? []) : "");
  const isMoved = ([name, node]) => placeOf(picture.nodes.get(name)) !== placeOf(node);
  return Boolean((message.gone.nodes ?? []).length) || Object.entries(message.put.nodes ?? {}).some(isMoved);
}

export const holdersOf = (card, tile) =>
  (card.holders ?? []).filter((one) => !(one.tiles ?? []).length || one.tiles.includes(tile));

export function tileState(card, tile) {
  return (card.closed_tiles ?? []).includes(tile) && card.tiles[tile] === "free" ? "closed" : card.tiles[tile];
}

// How many tiles are in each state, with resources that have no cards counted as free and held.
function countTiles(node, counts = {}) {
  for (const card of node.cards ?? []) for (const state of card.tiles) counts[state] = (counts[state] ?? 0) + 1;
  for (const one of node.amounts ?? []) {
    if (isPart(one.resource)) continue;
    const taken = Math.min(one.taken ?? 0, one.offered ?? 0);
    counts.held = (counts.held ?? 0) + taken;
    counts.free = (counts.free ?? 0) + (one.offered ?? 0) - taken;
  }
  return counts;
}

// Whether a resource is a part of other resources' units, which are counted already.
export const isPart = (resource) => /\/(memory\.max|millicores|tiles)$/.test(resource);

function isWrong(node) {
  return Boolean(
    node.is_away || node.problem || (node.strays ?? []).length ||
      (node.cards ?? []).some((card) => card.ill || (card.conflicts ?? []).length),
  );
}

const isClosed = (node) =>
  Boolean(node.is_cordoned || (node.cards ?? []).some((card) => card.is_closed || card.tiles.includes("closed")));

export const FILTERS = {
  all: { name: "All", takes: () => true },
  free: { name: "All free", takes: (facts) => facts.all > 0 && facts.free === facts.all },
  partly: { name: "Partly free", takes: (facts) => facts.free > 0 && facts.free < facts.all },
  full: { name: "None free", takes: (facts) => facts.all > 0 && facts.free === 0 },
  wrong: { name: "Unhealthy", takes: (facts) => facts.isWrong },
  closed: { name: "Out of service", takes: (facts) => facts.isClosed },
};

const known = new WeakMap();

// What follows from a node, found once: its tiles by state, how many of them a pod can still have, its filters, its text.
export function factsOf(name, node) {
  const found = known.get(node);
  if (found) return found;
  const counts = countTiles(node);
  const facts = { counts, free: counts.free ?? 0, all: sum(counts), isWrong: isWrong(node), isClosed: isClosed(node) };
  facts.cardsFree = countFreeCards(node);
  facts.namespaces = new Set([...podsOf(node)].map((pod) => pod.slice(0, pod.indexOf("/"))));
  facts.queues = new Set((node.pods ?? []).map((pod) => pod.queue).filter(Boolean));
  facts.filters = Object.keys(FILTERS).filter((key) => FILTERS[key].takes(facts));
  let text;
  facts.has = (query) => (text ??= textOf(name, node)).includes(query);
  known.set(node, facts);
  return facts;
}

// The pods and claims that are on a node or hold something there, as `namespace/name`.
export function podsOf(node) {
  const names = new Set((node.pods ?? []).map((pod) => pod.name));
  for (const card of node.cards ?? []) for (const holder of card.holders ?? []) names.add(podOf(holder.name));
  return names;
}

// The pod of a holder `namespace/pod/container`; a claim's name stays as it is.
export const podOf = (holder) => holder.split("/").slice(0, 2).join("/");

// How many cards a pod can have whole; of resources without cards, how many units.
function countFreeCards(node) {
  const whole = (node.cards ?? []).filter((card) => card.tiles.every((_, tile) => tileState(card, tile) === "free")).length;
  const others = (node.amounts ?? []).filter((one) => !isPart(one.resource));
  return others.reduce((total, one) => total + Math.max(0, (one.offered ?? 0) - (one.taken ?? 0)), whole);
}

export const SORTS = { place: "by place in the network", cards: "most whole free cards first" };

export const sum = (counts) => Object.values(counts).reduce((total, one) => total + one, 0);

// Everything of a node that can be found, in lower case.
function textOf(name, node) {
  const parts = [name, ...(node.place ?? []), node.problem];
  for (const card of node.cards ?? []) {
    parts.push(card.id, card.card, card.model, card.resource, card.pci, card.ill);
    for (const holder of card.holders ?? []) parts.push(holder.name);
  }
  for (const one of node.amounts ?? []) parts.push(one.resource);
  for (const pod of node.pods ?? []) parts.push(pod.name, pod.gang);
  for (const stray of node.strays ?? []) parts.push(stray.container);
  return parts.filter(Boolean).join("\n").toLowerCase();
}
