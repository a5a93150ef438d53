// SPDX-License-Identifier: Apache-2.0
// The page's short names for functions, for a limit of letters; usage: node short_names.js PAGE LETTERS. Prints JSON:
// name to short name.
"use strict";
const { read } = require("./page.js");

const { spanprof, profile } = read(process.argv[2]);
console.log(JSON.stringify(Object.fromEntries(profile.name.map((name, i) => [profile.names[name],
	spanprof.labelWithin(profile.names[name], profile.kinds[profile.kind[i]], Number(process.argv[3]))]))));
