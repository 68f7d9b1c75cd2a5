// What is opened over the page: a node with its cards, a pod with its Events, or a row of a list with its pods.

import { ageOf, amount, byId, gib, make, plural } from "./dom.js";
import { DRAWN, asksOf } from "./lists.js";
import { badges, drawAmount, drawCard } from "./map.js";
import { podOf, podsOf } from "./model.js";

const MOST_SHOWN = 64;

export class Details {
  constructor(picture, view) {
    this.picture = picture;
    this.view = view;
    this.dialog = byId("details");
    this.events = undefined; // what is known of a pod's Events: of which pod, and what the server said
    this.dialog.addEventListener("close", () => {
      // It may have been opened again before this is told.
      if (view.open && !this.dialog.open) view.set({ open: "" });
    });
    this.dialog.addEventListener("click", (event) => {
      if (event.target === this.dialog) this.dialog.close();
      const { go } = event.target.closest("[data-go]")?.dataset ?? {};
      if (go === "read") this.readEvents();
      else if (go === "find") view.set({ open: "", find: event.target.closest("[data-go]").dataset.text });
      else if (go) view.set({ open: go });
    });
  }

  // Draws what the view has opened, where that is other than what is shown.
  draw() {
    const { open } = this.view;
    if (!open) {
      this.shown = undefined;
      if (this.dialog.open) this.dialog.close();
      return;
    }
    const at = open.indexOf(":");
    const [kind, key] = [open.slice(0, at), open.slice(at + 1)];
    if (kind === "pod" && this.events?.pod !== key) this.readEvents(key);
    const [sources, fill] = this.drawn(kind, key);
    if (!this.dialog.open) this.dialog.showModal();
    if (this.shown?.open === open && sources.length === this.shown.sources.length && sources.every((one, index) => one === this.shown.sources[index])) return;
    this.shown = { open, sources };
    const held = document.activeElement?.dataset?.go;
    this.dialog.setAttribute("aria-label", key);
    byId("what").replaceChildren(...fill().filter((one) => one !== ""));
    if (held) ([...byId("what").querySelectorAll("[data-go]")].find((one) => one.dataset.go === held) ?? byId("what")).focus();
  }

  // What is drawn, as the values it is made of and what makes it.
  drawn(kind, key) {
    const { picture } = this;
    if (kind === "node") {
      const node = picture.nodes.get(key);
      return [[node], () => (node ? drawNode(key, node) : wasDeleted(key))];
    }
    if (kind === "pod") {
      const found = findPod(picture, key);
      return [[found.on, found.node, found.key, found.row, this.events], () => drawPod(key, found, this.events)];
    }
    const row = Object.hasOwn(DRAWN, kind) ? picture[kind].get(key) : undefined;
    const nodes = row ? nodesOf(picture, row.name) : [];
    return [[row, ...nodes], () => (row ? drawRow(kind, row, nodes) : wasDeleted(key))];
  }

  async readEvents(pod = this.events.pod) {
    this.events = { pod };
    const path = pod.split("/").map(encodeURIComponent).join("/");
    let said;
    try {
      const answer = await fetch(`pods/${path}/events`);
      said = answer.ok ? await answer.json() : { problem: (await answer.text()).slice(0, 500) };
    } catch {
      said = { problem: "accelet ui does not answer" };
    }
    if (this.events.pod === pod) this.events = { pod, said };
    this.draw();
  }
}

const goTo = (go, text) => make("button", { type: "button", class: "link", data: { go } }, make("bdi", {}, text));
const facts = (...parts) => make("p", { class: "facts" }, ...parts);
const heading = (name, ...marks) => make("h2", {}, make("bdi", {}, name), ...marks);
const wasDeleted = (name) => [make("p", {}, `${name} is not there any more.`)];

