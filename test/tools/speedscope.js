// SPDX-License-Identifier: Apache-2.0
// Opens profiles with speedscope's importer from npm, without its user interface:
//
//	node speedscope.js BUNDLE FILE...
//
// Prints for each file "weight-unit total frames profiles" and below it the names of its frames. The package has one
// bundle for browsers and exports nothing. So its last statement, which starts the user interface, is left out, and
// the importer is among the modules that it loads when needed.
"use strict";
const fs = require("fs");
const vm = require("vm");
const path = require("path");

// The browser's objects that the bundle reads while it loads. Anything else is an error.
function browser() {
	const nothing = new Proxy(function () {}, {
		get: (_, key) => (key === Symbol.toPrimitive ? () => "" : nothing),
		apply: () => nothing,
		construct: () => nothing,
	});
	const window = { location: { href: "http://localhost/", hash: "", protocol: "http:" },
		addEventListener() {}, matchMedia: () => nothing, localStorage: {} };

	return { window, self: window, document: nothing, navigator: { platform: "", userAgent: "" },
		location: window.location, localStorage: {}, matchMedia: window.matchMedia,
		console: { log() {}, error: console.error, warn() {} }, fetch: undefined, URL,
		TextDecoder, TextEncoder, Uint8Array, ArrayBuffer, DataView, setTimeout, clearTimeout,
		performance, requestAnimationFrame() {}, FileReader: nothing, Promise };
}

function importer(bundle) {
	const source = fs.readFileSync(bundle, "utf8");
	const start = source.lastIndexOf("console.log(`speedscope v");
	const loaders = Array.from(source.matchAll(/Promise\.resolve\(\)\.then\((\(\)=>\([^)]*\(\),[^)]*\))\)/g),
		(match) => match[1]);

	if (start < 0 || loaders.length === 0) throw new Error("not the speedscope that is known here");
	const context = vm.createContext(browser());
	vm.runInContext(`${source.slice(0, start)}globalThis.loaders=[${loaders}];})();`, context);
	const open = context.loaders.map((load) => load().importProfilesFromArrayBuffer).find(Boolean);
	return (name, bytes) => {
		// The bundle checks whether it got one of its own ArrayBuffers.
		const copy = vm.runInContext(`new Uint8Array(${bytes.length})`, context);

		copy.set(bytes);
		return open(name, copy.buffer);
	};
}

async function main(bundle, files) {
	const open = importer(bundle);

	for (const file of files) {
		const group = await open(path.basename(file), fs.readFileSync(file));
		if (group === null || group.profiles.length === 0)
			throw new Error(`${file}: speedscope does not know what it is`);
		const profile = group.profiles[0];
		const names = new Set();
		profile.forEachFrame((frame) => names.add(frame.name));
		console.log(`${profile.getWeightUnit()} ${profile.getTotalWeight()} ${names.size} ` +
			group.profiles.length);
		for (const name of Array.from(names).sort()) console.log(`  ${name}`);
	}
}

main(process.argv[2], process.argv.slice(3)).catch((e) => {
	console.error(String(e && e.stack || e));
	process.exit(1);
});
