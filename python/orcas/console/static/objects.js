// Lists of objects: how many are chosen, searches that go on by themselves, and what goes batch by batch with its progress.
"use strict";

// Rows up to which a search goes on by itself, and times a batch is sent before the page asks the person.
const FINDS_MAX = 1000;
const TRIES_MAX = 5;

function sizeOf(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = Math.min(units.length - 1, bytes ? Math.floor(Math.log2(bytes) / 10) : 0);
  return `${Number((bytes / 1024 ** power).toPrecision(3))} ${units[power]}`;
}

const counted = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

function countChosen() {
  const chosen = [...document.querySelectorAll("#chosen tbody input:checked")];
  const folders = chosen.filter((box) => box.name === "folder").length;
  const bytes = chosen.reduce((sum, box) => sum + Number(box.dataset.size || 0), 0);
  const parts = [folders && counted(folders, "folder"), chosen.length > folders && `${counted(chosen.length - folders, "object")}, ${sizeOf(bytes)}`];
  const state = document.getElementById("chosen-count");
  if (state) state.textContent = chosen.length ? `Chosen on this page: ${parts.filter(Boolean).join(", ")}` : "";
}

// Another part of this list; null if it is not there, or the session has ended.
async function part(url) {
  const { page, status, here } = await loaded(url);
  return here && status === 200 ? page : null;
}

async function searchOn() {
  for (let link; (link = document.querySelector("#next-page[data-goes-on]"));) {
    if (document.querySelectorAll("#chosen tbody tr").length >= FINDS_MAX) return;
    const fresh = await part(link.href);
    if (!fresh) return;
    const [body, more] = [document.querySelector("#chosen tbody"), fresh.querySelectorAll("#chosen tbody tr")];
    if (body) {
      const rows = [...more].map((row) => document.importNode(row, true));
      for (const row of rows) showTimes(row);
      body.append(...rows);
    } else if (more.length) take(fresh, "listing");
    take(fresh, "found");
    take(fresh, "pages");
  }
}

// After uploads: the list as it is now, unless something is chosen in it.
async function refreshList() {
  if (document.querySelector("#chosen tbody input:checked")) return;
  const fresh = await part(location.href).catch(() => null);
  if (fresh) for (const id of ["listing", "pages"]) take(fresh, id);
}

const pause = (seconds) => new Promise((resolve) => { setTimeout(resolve, seconds * 1000); });

// The answer to one batch. What was lost on the way is sent again; the server is told, because it may have done it.
async function batch(url, body, says) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const headers = { accept: "application/json" };
      const answer = await fetch(url, { method: "POST", headers, body, signal: AbortSignal.timeout(120000) });
      const isJson = answer.headers.get("content-type")?.includes("json");
      if (answer.ok && isJson) return await answer.json();
      if (answer.status < 500 || attempt >= TRIES_MAX) return { error: isJson ? (await answer.json()).error.message : await answer.text() };
    } catch {
      if (attempt >= TRIES_MAX) return { error: "The connection was lost." };
    }
    says("The connection was lost; trying again.");
    body.set("again", "yes");
    await pause(2 ** (attempt - 1));
  }
}

async function inBatches(form, button) {
  const url = button?.hasAttribute("formaction") ? button.formAction : form.action;
  const bar = made("progress", { ariaLabel: "Done" });
  if (Number(form.dataset.total)) bar.max = Number(form.dataset.total);
  const state = made("p", { role: "status" });
  form.append(bar, state);
  const body = new URLSearchParams(new FormData(form));
  const failed = [];
  button.disabled = true;
  for (;;) {
    const answer = await batch(url, body, (text) => { state.textContent = text; });
    if (answer.error) {
      // The same button goes on where it stopped.
      state.textContent = `${answer.error} So far: ${Number(body.get("done") || 0).toLocaleString("en")}.`;
      button.textContent = "Go on";
      button.disabled = false;
      await new Promise((resolve) => { button.addEventListener("click", (event) => { event.preventDefault(); resolve(); }, { once: true }); });
      button.disabled = true;
      continue;
    }
    failed.push(...answer.failed);
    state.textContent = `${answer.done.toLocaleString("en")} done.`;
    if (bar.max > 1) bar.value = answer.done;
    body.delete("again");
    body.set("done", answer.done);
    body.set("place", answer.place);
    if (answer.place) continue;
    bar.remove();
    if (!failed.length) { location.assign(answer.to); return; }
    state.textContent = `${answer.done.toLocaleString("en")} done. Not done: ${failed.slice(0, 5).join(" ")} `;
    state.append(made("a", { href: answer.to }, "Go on"));
    return;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.addEventListener("change", (event) => {
    if (event.target.closest("#chosen")) countChosen();
    if (event.target.dataset.submits !== undefined) event.target.form.requestSubmit();
  });
  document.addEventListener("submit", (event) => {
    const [form, button] = [event.target, event.submitter];
    if (form.dataset.batches === undefined && button?.dataset.batches === undefined) return;
    event.preventDefault();
    inBatches(form, button || form.querySelector("button"));
  });
  searchOn().catch(() => { /* The link goes on. */ });
});
