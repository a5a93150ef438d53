// SPDX-License-Identifier: Apache-2.0
// Short names of C++ and Rust functions: without arguments, template arguments and, where there is no room,
// outer namespaces.
"use strict";
const spanprof = {};

(() => {
	// In "operator<" and "->" the brackets are a part of the name; these characters stand for them meanwhile.
	const stands = new Map([["<", "\ue000"], [">", "\ue001"], ["(", "\ue002"], [")", "\ue003"], [" ", "\ue004"]]);
	const back = new Map(Array.from(stands, ([is, stand]) => [stand, is]));
	const operator = /\boperator(\(\)|<=>|<<=|>>=|->\*|<<|>>|<=|>=|->|<|>| (?=[a-z_A-Z]))|->/g;
	const hide = (text) => text.replace(operator, (found) => found.replace(/[<>() ]/g, (c) => stands.get(c)));
	const show = (text) => text.replace(/[\ue000-\ue004]/g, (c) => back.get(c));

	// Where the bracket at the beginning of the text ends; -1 if it does not.
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

	// Rust's "<Type as Trait>::method" is Type::method.
	function ofType(text) {
		const end = text[0] === "<" ? endOf(text) : -1;
		return end < 0 ? text : text.slice(1, end).split(" as ")[0] + text.slice(end + 1);
	}

	// A lambda has no name, so "operator()" of it says nothing.
	function partsOf(text) {
		const parts = text.split("::").filter((part) => part !== "");
		if (parts.length > 1 && parts[parts.length - 1] === hide("operator()") && parts[parts.length - 2][0] === "{")
			parts.pop();
		return parts;
	}

	// The class and the function, and with a lambda what it is in.
	function lastParts(parts) {
		let from = parts.length, named = 0;
		while (from > 0 && named < 2) if (parts[--from][0] !== "{") named++;
		return parts.slice(from);
	}

	// A name of a function with its namespaces, and without them.
	function lengths(full) {
		const source = full.match(/^(.*\S) \(([^()]*[./][^()]*)\)$/);
		if (source) return lengths(source[1]).map((name) => name + " (" + source[2].split("/").pop() + ")");
		if (!/[<(:]/.test(full) || /^[[(]/.test(full)) return [full, full];
		const plain = withoutBrackets(ofType(hide(full))).replace(/ \[clone [^\]]*\]/g, "")
			.replace(/ (const|volatile|&|&&)$/g, "").trim();
		const parts = partsOf(plain.slice(plain.lastIndexOf(" ") + 1));
		return [parts, lastParts(parts)].map((some) => show(some.join("::")) || full);
	}

	spanprof.shortName = (full) => lengths(full)[1];

	// Functions of different namespaces often have the same class and name: with the namespaces, where
	// that has no more characters than there is room for.
	spanprof.nameWithin = (full, room) => {
		const [long, short] = lengths(full);
		return long.length <= room ? long : short;
	};

	// Only functions have names to be shortened: what is in brackets behind "futex (lock)" tells what it waits for.
	spanprof.labelWithin = (full, kind, room) =>
		kind === "own" || kind === "library" ? spanprof.nameWithin(full, room) : full;
})();
