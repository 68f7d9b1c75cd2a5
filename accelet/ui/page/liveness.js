// How old what is shown is: by what was last heard from the API server, not by whether the page is connected.

import { byId, make } from "./dom.js";

// Seconds without a word. The API server is asked every 5; a resource in which nothing changes may be quiet for 130.
const LIMITS = { api: { wait: 20, bad: 60 }, resource: { wait: 150, bad: 300 } };

const seconds = (age) => (age < 100 ? `${Math.round(age)} s` : `${Math.round(age / 60)} min`);
const kindOf = (age, limits) => (age > limits.bad ? "bad" : age > limits.wait ? "wait" : "live");

// What to say of ages in seconds: `live`, `wait` or `bad`, a sentence, and the age that it is about.
export function judge(api, resources) {
  const ofApi = kindOf(api, LIMITS.api);
  if (ofApi !== "live") return [ofApi, "the API server is silent: this is how it was", api];
  const old = Object.entries(resources).filter(([, age]) => age > LIMITS.resource.wait);
  if (!old.length) return ["live", "live", api];
  const oldest = Math.max(...old.map(([, age]) => age));
  const named = old.slice(0, 3).map(([name]) => name).join(", ") + (old.length > 3 ? " …" : "");
  return [kindOf(oldest, LIMITS.resource), `nothing is heard of ${named}`, oldest];
}

export class Liveness {
  constructor(isWhole) {
    this.isWhole = isWhole;
    this.told = { api_s: 0, resources_s: {} };
    this.at = Date.now();
    this.trouble = undefined;
    setInterval(() => this.draw(), 1000);
  }

  // Takes over what the server says of itself; from then on ages grow here, whether or not it says more.
  hear(message) {
    this.told = message;
    this.at = Date.now();
    this.trouble = undefined;
    this.draw();
  }

  // The connection to `accelet ui` itself is broken.
  lose(kind, text) {
    this.trouble = [kind, text];
    this.draw();
  }

  draw() {
    const passed = Math.max(0, (Date.now() - this.at) / 1000);
    const resources = Object.fromEntries(Object.entries(this.told.resources_s).map(([name, age]) => [name, age + passed]));
    const [kind, text, age] = judge(this.told.api_s + passed, resources);
    const reads = !this.isWhole() && kind === "live";
    const [shown, said] = reads ? ["wait", "reading the cluster …"] : [kind, text];
    const state = byId("state");
    state.className = kind !== "bad" && this.trouble ? this.trouble[0] : shown;
    const sentence = this.trouble ? this.trouble[1] : said;
    // It is read aloud when it changes; the seconds beside it are not.
    if (state.textContent !== sentence) state.textContent = sentence;
    byId("heard").textContent = `heard ${seconds(age)} ago`;
    const lines = Object.entries(resources).sort(([, a], [, b]) => b - a).map(([name, age]) => `${name}: ${seconds(age)}`);
    state.title = byId("heard").title = ["Last heard from the API server, by resource:", ...lines].join("\n");
  }
}

// The names of the cluster, beside the product's and in the title.
export function drawName(about) {
  const names = [about.context, about.cluster === about.context ? "" : about.cluster].filter(Boolean);
  const name = names.length ? names.join(" · ") : about.server ?? "";
  document.title = name ? `${name} - accelet` : "accelet";
  byId("cluster").replaceChildren(make("bdi", {}, name));
  byId("cluster").title = about.server ?? "";
}
