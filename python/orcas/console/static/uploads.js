// Uploads: files and folders that were chosen or dropped go in parts to the S3 API, by requests that the server presigns.
// What is kept in local storage to resume after a reload names the upload and the file; it holds no secret.
"use strict";

const MIB = 1024 * 1024;
const WHOLE_MAX = 8 * MIB;
const PART = 8 * MIB;
const PARTS_MAX = 10000;
const AT_ONCE = 4;
const TRIES = 6;
const STORE = "orcas-uploads";

// CRC-32 by sixteen tables, one after the other, which take four words of 32 bits a step, the lowest byte first.
const TABLE = 256;
const tables = (() => {
  const made = new Int32Array(16 * TABLE);
  for (let n = 0; n < TABLE; n += 1) {
    let c = n;
    for (let bit = 0; bit < 8; bit += 1) c = c & 1 ? (c >>> 1) ^ 0xedb88320 : c >>> 1;
    made[n] = c;
  }
  for (let n = TABLE; n < made.length; n += 1) made[n] = (made[n - TABLE] >>> 8) ^ made[made[n - TABLE] & 255];
  return made;
})();

function crc32(buffer) {
  const words = new Int32Array(buffer, 0, buffer.byteLength >>> 2);
  const t = tables;
  let c = -1;
  let at = 0;
  for (const end = words.length - 3; at < end; at += 4) {
    const [w, x, y, z] = [c ^ words[at], words[at + 1], words[at + 2], words[at + 3]];
    c = t[3840 + (w & 255)] ^ t[3584 + ((w >>> 8) & 255)] ^ t[3328 + ((w >>> 16) & 255)] ^ t[3072 + (w >>> 24)]
      ^ t[2816 + (x & 255)] ^ t[2560 + ((x >>> 8) & 255)] ^ t[2304 + ((x >>> 16) & 255)] ^ t[2048 + (x >>> 24)]
      ^ t[1792 + (y & 255)] ^ t[1536 + ((y >>> 8) & 255)] ^ t[1280 + ((y >>> 16) & 255)] ^ t[1024 + (y >>> 24)]
      ^ t[768 + (z & 255)] ^ t[512 + ((z >>> 8) & 255)] ^ t[256 + ((z >>> 16) & 255)] ^ t[z >>> 24];
  }
  const bytes = new Uint8Array(buffer);
  for (at *= 4; at < bytes.length; at += 1) c = t[(c ^ bytes[at]) & 255] ^ (c >>> 8);
  c = (c ^ 0xffffffff) >>> 0;
  return btoa(String.fromCharCode(c >>> 24, (c >>> 16) & 255, (c >>> 8) & 255, c & 255));
}

const tray = () => document.getElementById("uploads");
const place = () => document.getElementById("place");
const bucket = () => place().dataset.bucket;
const prefix = () => decodeURIComponent(place().dataset.prefix);

class Refused extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

// Who may lose what is there is asked first.
const EXISTS = "PreconditionFailed";
const LOST = "There is an object of this name, and the bucket keeps no versions: what it has now would be lost.";

