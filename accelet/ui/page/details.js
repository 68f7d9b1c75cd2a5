// One node with all that is known of it.

import { amount, byId, gib, make, plural } from "./dom.js";
import { asksOf } from "./lists.js";
import { badges, drawAmount, drawCard } from "./map.js";

export class Details {
  constructor(picture) {
    this.picture = picture;
    this.dialog = byId("details");
    this.dialog.addEventListener("close", () => (this.name = undefined));
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  show(name) {
    this.name = name;
    this.node = undefined;
    this.draw();
    this.dialog.setAttribute("aria-label", name);
    this.dialog.showModal();
  }

  draw() {
    if (this.name === undefined) return;
    const node = this.picture.nodes.get(this.name);
    if (node === this.node && node) return;
    this.node = node;
    byId("what").replaceChildren(...(node ? drawDetails(this.name, node) : [make("p", {}, `${this.name} is gone.`)]));
  }
}

function drawDetails(name, node) {
  return [
    make("h2", {}, make("bdi", {}, name), ...badges(node)),
    make("p", { class: "facts" }, (node.place ?? []).join(" / ") || "no labels say where it is in the network"),
    node.problem ? make("p", { class: "problem" }, node.problem) : "",
    ...(node.strays ?? []).map((one) => make("p", { class: "problem" }, `${one.container} is assigned ${one.devices}, which the node does not publish`)),
    (node.cards ?? []).length ? table(["Card", "Tiles", "Millicores free", "Memory free", "Shares free", "Holders"], node.cards.map(cardRow)) : "",
    node.more_cards ? make("p", { class: "facts" }, `and ${plural(node.more_cards, "card")} more`) : "",
    ...(node.amounts ?? []).map(drawAmount),
    (node.pods ?? []).length ? make("h3", {}, "Pods that ask for accelerators") : "",
    (node.pods ?? []).length ? table(["Pod", "Gang", "Asks for"], node.pods.map((pod) => [pod.name, pod.gang ?? "", asksOf(pod.asks)])) : "",
    node.more_pods ? make("p", { class: "facts" }, `and ${plural(node.more_pods, "pod")} more`) : "",
    !(node.cards ?? []).length && !(node.amounts ?? []).length && !node.problem ? make("p", { class: "facts" }, "It offers no accelerators.") : "",
  ].filter((one) => one !== "");
}

function table(heads, rows) {
  return make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((one) => make("th", { scope: "col" }, one)))),
    make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell, column) => make("td", { data: { head: heads[column] } }, ...[cell].flat()))))));
}

function cardRow(card) {
  const memory = card.memory_bytes == null || card.memory_free_bytes == null ? "not known" : `${gib(card.memory_free_bytes)} of ${gib(card.memory_bytes)} GiB`;
  const facts = [card.model, card.pci ?? card.id, card.numa_node == null ? "" : `NUMA ${card.numa_node}`].filter(Boolean).join(" · ");
  return [
    [make("b", {}, card.card || card.id), make("div", { class: "facts" }, card.resource), make("div", { class: "facts" }, facts)],
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
    card.ill ? make("div", { class: "problem" }, `ill: ${card.ill}`) : "",
    card.is_closed ? make("div", { class: "problem" }, "out of service") : "",
    ...(card.holders ?? []).map((one) => make("div", {}, make("b", { class: "which" }, (one.tiles ?? []).length ? `tile ${one.tiles.join(", ")}` : "all"), " ", make("bdi", {}, one.name), one.is_lingering ? " (deleted by force)" : "")),
    card.more_holders ? make("div", {}, `and ${card.more_holders} more`) : "",
    card.unassigned ? make("div", {}, `${plural(card.unassigned, "container")} without an assignment`) : "",
  ].filter((one) => one !== "");
  return lines.length ? lines : [make("span", { class: "facts" }, "nobody")];
}
