// The list of buckets shows settings and requests once it is there.
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

// A line through the requests of each day. What it shows is its title, for readers of screens and under the mouse.
function sparkline(counts, days) {
  const made = (name, attributes) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [attribute, value] of Object.entries(attributes)) element.setAttribute(attribute, value);
    return element;
  };
  const most = Math.max(...counts);
  const places = counts.map((count, day) => {
    const y = 19 - (most ? (count / most) * 18 : 0);
    return `${((day / (counts.length - 1)) * 100).toFixed(1)} ${y.toFixed(1)}`;
  });
  const svg = made("svg", { class: "spark", role: "img", viewBox: "0 0 100 20", preserveAspectRatio: "none" });
  const title = made("title", {});
  const busiest = most ? `, at most ${most.toLocaleString()} on ${days[counts.indexOf(most)]}` : "";
  title.textContent = `Requests a day since ${days[0]}: ${counts.at(-1).toLocaleString()} today${busiest}`;
  svg.append(title, made("path", { d: `M${places.join("L")}` }));
  return svg;
}

async function requestsByDay() {
  const rows = [...document.querySelectorAll("tr[data-bucket]")];
  if (!rows.length) return;
  const names = rows.map((row) => row.dataset.bucket);
  const query = new URLSearchParams({ first: names[0], last: names.at(-1) });
  const answer = await fetch(`${document.body.dataset.base}/requests-by-day?${query}`, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const { days, buckets } = await answer.json();
  if (!buckets) return;
  for (const row of rows) {
    const name = row.dataset.bucket;
    const counts = Object.hasOwn(buckets, name) ? buckets[name] : days.map(() => 0);
    const total = counts.reduce((sum, count) => sum + count, 0);
    row.querySelector("[data-requests]").replaceChildren(sparkline(counts, days), ` ${total.toLocaleString()}`);
  }
}

document.addEventListener("DOMContentLoaded", () => {
  glance();
  requestsByDay();
});
