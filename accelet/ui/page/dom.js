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
