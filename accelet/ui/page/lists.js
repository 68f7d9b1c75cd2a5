// Who waits and why, plans under way, tasks and slices: a row each.

import { ageOf, amount, arrange, byId, make, plural, setText } from "./dom.js";

const MOST_ROWS = 100;

export class Lists {
  constructor(picture, view) {
    this.picture = picture;
    this.view = view;
    this.texts = new WeakMap(); // what people see of each row, in lower case
    this.drawn = new Map(); // of each section, the rows by their keys
  }

  draw(sections) {
    for (const section of sections) {
      if (section in DRAWN) this.drawSection(section, DRAWN[section]);
    }
  }

  drawSection(section, { sort, row, none, kind, groups }) {
    const place = byId(section);
    const knows = !kind || (this.picture.about.get("cluster")?.kinds ?? []).includes(kind);
    const rows = [...this.picture[section]].filter(([, one]) => this.view.takesRow(one) && this.has(one, row));
    place.hidden = !knows && !rows.length;
    rows.sort(([, a], [, b]) => sort(a, b));
    setText(place.querySelector("b"), rows.length ? rows.length.toLocaleString("en") : "");
    const lines = groups ? group(rows) : rows.map((one) => [one]);
    const shown = this.drawRows(section, lines.slice(0, MOST_ROWS), row);
    const isNarrowed = this.view.query || this.view.namespace || this.view.queue;
    if (!rows.length) shown.push(make("p", { class: "none" }, isNarrowed ? "None of them is found." : none));
    if (lines.length > MOST_ROWS) shown.push(make("p", { class: "none" }, `${plural(lines.length - MOST_ROWS, "row")} more: find them by name.`));
    arrange(place.querySelector(".rows"), shown);
  }

  // Whether the search finds a row by the words that people see of it.
  has(row, draw) {
    const { query } = this.view;
    if (!query) return true;
    if (!this.texts.has(row)) this.texts.set(row, textOf(row, draw(row)));
    return this.texts.get(row).includes(query);
  }

  // An element for each line: of one row, or of several that wait for the same reason. One that is there is filled
  // anew where its rows are others, so that it keeps the focus.
  drawRows(section, lines, draw) {
    const before = this.drawn.get(section) ?? new Map();
    const after = new Map();
    for (const rows of lines) {
      const [[first, row]] = rows;
      const key = rows.length > 1 ? `same:${row.reason}` : first;
      const known = before.get(key) ?? { element: make("article"), rows: [] };
      const isSame = known.rows.length === rows.length && rows.every(([, one], at) => one === known.rows[at]);
      const open = (wanted) => this.view.set({ open: `${section}:${wanted}` });
      if (!isSame) (rows.length > 1 ? fillGroup : fill)(known.element, rows, draw, open);
      known.rows = rows.map(([, one]) => one);
      after.set(key, known);
    }
    this.drawn.set(section, after);
    return [...after.values()].map((known) => known.element);
  }
}

// Rows that wait for the same reason together, where the first of them is.
function group(rows) {
  const lines = new Map();
  for (const one of rows) {
    const key = JSON.stringify([one[1].reason, one[1].fits ? one[0] : ""]);
    if (!lines.has(key)) lines.set(key, []);
    lines.get(key).push(one);
  }
  return [...lines.values()];
}

function textOf(row, [{ name, beside }, ...below]) {
  const seen = [...beside, ...below].filter(Boolean).map((one) => one.textContent);
  return [name, ...seen, ...(row.names ?? []), row.queue].filter(Boolean).join("\n").toLowerCase();
}

const opener = (text, open) => make("button", { type: "button", class: "link", on: { click: open } }, make("bdi", {}, text));

function fill(element, [[key, row]], draw, open) {
  const [{ name, beside }, ...below] = draw(row);
  const link = element.querySelector(".link") ?? opener("", () => open(key));
  element.dataset.name = row.name;
  link.replaceChildren(make("bdi", {}, name));
  const first = element.querySelector(".first") ?? make("div", { class: "first" });
  arrange(first, [link, ...beside.filter(Boolean)]);
  arrange(element, [first, ...below.filter(Boolean)]);
}

function fillGroup(element, rows, draw, open) {
  const [, row] = rows[0];
  const [, , reason] = draw(row);
  const details = element.querySelector("details") ?? make("details", {}, make("summary"), make("ul", { class: "names" }));
  const [summary, list] = details.children;
  summary.replaceChildren(make("b", {}, `${rows.length.toLocaleString("en")} for the same reason`), ageOf(row.since_s ?? 0));
  const held = document.activeElement?.dataset?.key;
  list.replaceChildren(...rows.slice(0, MOST_ROWS).map(([key, one]) => {
    const link = opener(one.name, () => open(key));
    link.dataset.key = key;
    return make("li", {}, link, " ", make("span", { class: "facts" }, asksOf(one.asks)));
  }));
  if (rows.length > MOST_ROWS) list.append(make("li", { class: "facts" }, `and ${(rows.length - MOST_ROWS).toLocaleString("en")} more`));
  arrange(element, [details, reason]);
  if (held) [...list.querySelectorAll(".link")].find((one) => one.dataset.key === held)?.focus();
}

