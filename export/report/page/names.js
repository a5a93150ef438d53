// SPDX-License-Identifier: Apache-2.0
// Short names of functions, for all pages.
"use strict";
const spanprof = {};

// Short names of C++ and Rust functions: without arguments, template arguments and, if there is no
// room, outer namespaces.
(() => {
	// In "operator<" and "->" the brackets are a part of the name; while names are shortened,
	// these characters replace them.
	const stands = new Map([["<", "\ue000"], [">", "\ue001"], ["(", "\ue002"], [")", "\ue003"], [" ", "\ue004"]]);
	const back = new Map(Array.from(stands, ([is, stand]) => [stand, is]));
	const operator = /\boperator(\(\)|<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>| (?=[a-z_A-Z]))|->/g;
	const hide = (text) => text.replace(operator, (found) => found.replace(/[<>() ]/g, (c) => stands.get(c)));
	const show = (text) => text.replace(/[\ue000-\ue004]/g, (c) => back.get(c));

	// The index at which the bracket at the beginning of the text is closed; -1 = never.
	function endOf(text) {
		let depth = 0;
		for (let i = 0; i < text.length; i++) {
			if (text[i] === "<") depth++;
			if (text[i] === ">" && --depth === 0) return i;
		}
		return -1;
	}

	function withoutBrackets(text) {
		let out = "", depth = 0;
		for (const c of text) {
			if (c === "<" || c === "(") depth++;
			if (depth === 0) out += c;
			if ((c === ">" || c === ")") && depth > 0) depth--;
		}
		return depth === 0 ? out : text;
	}

	// Replaces Rust's "<Type as Trait>::method" by "Type::method".
	function ofType(text) {
		const end = text[0] === "<" ? endOf(text) : -1;
		return end < 0 ? text : text.slice(1, end).split(" as ")[0] + text.slice(end + 1);
	}

	// "operator()" of a lambda is left out, because a lambda has no name that it would say more
	// of.
	function partsOf(text) {
		const parts = text.split("::").filter((part) => part !== "");
		if (parts.length > 1 && parts[parts.length - 1] === hide("operator()") && parts[parts.length - 2][0] === "{")
			parts.pop();
		return parts;
	}

	// The last parts of a name: class and function; for a lambda also the function that
	// contains it.
	function lastParts(parts) {
		let from = parts.length, named = 0;
		while (from > 0 && named < 2) if (parts[--from][0] !== "{") named++;
		return parts.slice(from);
	}

	function lengthsOfFunction(full) {
		if (!/[<(:]/.test(full) || /^[[(]/.test(full)) return [full, full];
		const plain = withoutBrackets(ofType(hide(full))).replace(/ \[clone [^\]]*\]/g, "")
			.replace(/( (const|volatile|&&?))+$/, "").replace(/ +$/, "");
		const parts = partsOf(plain.slice(plain.lastIndexOf(" ") + 1));
		return [parts, lastParts(parts)].map((some) => show(some.join("::")) || full);
	}

	// The name of a function with its namespaces, and without them. short_name.c makes the same
	// names for the tables of spanprof-report.
	function lengths(full) {
		const source = full.match(/^(.*[^ ]) \(([^()]*[./][^()]*)\)$/);
		return source ? lengthsOfFunction(source[1]).map((name) => name + " (" + source[2].split("/").pop() + ")")
			: lengthsOfFunction(full);
	}

	spanprof.shortName = (full) => lengths(full)[1];

	// The name with its namespaces if it has at most `room` characters, otherwise without them:
	// functions of different namespaces often have the same class and name.
	spanprof.nameWithin = (full, room) => {
		const [long, short] = lengths(full);
		return long.length <= room ? long : short;
	};

	// Only names of functions are shortened: in "futex (lock)" the text in brackets says what
	// the thread waits for.
	spanprof.labelWithin = (full, kind, room) =>
		kind === "own" || kind === "library" ? spanprof.nameWithin(full, room) : full;
})();
