// Asks the search of a built site: `node site_search.js SITE` takes a JSON list of questions on stdin, and prints, for
// each of them, the addresses of the pages that the browser shows, best first. It runs the worker that the browser runs.

const fs = require("fs");
const vm = require("vm");

const site = process.argv[2];
const workers = `${site}/assets/javascripts/workers`;
const file = fs.readdirSync(workers).find((name) => /^search.*\.js$/.test(name));
const code = fs.readFileSync(`${workers}/${file}`, "utf8");
const index = JSON.parse(fs.readFileSync(`${site}/search.json`, "utf8"));
// The kinds of messages to and from the worker.
const SETUP = 0, QUERY = 2;

let answered;
const worker = {postMessage: (message) => answered(message)};
vm.runInNewContext(code, {self: worker, Intl, console});

function ask(type, data) {
    return new Promise((resolve) => {
        answered = resolve;
        worker.onmessage({data: {type, data}});
    });
}

async function main() {
    await ask(SETUP, index);
    const found = {};
    for (const question of JSON.parse(fs.readFileSync(0, "utf8"))) {
        const filter = {input: {type: "operator", data: {operator: "and", operands: []}}, aggregation: {input: []}};
        const answer = await ask(QUERY, {input: question, filter});
        // Each section is a result of its own.
        found[question] = [...new Set(answer.data.items.map(({id}) => index.items[id].location.split("#")[0]))];
    }
    console.log(JSON.stringify(found));
}

main();
