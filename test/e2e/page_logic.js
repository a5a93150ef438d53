// SPDX-License-Identifier: Apache-2.0
// Asks the functions of a flame graph's page; usage: node page_logic.js FOLDER, which page_logic.sh has filled. The
// page is taken as spanprof-report wrote it. Its document is one that has everything and does nothing.
"use strict";
const assert = require("node:assert").strict;
const fs = require("node:fs");
const vm = require("node:vm");

const folder = process.argv[2];
const anything = new Proxy(function () {}, {
	get: (_, key) => key === Symbol.toPrimitive ? () => "" : key === Symbol.iterator ? [][Symbol.iterator].bind([]) : anything,
	set: () => true, apply: () => anything, construct: () => anything,
});

// The functions and the profile of a page.
function page(name) {
	const html = fs.readFileSync(`${folder}/${name}.html`, "utf8");
	const scripts = [...html.matchAll(/<script[^>]*>\n?([^]*?)<\/script>/g)].map((match) => match[1]);
	const data = JSON.parse(scripts.find((text) => text.trimStart().startsWith("{")));
	const context = vm.createContext({ document: anything, window: anything, innerWidth: 1200, innerHeight: 700,
		requestAnimationFrame: () => 0, getComputedStyle: () => anything, ResizeObserver: anything });
	const text = scripts.find((script) => script.includes("const spanprof = {}"));
	// What draws at once draws nothing here; all functions are there by then.
	const spanprof = vm.runInContext(`${text.replace(/spanprof\.showInline\(\);\s*$/, "")}\nspanprof`, context);
	const profile = spanprof.read(data), whole = spanprof.whole(profile);
	const build = (view) => spanprof.build(profile, { bySpan: true, ...view }, whole);
	const numbers = (name, view = {}) =>
		spanprof.numbers(build(view).find((frame) => frame.name === name), whole, profile, view.inverted);
	return { spanprof, profile, whole, build, numbers };
}

const names = (frames) => Array.from(frames, (frame) => frame.name);
const { spanprof, profile, whole, build, numbers } = page("all");
const HANDLE = profile.names.find((name) => name.includes("Handler"));

for (const [name, short] of Object.entries(JSON.parse(fs.readFileSync(`${folder}/names.json`, "utf8"))))
	assert.equal(spanprof.shortName(name), short);
for (const [room, name] of [[21, "shop::Handler::handle"], [20, "Handler::handle"], [1, "Handler::handle"]])
	assert.equal(spanprof.nameWithin(HANDLE, room), name);

// Each view has all of the profile: by span, without spans, leaves first, and one function with its callers.
assert.ok(spanprof.hasSpans(profile));
assert.deepEqual(names(build({})).slice(0, 3), ["all", "GET /orders", "POST /cart"]);
assert.deepEqual(names(build({ bySpan: false })).slice(0, 2), ["all", "main"]);
assert.deepEqual(names(build({ bySpan: false, inverted: true })).slice(0, 3), ["all", "render", "malloc"]);
for (const view of [{}, { bySpan: false }, { inverted: true }]) {
	const frames = build(view);
	assert.equal(frames[0].ns, whole.ns);
	for (const frame of frames.slice(1)) {
		assert.ok(frames.indexOf(frame.parent) < frames.indexOf(frame));
		assert.ok(frame.left >= frame.parent.left && frame.left + frame.width <= frame.parent.left + frame.parent.width + 1e-9);
	}
}
assert.equal(numbers(HANDLE), "71.23 % of all, 5.000 s CPU, itself 0.000 s, 500 samples");
assert.equal(numbers("render", { around: "render" }), "56.98 % of all, 4.000 s CPU, itself 4.000 s, 400 samples");
assert.equal(numbers("render"), "42.74 % of all, 3.000 s CPU, itself 3.000 s, 300 samples");
assert.ok(names(build({ around: "render" })).includes("POST /cart"));
assert.ok(!names(build({ around: "render", bySpan: false })).includes("POST /cart"));
const around = build({ around: "render" });
assert.deepEqual(names(around[0].callers), [HANDLE, "store"]);
assert.equal(around.find((frame) => frame.name === "store").depth, -1);

// A search counts a stack once.
const pattern = spanprof.pattern("^(render|STORE)$");
const { found, places } = spanprof.search(build({}), pattern);
assert.equal(found.size, 3);
assert.deepEqual(names(places), ["render", "store"]);
assert.equal(spanprof.percent(spanprof.matched(profile, { bySpan: true }, pattern).ns / whole.ns), "57.26 %");
assert.equal(spanprof.pattern("("), null);

// The keys go to the nearest frame.
const [root, orders, cart] = build({});
for (const [from, key, to] of [[root, "ArrowDown", orders], [orders, "ArrowRight", cart], [cart, "ArrowLeft", orders],
	[orders, "ArrowUp", root], [orders, "ArrowLeft", null], [root, "ArrowRight", null]])
	assert.equal(spanprof.neighbour(from, key), to);
assert.equal(spanprof.neighbour(around[0], "ArrowUp").name, HANDLE);

const functions = new Map(spanprof.functions(profile).map((f) => [f.name, [f.selfNs / 1e9, f.ns / 1e9]]));
assert.deepEqual(functions.get("render"), [4, 4]);
assert.deepEqual(functions.get("main"), [0, 7.02]);
assert.ok(!functions.has("GET /orders") && !functions.has("[unsampled cpu]"));

// What calls itself counts once.
const deep = page("deep");
const LONG = deep.profile.names.find((name) => name.startsWith("void shop::walk"));
assert.deepEqual(Array.from(deep.spanprof.functions(deep.profile)).filter((f) => f.name === LONG).map((f) => f.ns), [5e7]);
assert.equal(deep.build({ around: LONG, bySpan: false }).length, 201);
assert.equal(deep.numbers(LONG, { around: LONG }), "100.00 % of all, 0.050 s CPU, itself 0.050 s, 5 samples");

// Two profiles: what grew, what shrank, and what chance explains.
const diff = page("diff");
const render = diff.build({ around: "render" })[0];
assert.equal(diff.numbers("render", { around: "render" }),
	"56.98 % here, 39.92 % in the baseline (+17.06 points), 400 and 200 samples");
assert.ok(diff.spanprof.isChange(render, diff.whole) && diff.spanprof.change(render, diff.whole) > 0);
assert.equal(diff.spanprof.verdict(diff.build({}), diff.whole), "");
const few = page("few");
assert.match(few.spanprof.verdict(few.build({}), few.whole), /^Too few samples to compare: 7 samples here, 6 in the baseline/);

// Names of a profile stay text in the page that has them.
assert.ok(page("evil").profile.names.some((name) => name.includes("</script><script>")));
