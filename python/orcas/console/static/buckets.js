// The list of buckets shows settings once it is there; emptying a bucket goes batch by batch, with progress.
"use strict";

async function glance() {
  const rows = [...document.querySelectorAll("tr[data-bucket]")];
  for (let at = 0; at < rows.length; at += 25) {
    const some = rows.slice(at, at + 25);
    const query = new URLSearchParams(some.map((row) => ["bucket", row.dataset.bucket]));
    const answer = await fetch(`${document.body.dataset.base}/glances?${query}`, { headers: { accept: "application/json" } });
    if (!answer.ok) return;
    const words = await answer.json();
    for (const row of some) {
      for (const word of words[row.dataset.bucket] || []) {
        const badge = document.createElement("span");
        badge.className = "badge";
        badge.textContent = word;
        row.querySelector("[data-glance]").append(badge, " ");
      }
    }
  }
}

async function emptyBucket(event) {
  event.preventDefault();
  const form = event.target;
  const place = form.closest("[data-empty]");
  const state = document.getElementById("empty-state");
  const total = Number(place.dataset.empty);
  const bar = document.createElement("progress");
  bar.setAttribute("aria-label", "Removed");
  if (total) bar.max = total;
  state.before(bar);
  form.querySelector("button").disabled = true;
  let removed = 0;
  let next = { key: "", version: "" };
  const failed = [];
  for (;;) {
    const body = new URLSearchParams({ confirm: form.elements.confirm.value, ...next });
    const headers = { accept: "application/json", "x-csrf-token": document.body.dataset.csrf };
    const answer = await fetch(form.action, { method: "POST", headers, body });
    if (!answer.ok) {
      const said = answer.headers.get("content-type")?.includes("json") ? (await answer.json()).error.message : await answer.text();
      failed.push(said);
      break;
    }
    const batch = await answer.json();
    removed += batch.removed;
    failed.push(...batch.failed);
    if (total) bar.value = removed;
    state.textContent = `${removed.toLocaleString()} objects and versions were removed.`;
    if (!batch.more) break;
    next = { key: batch.key, version: batch.version };
  }
  bar.max = 1;
  bar.value = 1;
  state.textContent = failed.length
    ? `${removed.toLocaleString()} objects and versions were removed. Some were not: ${failed.slice(0, 5).join(" ")}`
    : `The bucket is empty: ${removed.toLocaleString()} objects and versions were removed.`;
  form.querySelector("button").disabled = false;
}

document.addEventListener("DOMContentLoaded", () => {
  glance();
  document.querySelector("[data-empty] form")?.addEventListener("submit", emptyBucket);
});
