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

export const holdersOf = (card, tile) =>
  (card.holders ?? []).filter((one) => !(one.tiles ?? []).length || one.tiles.includes(tile));

export function tileState(card, tile) {
  return (card.closed_tiles ?? []).includes(tile) && card.tiles[tile] === "free" ? "closed" : card.tiles[tile];
}

// How many tiles are in each state, with resources that have no cards counted as free and held.
export function countTiles(node, counts = {}) {
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

export function isWrong(node) {
  return Boolean(
    node.is_away || node.problem || (node.strays ?? []).length ||
      (node.cards ?? []).some((card) => card.ill || (card.conflicts ?? []).length),
  );
}

export const isClosed = (node) =>
  Boolean(node.is_cordoned || (node.cards ?? []).some((card) => card.is_closed || card.tiles.includes("closed")));

// Which part of a node's tiles a pod can still have: each node with any is in one of the three.
const freeOf = (node) => {
  const counts = countTiles(node);
  const all = Object.values(counts).reduce((sum, one) => sum + one, 0);
  return { free: counts.free ?? 0, all };
};

export const FILTERS = {
  all: { name: "All", takes: () => true },
  free: { name: "All free", takes: (node) => ((of) => of.all > 0 && of.free === of.all)(freeOf(node)) },
  partly: { name: "Partly free", takes: (node) => ((of) => of.free > 0 && of.free < of.all)(freeOf(node)) },
  full: { name: "None free", takes: (node) => ((of) => of.all > 0 && of.free === 0)(freeOf(node)) },
  wrong: { name: "Ill or wrong", takes: isWrong },
  closed: { name: "Out of service", takes: isClosed },
};

// Everything of a node that can be found, in lower case.
export function textOf(name, node) {
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

export const rowText = (row) => JSON.stringify(row).toLowerCase();
