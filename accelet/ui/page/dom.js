// Elements out of values. Text only ever becomes text: nothing here, or anywhere, parses markup.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "data") Object.assign(element.dataset, value);
    else if (name === "on") for (const [event, call] of Object.entries(value)) element.addEventListener(event, call);
    else if (name === "class") element.className = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== ""));
  return element;
}

export const byId = (id) => document.getElementById(id);

export function plural(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function gib(bytes) {
  const amount = bytes / 2 ** 30;
  return Math.abs(amount) < 100 ? `${Number(amount.toPrecision(3))}` : amount.toFixed(0);
}

export function amount(resource, count) {
  return resource.endsWith("/memory.max") ? `${gib(count)} GiB` : count.toLocaleString("en");
}

export function age(sinceS) {
  const s = Math.max(0, Date.now() / 1000 - sinceS);
  if (!sinceS) return "";
  if (s < 120) return `${Math.floor(s)} s`;
  if (s < 7200) return `${Math.floor(s / 60)} min`;
  if (s < 172800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

// The time since then, in an element that `growAges` keeps up to date.
export const ageOf = (sinceS) => make("span", { class: "age", data: { since: sinceS || "" } }, age(sinceS));

export function growAges() {
  for (const one of document.querySelectorAll("[data-since]")) {
    const text = age(Number(one.dataset.since));
    if (one.textContent !== text) one.textContent = text;
  }
}

// Makes these the children of an element. What stays is not taken out: it keeps the focus and where it was scrolled to.
export function arrange(parent, wanted) {
  const staying = new Set(wanted);
  for (const child of [...parent.childNodes]) if (!staying.has(child)) child.remove();
  let here = parent.firstChild;
  for (const child of wanted) {
    if (child === here) here = here.nextSibling;
    else if (child.parentNode === parent && parent.moveBefore) parent.moveBefore(child, here);
    else parent.insertBefore(child, here);
  }
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Draws. What had the focus keeps it; if that is gone, what was beside it or around it gets the focus.
export function keepFocus(draw) {
  const held = document.activeElement;
  const home = held?.closest("[data-home]");
  if (!home) return draw();
  const heirs = [held, ...listHeirs(held, home)];
  draw();
  if (document.activeElement !== held) (heirs.find((one) => one.isConnected) ?? home).focus({ preventScroll: true });
}

const FOCUSED = "button, summary";

function listHeirs(held, home) {
  const around = [];
  for (let one = held.parentElement; one && one !== home; one = one.parentElement) {
    if (one.matches("details")) around.push(one.querySelector("summary"));
  }
  const group = held.closest("ul, article") ?? home;
  return [...besides(held, group), ...around.filter((one) => one !== held), ...besides(held, home)];
}

function besides(held, group) {
  const all = [...group.querySelectorAll(FOCUSED)];
  const at = all.indexOf(held);
  return [...all.slice(at + 1), ...all.slice(0, at).reverse()];
}
