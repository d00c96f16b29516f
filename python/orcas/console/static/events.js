// Events as they come: reads the stream of the server and adds a row for each. Texts become text nodes, never HTML.
"use strict";

const KEPT = 200;
const table = document.getElementById("events");
const state = document.getElementById("stream-state");
const stop = document.getElementById("pause");
let source = null;
let count = 0;

// What cannot be seen, or would reorder the text around it, is shown as its number, as the server does in keys.
function visible(text) {
  const shown = made("bdi", { className: "key" });
  for (const part of text.split(/(\p{C}|[\u2028\u2029]|[^\S ])/u)) {
    if (part && /^(\p{C}|[\u2028\u2029]|[^\S ])$/u.test(part)) {
      const number = part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      shown.append(made("span", { className: "mark" }, `U+${number}`));
    } else shown.append(part);
  }
  return shown;
}

function keyOf(record) {
  const raw = record.s3?.object?.key ?? "";
  try { return decodeURIComponent(raw.replaceAll("+", " ")); } catch { return raw; }
}

function add(record) {
  const when = `${record.eventTime.replace("T", " ").replace(/\.\d+Z$/, "")} UTC`;
  const time = made("time", { dateTime: record.eventTime }, when);
  const size = record.s3?.object?.size;
  const cells = [time, record.eventName, visible(record.s3?.bucket?.name ?? ""), visible(keyOf(record)),
    size === undefined ? "" : size.toLocaleString("en")];
  const row = made("tr", {}, ...cells.map((content) => made("td", {}, content)));
  row.lastChild.className = "num";
  showTimes(row);
  table.prepend(row);
  while (table.rows.length > KEPT) table.lastChild.remove();
  count += 1;
  state.textContent = `Listening. ${count} events so far.`;
}

function open() {
  source = new EventSource(table.dataset.stream);
  source.onopen = () => { state.textContent = `Listening. ${count} events so far.`; };
  source.onerror = () => {
    state.textContent = source.readyState === EventSource.CLOSED
      ? "The server refuses the stream: reload the page." : "The stream was interrupted; connecting again.";
  };
  source.addEventListener("s3", (event) => { for (const record of JSON.parse(event.data).Records ?? []) add(record); });
  source.addEventListener("gap", () => { state.textContent = "Some events are gone: the journal no longer has them."; });
}

stop.addEventListener("click", () => {
  const paused = stop.getAttribute("aria-pressed") !== "true";
  stop.setAttribute("aria-pressed", String(paused));
  if (paused) { source.close(); state.textContent = "Paused."; } else open();
});
open();