async function step(name, order) {
  const answer = await fetch(`${document.body.dataset.base}/b/${encodeURIComponent(bucket())}/upload/${name}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrf-token": document.body.dataset.csrf },
    body: JSON.stringify(order),
  });
  if (answer.ok) return answer.json();
  const said = answer.headers.get("content-type")?.includes("json") ? (await answer.json()).error : { message: await answer.text() };
  throw answer.status >= 500 || answer.status === 429 ? new Error(said.message) : new Refused(said.message, said.code);
}

function kept() {
  try { return JSON.parse(localStorage.getItem(STORE)) || []; } catch { return []; }
}

function keep(uploads) {
  try { localStorage.setItem(STORE, JSON.stringify(uploads.slice(-100))); } catch { /* Then a reload cannot resume. */ }
}

const known = (upload) => (each) => each.bucket === bucket() && each.key === upload.key;

class Upload {
  constructor(file, key) {
    this.file = file;
    this.key = key;
    this.sent = 0;
    this.inFlight = new Map();
    this.paused = false;
    this.state = "waiting";
    this.replace = tray().dataset.kept === "yes";
    this.partSize = Math.max(PART, Math.ceil(file.size / PARTS_MAX / MIB) * MIB);
    this.row = this.makeRow();
  }

  makeRow() {
    const name = made("bdi", { className: "key" }, this.key);
    this.bar = made("progress", { max: Math.max(1, this.file.size), value: 0, ariaLabel: `Upload of ${this.key}` });
    this.says = made("span", { className: "says" });
    this.button = made("button", { type: "button", onclick: () => this.toggle() }, "Pause");
    this.cancel = made("button", { type: "button", onclick: () => this.giveUp() }, "Cancel");
    const row = made("div", { className: "upload" }, name, this.bar, this.button, this.cancel, this.says);
    document.getElementById("upload-list").append(row);
    return row;
  }

  show(text) {
    let flying = 0;
    for (const bytes of this.inFlight.values()) flying += bytes;
    this.bar.value = this.file.size ? this.sent + flying : this.state === "done" ? 1 : 0;
    const paused = this.paused && this.state === "running" ? "paused" : undefined;
    this.says.textContent = text ?? paused ?? `${Math.floor((100 * (this.sent + flying)) / Math.max(1, this.file.size))} %`;
  }

  toggle() {
    if (this.state === "failed" || this.state === "asking") {
      this.replace ||= this.state === "asking";
      this.state = "waiting";
      this.show("waiting");
      this.button.textContent = "Pause";
      pump();
      return;
    }
    this.paused = !this.paused;
    this.button.textContent = this.paused ? "Resume" : "Pause";
    if (this.paused) {
      for (const request of this.requests || []) request.abort();
      this.show();
    } else {
      this.wake?.();
    }
  }

  async giveUp() {
    this.cancelled = true;
    this.paused = false;
    this.wake?.();
    for (const request of this.requests || []) request.abort();
    if (this.id && this.state !== "done") {
      await step("abort", { key: this.key, upload: this.id }).catch(() => {});
      keep(kept().filter((each) => !known(this)(each)));
    }
    this.finish("cancelled", "cancelled");
    pump();
  }

  finish(state, text) {
    this.state = state;
    this.show(text);
    this.button.hidden = state !== "failed" && state !== "asking";
    this.button.textContent = state === "asking" ? "Replace" : "Try again";
    this.cancel.hidden = state === "done" || state === "cancelled";
  }

  async run() {
    this.state = "running";
    this.requests = new Set();
    try {
      await (this.file.size <= WHOLE_MAX ? this.whole() : this.inParts());
      if (this.cancelled) return;
      this.sent = this.file.size;
      keep(kept().filter((each) => !known(this)(each)));
      this.finish("done", "done");
    } catch (error) {
      if (this.cancelled) return;
      if (error.code === EXISTS && !this.replace) this.finish("asking", LOST);
      else this.finish("failed", error.message || "The connection was lost.");
    }
  }

  async whole() {
    const body = await this.file.arrayBuffer();
    const order = { key: this.key, type: this.file.type, crc32: crc32(body), replace: this.replace };
    await this.trying(0, body, () => step("put", order));
  }

  async inParts() {
    const count = Math.ceil(this.file.size / this.partSize);
    const done = new Map();
    // By number, what the server has. Name, size and time of a file may be those of another content, as after rsync: a part
    // counts only if its checksum is that of the file.
    const arrived = new Map();
    const before = kept().find((each) => known(this)(each) && each.size === this.file.size
      && each.modified === this.file.lastModified && each.partSize === this.partSize);
    this.id ??= before?.upload;
    if (this.id) {
      try {
        for (const part of (await step("parts", { key: this.key, upload: this.id })).parts) {
          arrived.set(part.part, part);
        }
      } catch (error) {
        // It was completed or aborted elsewhere, or the key may not list its parts: all are sent again.
        if (!["NoSuchUpload", "AccessDenied"].includes(error.code)) throw error;
        this.id = undefined;
      }
    }
    if (!this.id) {
      this.id = (await step("begin", { key: this.key, type: this.file.type, replace: this.replace })).upload;
      keep([...kept().filter((each) => !known(this)(each)), {
        bucket: bucket(), key: this.key, size: this.file.size, modified: this.file.lastModified, partSize: this.partSize, upload: this.id,
      }]);
    }
    this.sent = 0;
    let next = 1;
    const work = async () => {
      while (next <= count && !this.cancelled) {
        const part = next;
        next += 1;
        const body = await this.file.slice((part - 1) * this.partSize, part * this.partSize).arrayBuffer();
        const order = { key: this.key, upload: this.id, part, crc32: crc32(body) };
        const there = arrived.get(part);
        const same = there?.size === body.byteLength && there.crc32 === order.crc32;
        const etag = same ? there.etag : await this.trying(part, body, () => step("part", order));
        done.set(part, { part, etag, crc32: order.crc32 });
        this.inFlight.delete(part);
        this.sent += body.byteLength;
        this.show();
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    if (this.cancelled) return;
    const parts = [...done.values()].sort((a, b) => a.part - b.part);
    await step("complete", { key: this.key, upload: this.id, parts, replace: this.replace });
  }

  // Sends a body until it has arrived. A pause ends the attempt and does not count.
  async trying(part, body, presign) {
    for (let attempt = 1; ; ) {
      while (this.paused) await new Promise((resolve) => { this.wake = resolve; });
      if (this.cancelled) return undefined;
      try {
        const { url, headers } = await presign();
        return await this.send(part, body, url, headers);
      } catch (error) {
        this.inFlight.delete(part);
        if (this.paused || this.cancelled) continue;
        if (error instanceof Refused || attempt >= TRIES) throw error;
        this.show(`trying again: ${error.message}`);
        await new Promise((resolve) => { setTimeout(resolve, 500 * 2 ** attempt); });
        attempt += 1;
      }
    }
  }

  // XMLHttpRequest, because fetch tells nothing about the progress of a body.
  send(part, body, url, headers) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("PUT", url);
      for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
      request.upload.addEventListener("progress", (event) => { this.inFlight.set(part, event.loaded); this.show(); });
      request.addEventListener("loadend", () => this.requests.delete(request));
      request.addEventListener("error", () => reject(new Error("The connection was lost.")));
      request.addEventListener("abort", () => reject(new Error("It was paused.")));
      request.addEventListener("load", () => {
        if (request.status < 300) return resolve(request.getResponseHeader("etag"));
        const of = (name) => new RegExp(`<${name}>([^<]*)<`).exec(request.responseText)?.[1];
        const said = of("Message") || `The server answered ${request.status}.`;
        return reject(request.status >= 500 || request.status === 408 ? new Error(said) : new Refused(said, of("Code")));
      });
      this.requests.add(request);
      request.send(body);
    });
  }
}

const uploads = [];
// Of how many the list has been loaded again.
let shown = 0;

// One large file at a time, or a few small ones.
async function pump() {
  const running = uploads.filter((each) => each.state === "running");
  for (const next of uploads.filter((each) => each.state === "waiting")) {
    if (running.length >= AT_ONCE || running.some((each) => each.file.size > WHOLE_MAX)) break;
    running.push(next);
    next.run().then(pump);
    if (next.file.size > WHOLE_MAX) break;
  }
  if (!uploads.length) return;
  const count = (state) => uploads.filter((each) => each.state === state).length;
  const [open, asking] = [count("running") + count("waiting"), count("asking")];
  document.getElementById("upload-replace").hidden = !asking;
  document.getElementById("upload-cancel").hidden = !open && !asking;
  document.getElementById("upload-close").hidden = open > 0 || asking > 0;
  document.getElementById("upload-state").textContent = open ? `Left: ${open} of ${uploads.length}.`
    : `Uploaded: ${count("done")} of ${uploads.length}.${asking ? ` ${asking} would replace others: say whether.` : ""}`;
  if (!open && count("done") > shown) {
    shown = count("done");
    refreshList();
  }
}

function add(files) {
  for (const [file, path] of files) {
    if (file.name) uploads.push(new Upload(file, prefix() + path));
  }
  tray().hidden = !uploads.length;
  pump();
}

const chosen = (input) => [...input.files].map((file) => [file, file.webkitRelativePath || file.name]);

async function dropped(entry, path, found) {
  if (entry.isFile) {
    found.push([await new Promise((resolve, reject) => { entry.file(resolve, reject); }), path + entry.name]);
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    const some = await new Promise((resolve, reject) => { reader.readEntries(resolve, reject); });
    if (!some.length) return;
    for (const each of some) await dropped(each, `${path}${entry.name}/`, found);
  }
}

function showKept() {
  const own = kept().filter((each) => each.bucket === bucket());
  for (const each of own) {
    const giveUp = async () => {
      await step("abort", { key: each.key, upload: each.upload }).catch(() => {});
      keep(kept().filter((other) => other.upload !== each.upload));
      row.remove();
    };
    const name = made("bdi", { className: "key" }, each.key);
    const row = made("p", { className: "upload" }, "The upload of ", name, " is unfinished: choose the same file again to resume it. ",
      made("button", { type: "button", onclick: giveUp }, "Give it up"));
    document.getElementById("upload-list").append(row);
    tray().hidden = false;
  }
}

document.addEventListener("DOMContentLoaded", () => {
  if (!document.getElementById("choose-files")) return;
  showKept();
  const fold = document.getElementById("upload-fold");
  fold.addEventListener("click", () => {
    const list = document.getElementById("upload-list");
    list.hidden = !list.hidden;
    fold.setAttribute("aria-expanded", String(!list.hidden));
  });
  const each = (states, act) => () => uploads.filter((upload) => states.includes(upload.state)).forEach(act);
  document.getElementById("upload-replace").addEventListener("click", each(["asking"], (upload) => upload.toggle()));
  const open = ["waiting", "running", "asking", "failed"];
  document.getElementById("upload-cancel").addEventListener("click", each(open, (upload) => upload.giveUp()));
  document.getElementById("upload-close").addEventListener("click", () => {
    uploads.splice(0).forEach((upload) => upload.row.remove());
    shown = 0;
    tray().hidden = true;
  });
  for (const id of ["choose-files", "choose-folder"]) {
    const input = document.getElementById(id);
    input.addEventListener("change", () => { add(chosen(input)); input.value = ""; });
  }
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", async (event) => {
    event.preventDefault();
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const found = [];
    for (const entry of entries) await dropped(entry, "", found);
    add(found.length ? found : [...event.dataTransfer.files].map((file) => [file, file.name]));
  });
  addEventListener("beforeunload", (event) => {
    if (uploads.some((each) => each.state === "running")) event.preventDefault();
  });
});
