// SPDX-License-Identifier: Apache-2.0
// Tests the functions of a flame graph's page; usage: node page_logic.js FOLDER, which page_logic.sh has filled.
"use strict";
const assert = require("node:assert").strict;
const fs = require("node:fs");
const { read } = require("./page.js");

const folder = process.argv[2];

// The functions and the profile of a page.
function page(name) {
	const { spanprof, profile } = read(`${folder}/${name}.html`);
	const whole = spanprof.whole(profile);
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

// Each view contains the whole profile: by span, without spans, leaves first, and one function with its callers.
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

// A search counts each stack once.
const pattern = spanprof.pattern("^(render|STORE)$");
const { found, places } = spanprof.search(build({}), pattern);
assert.equal(found.size, 3);
assert.deepEqual(names(places), ["render", "store"]);
assert.equal(spanprof.percent(spanprof.matched(profile, { bySpan: true }, pattern).ns / whole.ns), "57.26 %");
assert.equal(spanprof.pattern("("), null);

// The arrow keys go to the nearest frame.
const [root, orders, cart] = build({});
for (const [from, key, to] of [[root, "ArrowDown", orders], [orders, "ArrowRight", cart], [cart, "ArrowLeft", orders],
	[orders, "ArrowUp", root], [orders, "ArrowLeft", null], [root, "ArrowRight", null]])
	assert.equal(spanprof.neighbour(from, key), to);
assert.equal(spanprof.neighbour(around[0], "ArrowUp").name, HANDLE);

const functions = new Map(spanprof.functions(profile).map((f) => [f.name, [f.selfNs / 1e9, f.ns / 1e9]]));
assert.deepEqual(functions.get("render"), [4, 4]);
assert.deepEqual(functions.get("main"), [0, 7.02]);
assert.ok(!functions.has("GET /orders") && !functions.has("[unsampled cpu]"));

// A recursive function counts once.
const deep = page("deep");
const LONG = deep.profile.names.find((name) => name.startsWith("void shop::walk"));
assert.deepEqual(Array.from(deep.spanprof.functions(deep.profile)).filter((f) => f.name === LONG).map((f) => f.ns), [5e7]);
assert.equal(deep.build({ around: LONG, bySpan: false }).length, 201);
assert.equal(deep.numbers(LONG, { around: LONG }), "100.00 % of all, 0.050 s CPU, itself 0.050 s, 5 samples");

// Two profiles: functions that grew, that shrank, and differences that chance explains.
const diff = page("diff");
const render = diff.build({ around: "render" })[0];
assert.equal(diff.numbers("render", { around: "render" }),
	"56.98 % here, 39.92 % in the baseline (+17.06 points), 400 and 200 samples");
assert.ok(diff.spanprof.isChange(render, diff.whole) && diff.spanprof.change(render, diff.whole) > 0);
assert.equal(diff.spanprof.verdict(diff.build({}), diff.whole), "");
const few = page("few");
assert.match(few.spanprof.verdict(few.build({}), few.whole), /^Not enough samples to be sure: 7 samples here, 6 in the baseline\./);
const alike = { ns: 1e9, samples: 100, baseNs: 1e9, baseSamples: 50 };
assert.match(diff.spanprof.verdict([alike], alike), /^No frame differs by more than chance, and less than 26 points could be missed: 100 samples here, 50 /);
assert.equal(spanprof.doubt(whole, profile), "");
assert.equal(deep.spanprof.doubt(deep.whole, deep.profile),
	"Not enough samples to be sure: 5 samples, so shares may be off by 45 points.");

// Names of a profile stay text in its page.
assert.ok(page("evil").profile.names.some((name) => name.includes("</script><script>")));

// Folds and filters change the columns from which everything else is computed.
const towers = page("towers");
const made = (choices) => {
	const filtered = towers.spanprof.filter(towers.profile, { focus: null, ignore: null, hide: null, ...choices });
	const folded = towers.spanprof.fold(filtered, { recursion: false, libraries: false, isOpen: () => false, ...choices });
	return { filtered, folded, frames: towers.spanprof.build(folded, { bySpan: false, ...choices }, towers.whole) };
};
assert.equal(made({}).folded, towers.profile);
const boxes = made({ libraries: true });
assert.deepEqual(Array.from(boxes.frames).filter((frame) => frame.inside).map((frame) => [towers.spanprof.shortName(frame.name), frame.inside.size]),
	[["_State_impl::_M_run", 2], ["std::sort", 2]]);
const inner = towers.spanprof.pattern("introsort|invoke_impl");
assert.equal(towers.spanprof.search(boxes.frames, inner).places.length, 1);
assert.deepEqual({ ...towers.spanprof.matched(boxes.folded, { bySpan: false }, inner) }, { ns: 5e8, baseNs: 0 });
assert.deepEqual({ ...towers.spanprof.matched(boxes.folded, { around: "work" }, towers.spanprof.pattern("memcpy")) }, { ns: 4e8, baseNs: 0 });
assert.deepEqual({ ...towers.spanprof.matched(boxes.folded, { around: "eval" }, towers.spanprof.pattern("leaf")) }, { ns: 2e8, baseNs: 0 });
const sort = towers.profile.names.findIndex((name) => name.includes("sort<"));
assert.deepEqual(Array.from(made({ libraries: true, isOpen: (name) => name === sort }).frames).filter((frame) => frame.inside).length, 1);
assert.equal(made({ libraries: true, isOpen: (name) => name === sort }).frames.filter((frame) => frame.name === "memcpy").length, 1);
assert.equal(made({ libraries: true, inverted: true }).frames.filter((frame) => frame.inside && frame.depth === 1).length, 1);
const rounds = made({ recursion: true }).frames;
assert.deepEqual(names(rounds).sort(), names(made({}).frames).sort().filter((name, i, all) =>
	name !== all[i - 1] || name === "leaf" ));
// The key of a frame finds it in every view that has it, and in no other.
for (const view of [{}, { libraries: true, recursion: true }, { inverted: true }, { around: "leaf" }]) {
	const frames = Array.from(made(view).frames), keys = frames.map(towers.spanprof.pathKeyOf);
	assert.equal(new Set(keys).size, frames.length);
	keys.forEach((key, i) => assert.equal(towers.spanprof.frameOfKey(frames, key), frames[i]));
	assert.equal(towers.spanprof.frameOfKey(frames, "x"), undefined);
}
// A span is no recursion of a function with its name.
const named = { ...towers.profile, names: ["[too narrow to draw]", "GET"], parent: [0, 1, 2], name: [1, 1, 1],
	kind: [towers.profile.kinds.indexOf("span"), 0, 0], ns: [0, 0, 5], samples: [0, 0, 1], baseNs: [0, 0, 0], baseSamples: [0, 0, 0] };
assert.equal(spanprof.fold({ ...named, kind: [0, 0, 0] }, { recursion: true, libraries: false, isOpen: () => false }).parent.length, 1);
assert.equal(spanprof.fold(named, { recursion: true, libraries: false, isOpen: () => false }).parent.length, 2);
// The functions of frames that are too narrow are unknown.
const narrow = { ...towers.profile, names: ["[too narrow to draw]", ...towers.profile.names.slice(1)],
	parent: [0, 1, 1], name: [1, 0, 2], kind: [0, 5, 0], ns: [0, 10, 90], samples: [0, 1, 9], baseNs: [0, 0, 0], baseSamples: [0, 0, 0] };
for (const [by, at, unknown, kept] of [["focus", 0, 10, 0], ["hide", 0, 0, 100], ["focus", 1, 0, 100], ["focus", 2, 10, 90], ["ignore", 2, 10, 10], ["ignore", 1, 0, 0], ["hide", 2, 0, 100]]) {
	const result = spanprof.filter(narrow, { focus: null, ignore: null, hide: null, [by]: { test: (name) => name === narrow.names[at] } });
	assert.deepEqual([by, result.unknown.ns, result.kept.ns], [by, unknown, kept]);
}