const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });

export const DRAWN = {
  waiting: {
    sort: (a, b) => (b.priority ?? 0) - (a.priority ?? 0) || (a.since_s ?? 0) - (b.since_s ?? 0) || byName(a, b),
    row: waitingRow,
    none: "No pod or gang is pending.",
    groups: true,
  },
  plans: { sort: byName, row: planRow, none: "No pod is being bound." },
  tasks: { sort: (a, b) => rankOf(a) - rankOf(b) || byName(a, b), row: taskRow, none: "There are no GPUTasks.", kind: "GPUTask" },
  slices: { sort: byName, row: sliceRow, none: "There are no SliceRequests.", kind: "SliceRequest" },
};

const ORDER = ["Failed", "Restarting", "Waiting", "Queued", "Starting", "Pending", "Running", "Suspended", "Completed"];
const rankOf = (task) => ORDER.indexOf(task.phase);
const GOOD = new Set(["Running", "Ready", "Completed", "Joined"]);
const BAD = new Set(["Failed", "Refused", "Failing", "Restarting", "Repairing", "BackingOff"]);

function phase(text) {
  return make("span", { class: `badge ${GOOD.has(text) ? "good" : BAD.has(text) ? "bad" : "wait"}` }, text);
}

const head = (row, ...beside) => ({ name: row.name, beside });

const line = (...parts) => {
  const said = parts.filter(Boolean).join(" · ");
  return said ? make("div", { class: "facts" }, said) : "";
};
const sentence = (text, kind = "") => (text ? make("p", { class: `why ${kind}` }, text) : "");

export function asksOf(asks) {
  return (asks ?? []).map((one) => `${one.resource.replace(/^gpu\.intel\.com\//, "")} × ${amount(one.resource, one.taken ?? 0)}`).join(", ");
}

function waitingRow(row) {
  const isOurs = row.is_ours ?? true;
  const size = row.size && row.size !== row.pods ? ` of ${row.size}` : "";
  const mark = row.fits ? make("span", { class: "badge good" }, "fits") : "";
  const priority = row.priority ? `priority ${row.priority}` : "";
  const whom = isOurs ? "" : "not scheduled by accelet";
  return [
    head(row, mark, ageOf(row.since_s ?? 0)),
    line(row.kind === "pod" ? "" : row.kind, `${row.pods}${size} pod${row.pods === 1 && !size ? "" : "s"}`, asksOf(row.asks), priority, row.queue ? `queue ${row.queue}` : "", whom),
    sentence(row.fits ? `fits now ${row.reason.startsWith("on ") ? row.reason : `as ${row.reason}`}; the scheduler has not placed it yet` : row.reason)];
}

function planRow(row) {
  const nodes = [...new Set((row.seats ?? []).map((seat) => seat.node))];
  const named = nodes.slice(0, 6).join(", ");
  const more = nodes.length > 6 || row.more_seats ? " …" : "";
  const distance = row.distance ?? 0;
  const proof = distance <= (row.lower_bound ?? 0) ? "the least possible" : `at most ${(distance - (row.lower_bound ?? 0)).toLocaleString("en")} too far`;
  return [
    head(row, make("span", { class: "badge wait" }, `${row.bound ?? 0} of ${row.pods} bound`)),
    row.pods > 1 ? line(row.kind, `distance ${distance.toLocaleString("en")}, ${proof}`) : "",
    sentence(`${named}${more}`)];
}

function taskRow(row) {
  const attempt = (row.attempt ?? 0) > 1 ? `attempt ${row.attempt}` : "";
  return [
    head(row, phase(row.phase), make("span", { class: "age" }, `${row.ready ?? 0}/${row.replicas ?? 1} ready`)),
    line(row.cards, row.where, attempt, row.queue ? `queue ${row.queue}` : "", row.is_deleted ? "terminating" : ""),
    sentence(row.why), row.move ? sentence(`move ${row.move}`) : "", row.last_end ? sentence(`last end: ${row.last_end}`, "dim") : ""];
}

function sliceRow(row) {
  return [
    head(row, phase(row.phase), make("span", { class: "age" }, row.hosts ? `${row.hosts} hosts` : "")),
    line(`${row.accelerator} ${row.topology}`, row.tier, row.zone, row.pool, row.owner ? `for ${row.owner}` : "", row.is_deleted ? "terminating" : ""),
    sentence(row.why)];
}
