// Refreshes the parts of a page that are marked with data-live, from the same page of the server.
// The browser parses it as a document that runs nothing, and elements are taken over as they are: no HTML from text.
"use strict";

const holder = document.querySelector("[data-refresh]");
const pause = document.getElementById("pause");
const note = document.getElementById("refresh-note");
let paused = false;

function replace(fresh) {
  for (const former of document.querySelectorAll("[data-live]")) {
    const next = fresh.getElementById(former.id);
    // What somebody is in stays until they leave it.
    if (!next || former.contains(document.activeElement)) continue;
    const taken = document.importNode(next, true);
    const box = former.querySelector(".scroll");
    former.replaceWith(taken);
    if (box && taken.querySelector(".scroll")) taken.querySelector(".scroll").scrollLeft = box.scrollLeft;
    showTimes(taken);
  }
  const flashes = fresh.getElementById("flashes");
  if (flashes?.childElementCount) document.getElementById("flashes").append(document.importNode(flashes, true));
  const next = fresh.querySelector("[data-refresh]");
  if (next) holder.dataset.refresh = next.dataset.refresh;
}

function refresh() {
  if (paused || document.hidden) { wait(); return; }
  const request = new XMLHttpRequest();
  request.open("GET", location.href);
  // Nobody has done anything: this does not keep the session open.
  request.setRequestHeader("x-orcas-refresh", "yes");
  request.responseType = "document";
  request.timeout = 30000;
  request.onload = () => {
    if (new URL(request.responseURL).pathname !== location.pathname) { location.reload(); return; }
    if (request.status === 200 && request.responseXML) replace(request.responseXML);
    note.textContent = request.status === 200 ? "" : `The server answered ${request.status}; trying again.`;
    wait();
  };
  request.onerror = request.ontimeout = () => {
    note.textContent = "The server does not answer; trying again.";
    wait();
  };
  request.send();
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
