// A count of what lifecycle rules would remove goes on by itself, step by step, in the page. Without this, there is a button.
"use strict";

const count = document.getElementById("count");

function cell(text, kind) {
  const made = document.createElement("td");
  made.className = kind;
  made.textContent = text;
  return made;
}

function show(step) {
  document.getElementById("count-words").textContent = step.words;
  const body = document.querySelector("#count tbody");
  body.replaceChildren(...step.rows.map((row) => {
    const made = document.createElement("tr");
    made.append(...row.map((text, at) => cell(text, at ? "num" : "key")));
    return made;
  }));
  document.getElementById("count-table").hidden = !step.rows.length;
  document.getElementById("count-nothing").hidden = !step.done || step.rows.length > 0;
}

async function goOn(form) {
  form.querySelector("button").hidden = true;
  for (;;) {
    const answer = await fetch(form.action, {
      method: "POST", headers: { accept: "application/json" }, body: new URLSearchParams(new FormData(form)),
    });
    if (!answer.ok) break;
    const step = await answer.json();
    show(step);
    if (step.done) return;
    form.elements.progress.value = step.progress;
  }
  // It did not go on: the button asks again, and shows why.
  form.querySelector("button").hidden = false;
}

const form = document.getElementById("go-on");
if (form) goOn(form).catch(() => { form.querySelector("button").hidden = false; });
