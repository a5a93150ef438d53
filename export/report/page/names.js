// SPDX-License-Identifier: Apache-2.0
// Short names of C++ and Rust functions: without arguments, template arguments and outer namespaces.
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

	// The class and the function. A lambda has no name, so what it is in stays too.
	function lastParts(text) {
		const parts = text.split("::").filter((part) => part !== "");
		if (parts.length > 1 && parts[parts.length - 1] === hide("operator()") && parts[parts.length - 2][0] === "{")
			parts.pop();
		let from = parts.length, named = 0;
		while (from > 0 && named < 2) if (parts[--from][0] !== "{") named++;
		return parts.slice(from).join("::");
	}

	spanprof.shortName = (full) => {
		const source = full.match(/^(.*\S) \(([^()]*[./][^()]*)\)$/);
		if (source) return spanprof.shortName(source[1]) + " (" + source[2].split("/").pop() + ")";
		if (!/[<(:]/.test(full) || /^[[(]/.test(full)) return full;
		const plain = withoutBrackets(ofType(hide(full))).replace(/ \[clone [^\]]*\]/g, "")
			.replace(/ (const|volatile|&|&&)$/g, "").trim();
		return show(lastParts(plain.slice(plain.lastIndexOf(" ") + 1))) || full;
	};
})();