// Where a pod is, or for what it waits: its node, or its row in the list of those that wait.
function findPod(picture, name) {
  for (const [on, node] of picture.nodes) {
    if ((node.pods ?? []).some((pod) => pod.name === name) || podsOf(node).has(name)) return { on, node };
  }
  for (const section of ["waiting", "plans"]) {
    for (const [key, row] of picture[section]) {
      const seats = (row.seats ?? []).map((seat) => `${row.name.split("/")[0]}/${seat.pod}`);
      if ((row.names ?? seats).includes(name)) return { key: `${section}:${key}`, row };
    }
  }
  return {};
}

// The nodes with pods of a gang or a task.
function nodesOf(picture, gang) {
  const isOf = (pod) => pod.gang === gang || pod.name === gang;
  return [...picture.nodes].filter(([, node]) => (node.pods ?? []).some(isOf)).map(([name]) => name);
}

function drawPod(name, { on, node, key, row }, events) {
  const pod = (node?.pods ?? []).find((one) => one.name === name);
  const held = (node?.cards ?? []).flatMap((card) => (card.holders ?? []).filter((one) => podOf(one.name) === name).map((one) => [card, one]));
  const gang = pod?.gang || (row && row.name !== name ? row.name : "");
  return [
    heading(name),
    on ? facts("on node ", goTo(`node:${on}`, on)) : "",
    row?.seats ? facts("is being bound to ", ...row.seats.filter((seat) => name.endsWith(`/${seat.pod}`)).map((seat) => goTo(`node:${seat.node}`, seat.node))) : "",
    gang ? facts("gang ", key ? goTo(key, gang) : make("bdi", {}, gang)) : "",
    pod?.queue || row?.queue ? facts(`queue ${pod?.queue || row.queue}`) : "",
    pod || row?.asks ? facts(`requests ${asksOf((pod ?? row).asks)}${row?.pods > 1 ? `, all ${row.pods} pods together` : ""}`) : "",
    row?.reason ? make("p", { class: "why" }, row.fits ? `It fits, and is not bound yet: ${row.reason}` : `It is pending: ${row.reason}`) : "",
    !on && !row ? make("p", {}, "No node has this pod, and it is not pending.") : "",
    held.length ? table(["Card", "Tiles", "Container"], held.map(([card, one]) => [card.card || card.id, (one.tiles ?? []).join(", ") || "shared", one.name.split("/")[2] ?? one.name])) : "",
    make("h3", {}, "Events"),
    ...drawEvents(events?.said),
  ];
}

function drawEvents(said) {
  if (!said) return [facts("reading them …")];
  const again = make("p", {}, make("button", { type: "button", data: { go: "read" } }, "Read again"));
  if (said.problem) return [make("p", { class: "problem" }, `They cannot be read: ${said.problem}`), again];
  const events = said.events ?? [];
  if (!events.length) return [facts("The API server has none of this pod."), again];
  const rows = events.map((one) => [
    make("span", { class: `badge ${one.is_warning ? "bad" : ""}` }, one.reason || "?"),
    `${one.message}${(one.count ?? 1) > 1 ? ` (${one.count} times)` : ""}`,
    ageOf(one.at_s ?? 0)]);
  return [table(["Reason", "Message", "Age"], rows), said.more ? facts(`and ${said.more} older`) : "", again];
}

