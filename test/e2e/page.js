// SPDX-License-Identifier: Apache-2.0
// The functions and the profile of a flame graph's page, as spanprof-report wrote it, for tests in node. Its document
// is a stand-in that accepts every call and does nothing.
"use strict";
const fs = require("node:fs");
const vm = require("node:vm");

const anything = new Proxy(function () {}, {
	get: (_, key) => key === Symbol.toPrimitive ? () => "" : key === Symbol.iterator ? [][Symbol.iterator].bind([]) : anything,
	set: () => true, apply: () => anything, construct: () => anything,
});

exports.read = (path) => {
	const html = fs.readFileSync(path, "utf8");
	const scripts = [...html.matchAll(/<script[^>]*>\n?([^]*?)<\/script>/g)].map((match) => match[1]);
	const data = JSON.parse(scripts.find((text) => text.trimStart().startsWith("{")));
	const context = vm.createContext({ document: anything, window: anything, innerWidth: 1200, innerHeight: 700,
		requestAnimationFrame: () => 0, getComputedStyle: () => anything, ResizeObserver: anything });
	const text = scripts.find((script) => script.includes("const spanprof = {}"));
	// The call that draws at once is removed; all functions are defined by then.
	const spanprof = vm.runInContext(`${text.replace(/spanprof\.showInline\(\);\s*$/, "")}\nspanprof`, context);
	return { spanprof, profile: spanprof.read(data) };
};
