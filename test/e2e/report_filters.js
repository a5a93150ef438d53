// SPDX-License-Identifier: Apache-2.0
// A page's sums for each function after filters and folds; usage: node report_filters.js PAGE FOCUS IGNORE HIDE.
// Prints JSON: [name to [self time, total time], the time of all]. Reports a fold that changes a sum.
"use strict";
const assert = require("node:assert").strict;
const { read } = require("./page.js");

const [path, focus, ignore, hide] = process.argv.slice(2);
const { spanprof, profile } = read(path);
const pattern = (text) => text ? new RegExp(text, "u") : null; // the page ignores upper and lower case
const filtered = spanprof.filter(profile, { focus: pattern(focus), ignore: pattern(ignore), hide: pattern(hide) });
const sums = (of) => Object.fromEntries(spanprof.functions(of).map((f) => [f.name, [f.selfNs, f.ns]]));
const sorted = (of) => Object.entries(sums(of)).sort();
const whole = spanprof.whole(filtered);

if (filtered.kept) assert.deepEqual({ ...filtered.kept }, { ...whole });
// A fold of recursion keeps all sums of functions. A fold of libraries keeps the sums of all other functions, and the
// total.
const noneOpen = () => false;
const folded = spanprof.fold(filtered, { recursion: true, libraries: false, isOpen: noneOpen });
assert.deepEqual(sorted(folded), sorted(filtered));
for (const recursion of [false, true]) {
	const libraries = spanprof.fold(filtered, { recursion, libraries: true, isOpen: noneOpen });
	const own = (of) => spanprof.functions(of).filter((f) => f.kind === "own").map((f) => [f.name, f.selfNs, f.ns]).sort();
	assert.deepEqual(own(libraries), own(filtered));
	assert.deepEqual({ ...spanprof.whole(libraries) }, { ...whole });
	const opened = spanprof.fold(filtered, { recursion, libraries: true, isOpen: () => true });
	assert.deepEqual(sorted(opened), sorted(filtered));
}
console.log(JSON.stringify([sums(filtered), (filtered.kept || whole).ns]));
