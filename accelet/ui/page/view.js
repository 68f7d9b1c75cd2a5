// What a person has chosen to see, kept in the fragment of the address: a reload, a bookmark and Back have it again.

import { FILTERS, SORTS } from "./model.js";

const EMPTY = { find: "", show: "all", namespace: "", queue: "", sort: "place", open: "" };
const MOST_LENGTH = 600;

export class View {
  constructor(changed) {
    Object.assign(this, EMPTY);
    this.changed = changed;
    addEventListener("popstate", () => this.read());
  }

  // Takes over what the address says. What it cannot mean is left out.
  read() {
    const said = new URLSearchParams(location.hash.slice(1));
    for (const [name, none] of Object.entries(EMPTY)) this[name] = (said.get(name) ?? none).slice(0, MOST_LENGTH);
    if (!Object.hasOwn(FILTERS, this.show)) this.show = EMPTY.show;
    if (!Object.hasOwn(SORTS, this.sort)) this.sort = EMPTY.sort;
    this.changed();
  }

  // Sets some of it. What is opened over the page is a step that Back takes back.
  set(chosen) {
    const isStep = Boolean(chosen.open) && chosen.open !== this.open;
    Object.assign(this, chosen);
    const said = new URLSearchParams(Object.entries(EMPTY).filter(([name, none]) => this[name] !== none).map(([name]) => [name, this[name]]));
    const address = `${location.pathname}${String(said) && `#${said}`}`;
    history[isStep ? "pushState" : "replaceState"](null, "", address);
    this.changed();
  }

  get query() {
    return this.find.trim().toLowerCase();
  }

  // Whether a row of a list is of the namespace and of the queue.
  takesRow(row) {
    return (!this.namespace || namespaceOf(row.name) === this.namespace) && (!this.queue || row.queue === this.queue);
  }

  // Whether a node has pods of the namespace, and of the queue.
  takesNode(facts) {
    if (this.query && !facts.has(this.query)) return false;
    return (!this.namespace || facts.namespaces.has(this.namespace)) && (!this.queue || facts.queues.has(this.queue));
  }
}

export const namespaceOf = (name) => name.slice(0, Math.max(0, name.indexOf("/")));

// The choices of a list; what is chosen stays one of them although nothing has it at present.
export function offer(select, everything, names, chosen) {
  const wanted = [...new Set([...names, ...(chosen ? [chosen] : [])])].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const signature = JSON.stringify(wanted);
  if (select.dataset.offers !== signature) {
    select.dataset.offers = signature;
    select.replaceChildren(new Option(everything, ""), ...wanted.map((name) => new Option(name, name)));
  }
  select.value = chosen;
  select.hidden = !wanted.length;
}
