// SPDX-License-Identifier: Apache-2.0
// Lists whose rows can be chosen, and the one of all functions.
"use strict";
(() => {
	const ROWS_MAX = 200;
	const NAME_LETTERS = 70;

	spanprof.make = (name, text, parent) => {
		const element = document.createElement(name);
		if (text) element.textContent = text;
		if (parent) parent.append(element);
		return element;
	};
	const make = spanprof.make;

	// A list with a heading; a row is [whether it is chosen, what to do when it is clicked, texts, and the
	// whole name if the first text is not].
	spanprof.list = (headings, rows) => {
		const box = make("div"), table = make("table", "", box), head = make("tr", "", table);
		box.className = "list";
		headings.forEach((text, i) => { make("th", text, head).className = i > 0 ? "number" : ""; });
		for (const [isChosen, click, texts, whole] of rows) {
			const row = make("tr", "", table);
			row.className = isChosen ? "chosen" : "";
			texts.forEach((text, i) => {
				const cell = make("td", i > 0 ? text : "", row);
				cell.className = i > 0 ? "number" : "";
				if (i > 0) return;
				const button = make("button", text, cell);
				button.type = "button";
				button.title = whole || text;
				button.addEventListener("click", click);
			});
		}
		return box;
	};

	// Newer lists instead of those that were there, scrolled as they were.
	spanprof.replaceLists = (parent, ...elements) => {
		const old = Array.from(parent.querySelectorAll(".list"), (box) => box.scrollTop);
		parent.replaceChildren(...elements);
		parent.querySelectorAll(".list").forEach((box, i) => { box.scrollTop = old[i] || 0; });
	};

	const isFunction = (profile, i) => !["span", "marker", "unsampled"].includes(profile.kinds[profile.kind[i]]);

	// The time of each function by itself and with what it calls. Where it calls itself, that counts once.
	spanprof.functions = (profile) => {
		const all = new Map(), counted = new Map();
		const add = (sums, i, time, baseTime) => {
			sums[time] += profile.ns[i];
			sums[baseTime] += profile.baseNs[i];
		};
		for (let i = 0; i < profile.parent.length; i++) {
			if (profile.ns[i] === 0 && profile.baseNs[i] === 0) continue;
			for (let k = i; k >= 0; k = profile.parent[k] - 1) {
				const name = profile.names[profile.name[k]];
				if (!isFunction(profile, k) || counted.get(name) === i) continue;
				counted.set(name, i);
				if (!all.has(name)) all.set(name, { name, kind: profile.kinds[profile.kind[k]], selfNs: 0, baseSelfNs: 0, ns: 0, baseNs: 0 });
				add(all.get(name), i, "ns", "baseNs");
				if (k === i) add(all.get(name), i, "selfNs", "baseSelfNs");
			}
		}
		return Array.from(all.values());
	};

	// The functions that match, sorted by their own share, or by how much that changed.
	spanprof.functionList = (drawing, pattern, around, choose) => {
		const { profile, whole } = drawing;
		const of = (ns) => ns / (whole.ns || 1), ofBase = (ns) => ns / (whole.baseNs || 1);
		const rank = (f) => profile.diff ? Math.abs(of(f.selfNs) - ofBase(f.baseSelfNs)) : f.selfNs;
		const found = spanprof.functions(profile).filter((f) => !pattern || pattern.test(f.name))
			.sort((a, b) => rank(b) - rank(a) || b.ns - a.ns || (a.name < b.name ? -1 : 1));
		const texts = (f) => profile.diff
			? [spanprof.percent(of(f.selfNs)), spanprof.percent(ofBase(f.baseSelfNs)),
				spanprof.percent(of(f.ns)), spanprof.percent(ofBase(f.baseNs))]
			: [spanprof.seconds(f.selfNs), spanprof.percent(of(f.selfNs)), spanprof.seconds(f.ns), spanprof.percent(of(f.ns))];
		const headings = profile.diff ? ["itself", "baseline", "with callees", "baseline"]
			: ["itself", "of all", "with callees", "of all"];
		const count = found.length > ROWS_MAX ? "the first " + ROWS_MAX + " of " + found.length + " functions" : "function";
		return spanprof.list([count, ...headings], found.slice(0, ROWS_MAX).map((f) =>
			[f.name === around, () => choose(f.name === around ? "" : f.name), [spanprof.labelWithin(f.name, f.kind, NAME_LETTERS), ...texts(f)], f.name]));
	};
})();
