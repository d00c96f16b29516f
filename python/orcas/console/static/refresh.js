// Refreshes the parts of a page that are marked with data-live, from the same page of the server.
"use strict";

const holder = document.querySelector("[data-refresh]");
const pause = document.getElementById("pause");
const note = document.getElementById("refresh-note");
let paused = false;

function replace(fresh) {
  for (const former of document.querySelectorAll("[data-live]")) {
    // What somebody is in stays until they leave it.
    if (former.contains(document.activeElement)) continue;
    const left = former.querySelector(".scroll")?.scrollLeft ?? 0;
    const box = take(fresh, former.id)?.querySelector(".scroll");
    if (box) box.scrollLeft = left;
  }
  const flashes = fresh.getElementById("flashes");
  if (flashes?.childElementCount) document.getElementById("flashes").append(document.importNode(flashes, true));
  const next = fresh.querySelector("[data-refresh]");
  if (next) holder.dataset.refresh = next.dataset.refresh;
}

async function refresh() {
  if (!paused && !document.hidden) {
    try {
      // Nobody has done anything: this does not keep the session open.
      const { page, status, here } = await loaded(location.href, { "x-orcas-refresh": "yes" });
      if (!here) { location.reload(); return; }
      if (status === 200 && page) replace(page);
      note.textContent = status === 200 ? "" : `The server answered ${status}; trying again.`;
    } catch {
      note.textContent = "The server does not answer; trying again.";
    }
  }
  wait();
}

// 0 seconds: there is nothing more to come.
function wait() { if (Number(holder.dataset.refresh)) setTimeout(refresh, Number(holder.dataset.refresh) * 1000); }

if (holder) {
  pause?.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
  });
  wait();
}
