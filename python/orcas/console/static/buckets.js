// The list of buckets shows settings and requests once it is there.
"use strict";

// What the console says of buckets as JSON; null if it refuses.
async function asked(path, query) {
  const url = `${document.body.dataset.base}${path}?${new URLSearchParams(query)}`;
  const answer = await fetch(url, { headers: { accept: "application/json" } });
  return answer.ok ? answer.json() : null;
}

async function glance() {
  const rows = [...document.querySelectorAll("tr[data-bucket]")];
  for (let at = 0; at < rows.length; at += 25) {
    const some = rows.slice(at, at + 25);
    const words = await asked("/glances", some.map((row) => ["bucket", row.dataset.bucket]));
    if (!words) return;
    for (const row of some) {
      const badges = (words[row.dataset.bucket] || []).flatMap((word) => [made("span", { className: "badge" }, word), " "]);
      row.querySelector("[data-glance]").append(...badges);
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
  const { days, buckets } = (await asked("/requests-by-day", { first: names[0], last: names.at(-1) })) ?? {};
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
