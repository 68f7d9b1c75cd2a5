// Who waits and why, plans under way, tasks and slices: a row each.

import { ageOf, amount, arrange, byId, make, plural, setText } from "./dom.js";
import { rowText } from "./model.js";

const MOST_ROWS = 100;

export class Lists {
  constructor(picture, find) {
    this.picture = picture;
    this.find = find;
    this.query = "";
    this.drawn = new Map(); // of each section, the rows by their keys
  }

  draw(sections) {
    for (const section of sections) {
      if (section in DRAWN) this.drawSection(section, DRAWN[section]);
    }
  }

  drawSection(section, { sort, row, none, kind }) {
    const place = byId(section);
    const knows = !kind || (this.picture.about.get("cluster")?.kinds ?? []).includes(kind);
    const rows = [...this.picture[section]].filter(([, one]) => !this.query || rowText(one).includes(this.query));
    place.hidden = !knows && !rows.length;
    rows.sort(([, a], [, b]) => sort(a, b));
    setText(place.querySelector("b"), rows.length ? rows.length.toLocaleString("en") : "");
    const shown = this.drawRows(section, rows.slice(0, MOST_ROWS), row);
    if (!rows.length) shown.push(make("p", { class: "none" }, this.query ? "None of them is found." : none));
    if (rows.length > MOST_ROWS) shown.push(make("p", { class: "none" }, `${plural(rows.length - MOST_ROWS, "row")} more: find them by name.`));
    arrange(place.querySelector(".rows"), shown);
  }

  // An element for each row. One that is there is filled anew where its row is another one, so that it keeps the focus.
  drawRows(section, rows, draw) {
    const before = this.drawn.get(section) ?? new Map();
    const after = new Map();
    for (const [key, row] of rows) {
      const known = before.get(key) ?? { element: make("article", { data: { name: row.name } }) };
      if (known.row !== row) fill(known.element, draw(row), () => this.find(row.name));
      known.row = row;
      after.set(key, known);
    }
    this.drawn.set(section, after);
    return [...after.values()].map((known) => known.element);
  }
}

function fill(element, parts, find) {
  const name = element.querySelector(".link") ?? make("button", { type: "button", class: "link", title: "Find it in the map" });
  name.onclick = find;
  const [{ name: text, beside }, ...below] = parts;
  name.replaceChildren(make("bdi", {}, text));
  const first = element.querySelector(".first") ?? make("div", { class: "first" });
  arrange(first, [name, ...beside.filter(Boolean)]);
  arrange(element, [first, ...below.filter(Boolean)]);
}

const byName = (a, b) => a.name.localeCompare(b.name, "en", { numeric: true });

const DRAWN = {
  waiting: {
    sort: (a, b) => (b.priority ?? 0) - (a.priority ?? 0) || (a.since_s ?? 0) - (b.since_s ?? 0) || byName(a, b),
    row: waitingRow,
    none: "Nobody waits.",
  },
  plans: { sort: byName, row: planRow, none: "No plan is being carried out." },
  tasks: { sort: (a, b) => rankOf(a) - rankOf(b) || byName(a, b), row: taskRow, none: "There are no tasks.", kind: "GPUTask" },
  slices: { sort: byName, row: sliceRow, none: "No slice is asked for.", kind: "SliceRequest" },
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
  const mark = row.fits ? make("span", { class: "badge good" }, "there is room") : "";
  const priority = row.priority ? `priority ${row.priority}` : "";
  const whom = isOurs ? "" : "not accelet's to place";
  return [
    head(row, mark, ageOf(row.since_s ?? 0)),
    line(row.kind === "pod" ? "" : row.kind, `${row.pods}${size} pod${row.pods === 1 && !size ? "" : "s"}`, asksOf(row.asks), priority, whom),
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
    line(row.cards, row.where, attempt, row.is_deleted ? "being deleted" : ""),
    sentence(row.why), row.move ? sentence(`move ${row.move}`) : "", row.last_end ? sentence(`last end: ${row.last_end}`, "dim") : ""];
}

function sliceRow(row) {
  return [
    head(row, phase(row.phase), make("span", { class: "age" }, row.hosts ? `${row.hosts} hosts` : "")),
    line(`${row.accelerator} ${row.topology}`, row.tier, row.zone, row.pool, row.owner ? `for ${row.owner}` : "", row.is_deleted ? "being deleted" : ""),
    sentence(row.why)];
}
