// Follows the picture and draws what has changed; keys, filters and the search.

import { byId, growAges, keepFocus, make, setText } from "./dom.js";
import { Details } from "./details.js";
import { Lists } from "./lists.js";
import { Liveness, drawName } from "./liveness.js";
import { NodeMap, drawBar } from "./map.js";
import { FILTERS, SORTS, STATES, apply, changesOrder, emptyPicture, factsOf } from "./model.js";
import { View, namespaceOf, offer } from "./view.js";

const picture = emptyPicture();
const view = new View(() => {
  drawSoon(Object.keys(picture));
  details.draw();
});
const details = new Details(picture, view);
const map = new NodeMap(picture, view);
const lists = new Lists(picture, view);
const search = byId("search");
const dirty = new Set();

const find = (text) => view.set({ find: text });

let isDue = false;
function drawSoon(sections) {
  for (const section of sections) dirty.add(section);
  if (isDue) return;
  isDue = true;
  // Not only when the page is looked at: a hidden page is to be up to date when it is shown.
  setTimeout(() => {
    isDue = false;
    keepFocus(draw);
  }, 0);
}

function draw() {
  const started = performance.now();
  const sections = new Set(dirty);
  dirty.clear();
  if (sections.has("about")) drawAbout(picture.about.get("cluster") ?? {});
  if (sections.has("nodes") || sections.has("about")) {
    drawFilters(map.draw());
  }
  drawChoices();
  details.draw();
  lists.draw(sections.has("about") ? ["waiting", "plans", "tasks", "slices"] : sections);
  document.documentElement.dataset.drawn = String(Math.round(performance.now() - started));
  document.documentElement.dataset.draws = String(Number(document.documentElement.dataset.draws ?? 0) + 1);
}

function drawAbout(about) {
  drawName(about);
  byId("totals").replaceChildren(...(about.totals ?? []).map(drawTotal));
  const notes = about.notes ?? [];
  byId("notes").hidden = !notes.length;
  byId("notes").replaceChildren(...notes.map((note) => make("p", {}, note)));
  document.documentElement.dataset.whole = String(about.is_whole ?? false);
}

function drawTotal(total) {
  const hasCards = Boolean(total.cards);
  const [free, all] = hasCards ? [total.tiles_free ?? 0, total.tiles ?? 0] : [(total.offered ?? 0) - (total.taken ?? 0), total.offered ?? 0];
  const rest = hasCards ? `${(total.cards_free ?? 0).toLocaleString("en")} of ${total.cards.toLocaleString("en")} cards wholly free` : "";
  const states = Object.fromEntries(Object.keys(STATES).map((state) => [state, total[`tiles_${state}`] ?? 0]));
  const bar = drawBar(hasCards ? states : { free: Math.max(0, free), held: Math.min(total.taken ?? 0, all) });
  return make("div", { class: "total", data: { resource: total.resource } },
    make("span", { class: "resource" }, total.resource),
    make("span", { class: "big" }, make("b", {}, free.toLocaleString("en")), ` of ${all.toLocaleString("en")} ${hasCards ? "tiles " : ""}free`),
    bar,
    make("span", { class: "facts" }, rest));
}

const filters = new Map(Object.entries(FILTERS).map(([key, filter]) => [key,
  make("button", { type: "button", data: { filter: key }, on: { click: () => choose(key) } }, filter.name, " ", make("b"))]));
byId("filters").replaceChildren(...filters.values());

function drawFilters(counts) {
  for (const [key, button] of filters) {
    button.setAttribute("aria-pressed", String(view.show === key));
    setText(button.querySelector("b"), counts[key].toLocaleString("en"));
  }
}

const choose = (filter) => view.set({ show: filter });

byId("sort").replaceChildren(...Object.entries(SORTS).map(([key, words]) => new Option(words, key)));
for (const name of ["namespace", "queue", "sort"]) byId(name).addEventListener("change", (event) => view.set({ [name]: event.target.value }));

// What can be chosen, and what is.
function drawChoices() {
  const namespaces = new Set();
  const queues = new Set();
  for (const [name, node] of picture.nodes) {
    const facts = factsOf(name, node);
    for (const one of facts.namespaces) namespaces.add(one);
    for (const one of facts.queues) queues.add(one);
  }
  for (const section of [picture.waiting, picture.plans, picture.tasks, picture.slices]) {
    for (const row of section.values()) {
      namespaces.add(namespaceOf(row.name));
      if (row.queue) queues.add(row.queue);
    }
  }
  offer(byId("namespace"), "all namespaces", namespaces, view.namespace);
  offer(byId("queue"), "all queues", queues, view.queue);
  byId("sort").value = view.sort;
  if (search.value !== view.find) search.value = view.find;
}

function openAll(isOpen) {
  map.setAll(isOpen);
  drawSoon(["nodes"]);
}

byId("legend").replaceChildren(...Object.entries(STATES).map(([state, words]) =>
  make("li", {}, make("span", { class: `tile ${state}`, "aria-hidden": "true" }), words)));

// Light and dark: as the machine says, until somebody chooses.
const theme = localStorage.getItem("theme");
if (theme) document.documentElement.dataset.theme = theme;
function turn() {
  const isDark = document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
}

byId("theme").addEventListener("click", turn);
byId("help").addEventListener("click", () => byId("keys").showModal());
byId("expand").addEventListener("click", () => openAll(true));
byId("collapse").addEventListener("click", () => openAll(false));
search.addEventListener("input", () => find(search.value));

const KEYS = {
  "/": () => search.focus(),
  "?": () => byId("keys").showModal(),
  e: () => openAll(true),
  c: () => openAll(false),
  t: turn,
  f: () => {
    const keys = Object.keys(FILTERS);
    choose(keys[(keys.indexOf(view.show) + 1) % keys.length]);
  },
  Escape: () => search.value && find(""),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const isTyping = event.target === search;
  if (event.target.matches("select")) return;
  if (isTyping && event.key === "Escape") {
    find("");
    map.current?.focus();
  } else if (!isTyping && Object.hasOwn(KEYS, event.key)) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

view.read();
const liveness = new Liveness(() => picture.about.get("cluster")?.is_whole);
const stream = new EventSource("events");
stream.addEventListener("picture", (event) => {
  for (const section of Object.values(picture)) section.clear();
  map.reorder();
  take(event);
  drawSoon(Object.keys(picture));
});
stream.addEventListener("change", take);
stream.addEventListener("error", () => {
  if (stream.readyState === EventSource.CLOSED) liveness.lose("bad", "not served any more: run accelet ui again");
  else liveness.lose("wait", "the connection is gone; trying again …");
});
stream.addEventListener("heard", (event) => liveness.hear(JSON.parse(event.data)));

function take(event) {
  const message = JSON.parse(event.data);
  if (changesOrder(picture, message)) map.reorder();
  const changed = apply(picture, message);
  drawSoon(changed);
  document.documentElement.dataset.version = String(message.version);
  liveness.draw();
}

// Ages grow although nothing changes.
setInterval(growAges, 10_000);
