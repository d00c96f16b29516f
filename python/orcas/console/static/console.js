// What every page of the console does in the browser: the theme, times in the viewer's zone, keys, and confirmations.
// Texts become text nodes, never HTML: Trusted Types would refuse it.
"use strict";

const root = document.documentElement;

function stored(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

function store(name, value) {
  try { localStorage.setItem(name, value); } catch { /* Private windows may refuse. */ }
}

const theme = stored("orcas-theme");
if (theme === "dark" || theme === "light") root.dataset.theme = theme;

function switchTheme() {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  store("orcas-theme", root.dataset.theme);
}

// Times: those of the viewer's zone, which the title names, with UTC. Other scripts call this for rows that they add.
function showTimes(within) {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  for (const time of within.querySelectorAll("time[datetime]:not([data-shown])")) {
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.getTime())) continue;
    time.dataset.shown = "yes";
    time.title = `${zone}; ${time.textContent}`;
    if (zone !== "UTC") time.textContent = moment.toLocaleString();
  }
}

// An element with these properties and this content.
function made(name, properties = {}, ...content) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...content);
  return element;
}

// A page of the console as a document, which runs nothing; `here`: it is this one, and no page to sign in.
function loaded(url, headers = {}) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.responseType = "document";
    request.timeout = 30000;
    request.onload = () => resolve({
      page: request.responseXML, status: request.status, here: new URL(request.responseURL).pathname === location.pathname,
    });
    request.onerror = request.ontimeout = reject;
    request.send();
  });
}

// The element of a loaded page in place of the one with the same id here: as it is, no HTML from text.
function take(fresh, id) {
  const [former, next] = [document.getElementById(id), fresh.getElementById(id)];
  if (!former || !next) return null;
  const taken = document.importNode(next, true);
  former.replaceWith(taken);
  showTimes(taken);
  return taken;
}

function rows() {
  return [...document.querySelectorAll("main tbody tr")].filter((row) => row.querySelector("a, input, button, summary"));
}

function moveRow(step) {
  const all = rows();
  if (!all.length) return;
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step))];
  (next.querySelector("a") || next.querySelector("input, button, summary")).focus();
}

// The field by which a page searches, jumps or filters. Returns whether there is one.
function focusSearch() {
  const first = "form[method=get] :is(input:not([type]), input[type=text], input[type=search])";
  const field = document.querySelector("main [data-search]") || document.querySelector(`main ${first}`);
  field?.focus();
  field?.select();
  return Boolean(field);
}

let before = "";

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
  if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
  const key = event.key;
  const pair = before + key;
  before = key === "g" ? "g" : "";
  const row = document.activeElement?.closest("main tbody tr");
  const go = { gb: "/" , gh: "/health", gu: "/users" }[pair];
  if (go) location.assign(document.body.dataset.base + go);
  else if (key === "?") document.getElementById("keys")?.showModal();
  else if (key === "t") switchTheme();
  else if (key === "j") moveRow(1);
  else if (key === "k") moveRow(-1);
  else if (key === "u") document.querySelector("a[data-up]")?.click();
  else if (key === "x" && row) row.querySelector("input[type=checkbox]")?.click();
  else if (key !== "/" || !focusSearch()) return;
  event.preventDefault();
}

function confirmations() {
  for (const input of document.querySelectorAll("input[data-confirm]")) {
    const button = input.form.querySelector("button");
    const check = () => { button.disabled = input.value !== input.dataset.confirm; };
    input.addEventListener("input", check);
    check();
  }
}

// A copy button puts the text of the element that it names on the clipboard. Without TLS, browsers have none for scripts
// but that of this machine: what is selected is copied by the older way, and stays selected where that fails, too.
async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const former = button.dataset.label ?? (button.dataset.label = button.textContent);
  let copied = false;
  try {
    await navigator.clipboard.writeText(source.textContent);
    copied = true;
  } catch {
    getSelection().selectAllChildren(source);
    copied = document.execCommand("copy");
  }
  button.textContent = copied ? "Copied" : "Selected: press Ctrl+C";
  setTimeout(() => { button.textContent = former; }, 2000);
}

document.addEventListener("DOMContentLoaded", () => {
  showTimes(document);
  confirmations();
  document.getElementById("theme")?.addEventListener("click", switchTheme);
  document.getElementById("keys-button")?.addEventListener("click", () => document.getElementById("keys").showModal());
  const menu = document.getElementById("menu-button");
  menu?.addEventListener("click", () => {
    menu.setAttribute("aria-expanded", String(document.getElementById("nav").classList.toggle("open")));
  });
  document.addEventListener("change", ({ target }) => {
    for (const name of target.dataset.all?.split(" ") ?? []) {
      for (const box of document.querySelectorAll(`input[name="${name}"]`)) box.checked = target.checked;
    }
  });
  for (const link of document.querySelectorAll('main a[href^="#"]')) {
    link.addEventListener("click", () => { document.querySelector(link.hash).open = true; });
  }
  for (const button of document.querySelectorAll("button[data-copy]")) {
    button.addEventListener("click", () => copy(button));
  }
  // A field that is not valid is shown, whatever it is folded in.
  document.addEventListener("invalid", (event) => event.target.closest("details")?.setAttribute("open", ""), true);
  document.addEventListener("keydown", onKey);
});