function drawRow(kind, row, nodes) {
  const [{ beside }, ...below] = DRAWN[kind].row(row);
  const seats = (row.seats ?? []).slice(0, MOST_SHOWN);
  const pods = row.names ?? [];
  return [
    heading(row.name, ...beside),
    ...below,
    pods.length ? make("h3", {}, "Pods") : "",
    pods.length ? make("ul", { class: "names" }, ...pods.map((pod) => make("li", {}, goTo(`pod:${pod}`, pod)))) : "",
    row.pods > pods.length && pods.length ? facts(`and ${plural(row.pods - pods.length, "pod")} more`) : "",
    seats.length ? table(["Pod", "Node"], seats.map((seat) => [goTo(`pod:${row.name.split("/")[0]}/${seat.pod}`, seat.pod), goTo(`node:${seat.node}`, seat.node)])) : "",
    nodes.length ? make("h3", {}, "Nodes with pods of it") : "",
    nodes.length ? make("ul", { class: "names" }, ...nodes.slice(0, MOST_SHOWN).map((name) => make("li", {}, goTo(`node:${name}`, name)))) : "",
    nodes.length > MOST_SHOWN ? facts(`and ${plural(nodes.length - MOST_SHOWN, "node")} more`) : "",
    nodes.length ? make("p", {}, make("button", { type: "button", data: { go: "find", text: row.name } }, "Show only these nodes")) : "",
  ];
}

function drawNode(name, node) {
  const pods = node.pods ?? [];
  return [
    heading(name, ...badges(node)),
    facts((node.place ?? []).join(" / ") || "no labels say where it is in the network"),
    node.problem ? make("p", { class: "problem" }, node.problem) : "",
    ...(node.strays ?? []).map((one) => make("p", { class: "problem" }, `${one.container} is assigned ${one.devices}, which the node does not publish`)),
    (node.cards ?? []).length ? table(["Card", "Tiles", "Millicores free", "Memory free", "Shares free", "Holders"], node.cards.map(cardRow)) : "",
    node.more_cards ? facts(`and ${plural(node.more_cards, "card")} more`) : "",
    ...(node.amounts ?? []).map(drawAmount),
    pods.length ? make("h3", {}, "Pods with accelerators") : "",
    pods.length ? table(["Pod", "Gang", "Queue", "Requests"], pods.map((pod) => [goTo(`pod:${pod.name}`, pod.name), pod.gang ?? "", pod.queue ?? "", asksOf(pod.asks)])) : "",
    node.more_pods ? facts(`and ${plural(node.more_pods, "pod")} more`) : "",
    !(node.cards ?? []).length && !(node.amounts ?? []).length && !node.problem ? facts("It has no accelerators.") : "",
  ];
}

function table(heads, rows) {
  return make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((one) => make("th", { scope: "col" }, one)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, column) => make("td", { data: { head: heads[column] } }, ...[cell].flat()))))));
}

function cardRow(card) {
  const memory = card.memory_bytes == null || card.memory_free_bytes == null ? "not known" : `${gib(card.memory_free_bytes)} of ${gib(card.memory_bytes)} GiB`;
  const said = [card.model, card.pci ?? card.id, card.numa_node == null ? "" : `NUMA ${card.numa_node}`].filter(Boolean).join(" · ");
  return [
    [make("b", {}, card.card || card.id), make("div", { class: "facts" }, card.resource), make("div", { class: "facts" }, said)],
    [drawCard(card)],
    amount("", card.millicores_free ?? 0),
    memory,
    `${card.shares_free ?? 0} of ${card.shares ?? 0}`,
    holders(card),
  ];
}

function holders(card) {
  const lines = [
    ...(card.conflicts ?? []).map((one) => make("div", { class: "problem" }, one)),
    card.ill ? make("div", { class: "problem" }, `unhealthy: ${card.ill}`) : "",
    card.is_closed ? make("div", { class: "problem" }, "out of service") : "",
    ...(card.holders ?? []).map((one) => make("div", {},
      make("b", { class: "which" }, (one.tiles ?? []).length ? `tile ${one.tiles.join(", ")}` : "all"), " ",
      goTo(`pod:${podOf(one.name)}`, one.name), one.is_lingering ? " (deleted by force)" : "")),
    card.more_holders ? make("div", {}, `and ${card.more_holders} more`) : "",
    card.unassigned ? make("div", {}, `${plural(card.unassigned, "container")} without an assignment`) : "",
  ].filter((one) => one !== "");
  return lines.length ? lines : [make("span", { class: "facts" }, "none")];
}
