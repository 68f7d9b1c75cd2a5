// Who waits and why, plans under way, tasks and slices: a row each.

import { age, amount, byId, make, plural } from "./dom.js";
import { rowText } from "./model.js";

const MOST_ROWS = 100;

export class Lists {
  constructor(picture, find) {
    this.picture = picture;
    this.find = find;
    this.query = "";
  }

  draw(sections) {
    for (const section of sections) {
      if (section in DRAWN) this.drawSection(section, DRAWN[section]);
    }
  }

  drawSection(section, { sort, row, none, kind }) {
    const place = byId(section);
    const knows = !kind || (this.picture.about.get("cluster")?.kinds ?? []).includes(kind);
    const rows = [...this.picture[section].values()].filter((one) => !this.query || rowText(one).includes(this.query));
    place.hidden = !knows && !rows.length;
    rows.sort(sort);
    place.querySelector("b").textContent = rows.length ? rows.length.toLocaleString("en") : "";
    const shown = rows.slice(0, MOST_ROWS).map((one) => row(one, (text) => this.find(text)));
    if (!rows.length) shown.push(make("p", { class: "none" }, this.query ? "None of them is found." : none));
    if (rows.length > MOST_ROWS) shown.push(make("p", { class: "none" }, `${plural(rows.length - MOST_ROWS, "row")} more: find them by name.`));
    place.querySelector(".rows").replaceChildren(...shown);
  }
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

function head(row, find, ...rest) {
  const name = make("button", { type: "button", class: "link", title: "Find it in the map", on: { click: () => find(row.name) } }, make("bdi", {}, row.name));
  return make("div", { class: "first" }, name, ...rest);
}

const line = (...parts) => {
  const said = parts.filter(Boolean).join(" · ");
  return said ? make("div", { class: "facts" }, said) : "";
};
const sentence = (text, kind = "") => (text ? make("p", { class: `why ${kind}` }, text) : "");
const article = (row, ...children) => make("article", { data: { name: row.name } }, ...children);

export function asksOf(asks) {
  return (asks ?? []).map((one) => `${one.resource.replace(/^gpu\.intel\.com\//, "")} × ${amount(one.resource, one.taken ?? 0)}`).join(", ");
}

function waitingRow(row, find) {
  const isOurs = row.is_ours ?? true;
  const size = row.size && row.size !== row.pods ? ` of ${row.size}` : "";
  const mark = row.fits ? make("span", { class: "badge good" }, "there is room") : "";
  const priority = row.priority ? `priority ${row.priority}` : "";
  const whom = isOurs ? "" : "not accelet's to place";
  return article(row,
    head(row, find, mark, make("span", { class: "age" }, age(row.since_s ?? 0))),
    line(row.kind === "pod" ? "" : row.kind, `${row.pods}${size} pod${row.pods === 1 && !size ? "" : "s"}`, asksOf(row.asks), priority, whom),
    sentence(row.fits ? `fits now ${row.reason.startsWith("on ") ? row.reason : `as ${row.reason}`}; the scheduler has not placed it yet` : row.reason));
}

function planRow(row, find) {
  const nodes = [...new Set((row.seats ?? []).map((seat) => seat.node))];
  const named = nodes.slice(0, 6).join(", ");
  const more = nodes.length > 6 || row.more_seats ? " …" : "";
  const distance = row.distance ?? 0;
  const proof = distance <= (row.lower_bound ?? 0) ? "the least possible" : `at most ${(distance - (row.lower_bound ?? 0)).toLocaleString("en")} too far`;
  return article(row,
    head(row, find, make("span", { class: "badge wait" }, `${row.bound ?? 0} of ${row.pods} bound`)),
    row.pods > 1 ? line(row.kind, `distance ${distance.toLocaleString("en")}, ${proof}`) : "",
    sentence(`${named}${more}`));
}

function taskRow(row, find) {
  const attempt = (row.attempt ?? 0) > 1 ? `attempt ${row.attempt}` : "";
  return article(row,
    head(row, find, phase(row.phase), make("span", { class: "age" }, `${row.ready ?? 0}/${row.replicas ?? 1} ready`)),
    line(row.cards, row.where, attempt, row.is_deleted ? "being deleted" : ""),
    sentence(row.why), row.move ? sentence(`move ${row.move}`) : "", row.last_end ? sentence(`last end: ${row.last_end}`, "dim") : "");
}

function sliceRow(row, find) {
  return article(row,
    head(row, find, phase(row.phase), make("span", { class: "age" }, row.hosts ? `${row.hosts} hosts` : "")),
    line(`${row.accelerator} ${row.topology}`, row.tier, row.zone, row.pool, row.owner ? `for ${row.owner}` : "", row.is_deleted ? "being deleted" : ""),
    sentence(row.why));
}
