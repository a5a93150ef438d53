// SPDX-License-Identifier: Apache-2.0
// The page: names, stacks, changes, frames, search and lists are functions of "spanprof"; what is clicked and typed
// comes last.
"use strict";
const spanprof = {};

// Short names of C++ and Rust functions: without arguments, template arguments and, where there is no room,
// outer namespaces.
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

// Builds what is drawn out of the data: stacks from their roots, or from their leaves, per span or not.
(() => {
	const NONE = -1;

	// Columns of a node in the data; the first node has number 1, and 0 is the root.
	spanprof.read = (data) => {
		const stride = data.diff ? 7 : 5;
		const column = (offset) => {
			const out = [];
			for (let i = offset; i < data.nodes.length; i += stride) out.push(data.nodes[i]);
			return out;
		};
		const none = () => new Array(data.nodes.length / stride).fill(0);
		return {
			title: data.title, sums: data.sums, time: data.time, inBytes: data.inBytes, diff: data.diff, bySpan: data.bySpan,
			by: data.by || "span",
			names: data.names, kinds: data.kinds,
			parent: column(0), name: column(1), kind: column(2), ns: column(3), samples: column(4),
			baseNs: data.diff ? column(5) : none(), baseSamples: data.diff ? column(6) : none(),
		};
	};

	// Whether there is more than one name at the roots, so that a view without them differs.
	spanprof.hasSpans = (profile) => profile.parent.some((parent, i) =>
		parent === 0 && !["(no span)", "(no value)"].includes(profile.names[profile.name[i]]));

	const frame = (name, kind, parent) => ({
		name, kind, parent, children: new Map(), callers: [], depth: parent ? parent.depth + 1 : 0,
		ns: 0, selfNs: 0, samples: 0, baseNs: 0, baseSamples: 0, left: 0, width: 0,
	});

	// The child of a frame that stands for node k of the data.
	function childOf(parent, profile, k) {
		const name = profile.names[profile.name[k]];
		let child = parent.children.get(name);
		if (!child) {
			child = frame(name, profile.kinds[profile.kind[k]], parent);
			parent.children.set(name, child);
		}
		return child;
	}

	function add(at, profile, i) {
		at.ns += profile.ns[i];
		at.samples += profile.samples[i];
		at.baseNs += profile.baseNs[i];
		at.baseSamples += profile.baseSamples[i];
	}

	const isEmpty = (profile, i) => profile.ns[i] === 0 && profile.baseNs[i] === 0 && profile.samples[i] === 0;

	// The same child, to which what was measured at node i is added.
	function addChild(parent, profile, k, i) {
		const child = childOf(parent, profile, k);
		add(child, profile, i);
		return child;
	}

	function addFromRoot(root, profile, bySpan) {
		const made = [root];
		for (let i = 0; i < profile.parent.length; i++) {
			const parent = made[profile.parent[i]];
			const isSpan = profile.kinds[profile.kind[i]] === "span";
			made.push(isSpan && !bySpan ? parent : childOf(parent, profile, i));
			if (isEmpty(profile, i)) continue;
			made[i + 1].selfNs += profile.ns[i];
			for (let at = made[i + 1]; at; at = at.parent) add(at, profile, i);
		}
	}

	// Each stack begins with its leaf, which is followed by its callers.
	function addFromLeaf(root, profile, bySpan) {
		for (let i = 0; i < profile.parent.length; i++) {
			if (isEmpty(profile, i)) continue;
			let at = root, span = NONE;
			for (let k = i; k >= 0; k = profile.parent[k] - 1)
				if (profile.kinds[profile.kind[k]] === "span") span = k;
			add(root, profile, i);
			if (span !== NONE && bySpan) at = addChild(root, profile, span, i);
			for (let k = i; k >= 0 && k !== span; k = profile.parent[k] - 1) at = addChild(at, profile, k, i);
			at.selfNs += profile.ns[i];
		}
	}

	// The numbers of nodes that are drawn of a stack, its leaf first.
	function stackOf(profile, i, bySpan) {
		const out = [];
		for (let k = i; k >= 0; k = profile.parent[k] - 1)
			if (bySpan || profile.kinds[profile.kind[k]] !== "span") out.push(k);
		return out;
	}

	// One function wherever it is called: below it what it calls, above it its callers. A sample counts
	// once, at the outermost of its calls, so what a recursive function calls has that function in it.
	function addAround(middle, callers, profile, view) {
		for (let i = 0; i < profile.parent.length; i++) {
			if (isEmpty(profile, i)) continue;
			const stack = stackOf(profile, i, view.bySpan);
			const outermost = stack.findLastIndex((k) => profile.names[profile.name[k]] === view.around);
			if (outermost < 0) continue;
			let below = middle, above = callers;
			middle.kind = profile.kinds[profile.kind[stack[outermost]]];
			add(middle, profile, i);
			for (let k = outermost - 1; k >= 0; k--) below = addChild(below, profile, stack[k], i);
			below.selfNs += profile.ns[i];
			if (below !== middle && below.name === view.around) middle.selfNs += profile.ns[i];
			for (const k of stack.slice(outermost + 1)) above = addChild(above, profile, k, i);
		}
	}

	const part = (ns, whole) => whole > 0 ? ns / whole : 0;

	// The share of a frame; in a comparison the mean of both, so that what is gone is still seen.
	spanprof.share = (frame, whole) => whole.baseNs > 0
		? (part(frame.ns, whole.ns) + part(frame.baseNs, whole.baseNs)) / 2 : part(frame.ns, whole.ns);

	// Places all frames under a root, 0 to 1, callers before their callees and the largest on the left.
	function place(root, whole) {
		const order = [root], share = spanprof.share(root, whole) || 1;
		root.width = 1;
		for (let i = 0; i < order.length; i++) {
			const at = order[i];
			const children = Array.from(at.children.values());
			for (const child of children) child.width = spanprof.share(child, whole) / share;
			children.sort((a, b) => b.width - a.width || (a.name < b.name ? -1 : 1));
			let left = at.left;
			for (const child of children) {
				child.left = left;
				left += child.width;
				order.push(child);
			}
			at.children = children;
		}
		return order;
	}

	// The sums of all samples, of which shares are told.
	spanprof.whole = (profile) => {
		const whole = { ns: 0, samples: 0, baseNs: 0, baseSamples: 0 };
		for (let i = 0; i < profile.parent.length; i++) add(whole, profile, i);
		return whole;
	};

	function buildAround(profile, view, whole) {
		const middle = frame(view.around, "marker", null), callers = frame(view.around, "marker", null);
		addAround(middle, callers, profile, view);
		callers.ns = middle.ns;
		callers.baseNs = middle.baseNs;
		const below = place(middle, whole), above = place(callers, whole).slice(1);
		middle.callers = callers.children;
		for (const at of above) {
			if (at.parent === callers) at.parent = middle;
			at.depth = -at.depth;
		}
		return below.concat(above);
	}

	// The frames of a view, the root first, which is "all" or the function that the view is of. Rows are
	// complete: a frame comes after all that lie between it and the root. Callers in a view of a function
	// have negative depths.
	spanprof.build = (profile, view, whole) => {
		if (view.around) return buildAround(profile, view, whole);
		const root = frame("all", "marker", null);
		(view.inverted ? addFromLeaf : addFromRoot)(root, profile, view.bySpan);
		return place(root, whole);
	};
})();

// Says in numbers and colours what a frame takes, and how that differs from the baseline.
(() => {
	// How many standard errors two shares have to lie apart: there are many frames, and by chance alone
	// one in 20 would be two apart.
	const ERRORS = 3;
	const EXPECTED_SAMPLES = 5;
	const part = (n, whole) => whole > 0 ? n / whole : 0;

	// Whether the samples of a frame are enough to say that its share is another one than in the baseline.
	spanprof.isChange = (frame, whole) => {
		const now = whole.samples, then = whole.baseSamples;
		const both = part(frame.samples + frame.baseSamples, now + then);
		const byTime = part(frame.ns, whole.ns) - part(frame.baseNs, whole.baseNs);
		const bySamples = part(frame.samples, now) - part(frame.baseSamples, then);
		const error = Math.sqrt(both * (1 - both) * (1 / now + 1 / then));
		return both * Math.min(now, then) >= EXPECTED_SAMPLES && byTime * bySamples > 0 &&
			Math.abs(bySamples) >= ERRORS * error;
	};

	// What is said where no frame differs by more than chance, and colours would tell nothing.
	spanprof.verdict = (frames, whole) => frames.some((frame) => spanprof.isChange(frame, whole)) ? "" :
		(Math.min(whole.samples, whole.baseSamples) < 2 * EXPECTED_SAMPLES ? "Too few samples to compare"
			: "No frame differs by more than chance") + ": " + whole.samples + " samples here, " + whole.baseSamples +
		" in the baseline. Colours tell whose code a frame is.";

	// -1 to 1: how much of the frame is new, or gone.
	spanprof.change = (frame, whole) => {
		const now = part(frame.ns, whole.ns), then = part(frame.baseNs, whole.baseNs);
		return part(now - then, now + then);
	};

	spanprof.percent = (share) => (100 * share).toFixed(2) + " %";
	spanprof.amount = (n, inBytes) => inBytes ? (n / (1 << 20)).toFixed(3) + " MiB" : (n / 1e9).toFixed(3) + " s";
	const counted = (profile) => profile.inBytes ? " blocks" : " samples";
	const points = (difference) => (difference >= 0 ? "+" : "\u2212") + Math.abs(100 * difference).toFixed(2) + " points";

	// What is told of a frame besides its name. Callers of a leaf or of a function have no time of their
	// own there.
	spanprof.numbers = (frame, whole, profile, inverted) => {
		const now = part(frame.ns, whole.ns), then = part(frame.baseNs, whole.baseNs);
		if (!profile.diff)
			return spanprof.percent(now) + " of all, " + spanprof.amount(frame.ns, profile.inBytes) + " " + profile.time +
				(inverted || frame.depth < 0 ? "" : ", itself " + spanprof.amount(frame.selfNs, profile.inBytes)) + ", " + frame.samples + counted(profile);
		const isAll = frame.samples === whole.samples && frame.baseSamples === whole.baseSamples;
		return spanprof.percent(now) + " here, " + spanprof.percent(then) + " in the baseline (" +
			points(now - then) + "), " + frame.samples + " and " + frame.baseSamples + counted(profile) +
			(isAll || spanprof.isChange(frame, whole) ? "" : "; too few samples to call it a difference");
	};
})();

// Draws frames as elements. Names of a profile become text of elements, never markup.
(() => {
	const SEEN_PIXELS = 0.7;
	const WIDE_PIXELS = 8;
	const TEXT_PIXELS = 24;
	const PADDING_PIXELS = 7;
	const VARIANTS = 5;

	// The same function has the same shade in every picture.
	function variantOf(name) {
		let hash = 2166136261;
		for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
		return (hash >>> 16) % VARIANTS;
	}

	function colour(element, frame, { whole, compared }) {
		if (!compared) {
			element.classList.add(frame.kind, "v" + variantOf(frame.name));
			return;
		}
		if (!spanprof.isChange(frame, whole)) {
			element.classList.add("unchanged");
			return;
		}
		const change = spanprof.change(frame, whole);
		element.classList.add(change > 0 ? "more" : "less");
		element.style.setProperty("--much", Math.abs(change).toFixed(2));
	}

	const labelOf = (frame, room) => spanprof.labelWithin(frame.name, frame.kind, room);

	// All characters of the frames' font are as wide as this one.
	let letterPixels = 0;
	function widthOfLetter(container) {
		const probe = document.createElement("span");
		probe.className = "letter";
		probe.textContent = "0".repeat(100);
		container.append(probe);
		const width = probe.getBoundingClientRect().width / 100;
		probe.remove();
		return width;
	}

	function elementOf(frame, place, drawing) {
		const element = document.createElement("div");
		element.className = "frame";
		colour(element, frame, drawing);
		element.classList.toggle("found", drawing.found.has(frame));
		element.classList.toggle("selected", frame === drawing.selected);
		element.classList.toggle("outside", place.outside);
		element.style.left = 100 * place.left + "%";
		element.style.width = 100 * place.width + "%";
		element.style.top = "calc(var(--row) * " + (frame.depth - drawing.top) + ")";
		if (place.pixels >= TEXT_PIXELS)
			element.textContent = labelOf(frame, (place.pixels - PADDING_PIXELS) / letterPixels);
		element.classList.toggle("wide", place.pixels >= WIDE_PIXELS);
		element.frame = frame;
		return element;
	}

	const isAbove = (frame, zoom) => {
		for (let at = zoom.parent; at; at = at.parent) if (at === frame) return true;
		return false;
	};

	// Where a frame is when another one is as wide as the page; null = outside of the page.
	function placeOf(frame, zoom, width) {
		if (isAbove(frame, zoom)) return { left: 0, width: 1, pixels: width, outside: true };
		const left = (frame.left - zoom.left) / zoom.width;
		const share = frame.width / zoom.width;
		if (Math.abs(frame.depth) < Math.abs(zoom.depth) || frame.depth * zoom.depth < 0 || left < -1e-9 || left >= 1 - 1e-9) return null;
		return share * width >= SEEN_PIXELS ? { left, width: share, pixels: share * width, outside: false } : null;
	}

	// Whether a frame is drawn, and wide enough for its name.
	spanprof.isLegible = (container, drawing, frame) => {
		const place = placeOf(frame, drawing.zoom, container.clientWidth);
		return place !== null && place.pixels >= TEXT_PIXELS;
	};

	// drawing: frames (the root first), root, whole, profile, zoom, selected, found (a Set), compared (whether
	// colours tell the difference to the baseline).
	spanprof.draw = (container, drawing) => {
		const width = container.clientWidth;
		const elements = document.createDocumentFragment();
		letterPixels = letterPixels || widthOfLetter(container);
		const seen = drawing.frames.map((frame) => [frame, placeOf(frame, drawing.zoom, width)]).filter(([, place]) => place);
		drawing.top = seen.reduce((top, [frame]) => Math.min(top, frame.depth), 0);
		const bottom = seen.reduce((depth, [frame]) => Math.max(depth, frame.depth), 0);
		for (const [frame, place] of seen) elements.append(elementOf(frame, place, drawing));
		container.replaceChildren(elements);
		container.style.height = "calc(var(--row) * " + (bottom - drawing.top + 1) + ")";
	};

	// The nearest frame in a direction.
	spanprof.neighbour = (frame, key) => {
		const isCaller = frame.depth < 0;
		const inward = isCaller ? "ArrowDown" : "ArrowUp", outward = isCaller ? "ArrowUp" : "ArrowDown";
		if (key === inward && frame.parent) return frame.parent;
		if (key === outward) return frame.children[0] || null;
		if (key === inward) return frame.callers[0] || null;
		if (!frame.parent) return null;
		const siblings = isCaller && !frame.parent.parent ? frame.parent.callers : frame.parent.children;
		return siblings[siblings.indexOf(frame) + (key === "ArrowRight" ? 1 : -1)] || null;
	};
})();

// Finds frames by a regular expression.
(() => {
	// Without regard to case. Null = it is no regular expression.
	spanprof.pattern = (text) => {
		try {
			return new RegExp(text, "iu");
		} catch {
			return null;
		}
	};

	// The frames with such names, and where to look for them, the widest first: matches that no other
	// match has called. Frames come after their callers.
	spanprof.search = (frames, pattern) => {
		const found = new Set(), inside = new Set(), places = [];
		for (const frame of frames) {
			const within = frame.parent !== null && inside.has(frame.parent);
			const matches = frame.parent !== null && pattern.test(frame.name);
			if (matches) found.add(frame);
			if (within || matches) inside.add(frame);
			if (matches && !within) places.push(frame);
		}
		places.sort((a, b) => b.width - a.width);
		return { found, places };
	};

	// The time of all stacks of a view with a match anywhere.
	spanprof.matched = (profile, view, pattern) => {
		const names = profile.names.map((name) => pattern.test(name));
		const around = profile.names.indexOf(view.around);
		const matches = [false], through = [!view.around], sums = { ns: 0, baseNs: 0 };
		for (let i = 0; i < profile.parent.length; i++) {
			const isDrawn = view.bySpan || profile.kinds[profile.kind[i]] !== "span";
			matches.push(matches[profile.parent[i]] || (isDrawn && names[profile.name[i]]));
			through.push(through[profile.parent[i]] || (isDrawn && profile.name[i] === around));
			if (!matches[i + 1] || !through[i + 1]) continue;
			sums.ns += profile.ns[i];
			sums.baseNs += profile.baseNs[i];
		}
		return sums;
	};
})();

// Lists whose rows can be chosen, and the one of all functions.
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
			: [spanprof.amount(f.selfNs, profile.inBytes), spanprof.percent(of(f.selfNs)), spanprof.amount(f.ns, profile.inBytes), spanprof.percent(of(f.ns))];
		const headings = profile.diff ? ["itself", "baseline", "with callees", "baseline"]
			: ["itself", "of all", "with callees", "of all"];
		const count = found.length > ROWS_MAX ? "the first " + ROWS_MAX + " of " + found.length + " functions" : "function";
		return spanprof.list([count, ...headings], found.slice(0, ROWS_MAX).map((f) =>
			[f.name === around, () => choose(f.name === around ? "" : f.name), [spanprof.labelWithin(f.name, f.kind, NAME_LETTERS), ...texts(f)], f.name]));
	};
})();

// The page around the frames: what is clicked and typed.
(() => {
	const byId = (id) => document.getElementById(id);
	const HINT = "Click a frame, or move with the arrow keys and press Enter, to zoom. Esc goes back. / searches, n and N go through the matches.";
	const KINDS = [["own", "own code"], ["library", "libraries"], ["kernel", "kernel"], ["waiting", "waiting"],
		["unsampled", "unsampled"], ["span", "span names"], ["marker", "not known, or too narrow"]];
	// What is drawn: "around" is the name of the function of which callers and callees are shown, or "".
	const view = { bySpan: false, inverted: false, around: "" };
	const drawing = { frames: [], root: null, whole: null, profile: null, zoom: null, selected: null, found: new Set(),
		places: [], place: -1, compared: false };

	let share = ""; // what is said of all matches

	const draw = () => {
		if (!drawing.root) return;
		spanprof.draw(byId("frames"), drawing);
		byId("reset").disabled = drawing.zoom === drawing.root && !view.around;
		byId("around").disabled = !canBeAround(drawing.selected);
		byId("inverted").disabled = view.around !== "";
	};

	// A function or a span, but neither "all" nor what is too narrow to draw.
	const canBeAround = (frame) => frame !== null && frame.kind !== "marker" && frame.name !== view.around;

	const numbers = (frame) => spanprof.numbers(frame, drawing.whole, drawing.profile, view.inverted && !view.around);

	function note(id, text) {
		byId(id).textContent = text;
		byId(id).hidden = text === "";
	}

	function describe(frame) {
		byId("name").textContent = frame ? frame.name : "";
		byId("numbers").textContent = frame ? numbers(frame) : HINT;
		byId("copy").hidden = !frame;
		byId("copy").textContent = "Copy name";
	}

	// What is selected is not left under the head or the foot of the page, which stay where they are.
	function scrollTo(element) {
		document.documentElement.style.scrollPadding = document.querySelector("header").offsetHeight + "px 0 " +
			byId("details").offsetHeight + "px";
		element.scrollIntoView({ block: "nearest" });
	}

	function select(frame) {
		drawing.selected = frame;
		describe(frame);
		draw();
		const element = document.querySelector(".frame.selected");
		if (element) scrollTo(element);
	}

	function zoom(frame) {
		drawing.zoom = frame;
		select(frame === drawing.root && !view.around ? null : frame);
	}

	// Where the browser does not let the page copy, the name is marked, so that it can be copied from there.
	async function copyName() {
		try {
			await navigator.clipboard.writeText(drawing.selected.name);
			byId("copy").textContent = "Copied";
		} catch {
			getSelection().selectAllChildren(byId("name"));
		}
	}

	// The callers and callees of a function, or the whole profile again.
	function lookAround(name) {
		view.around = name;
		build(false);
		frames.focus({ preventScroll: true }); // the button that was pressed is disabled now
		scrollTo(name ? document.querySelector(".frame.selected") : byId("frames"));
	}

	// The whole profile as it was at first.
	function reset() {
		if (view.around) lookAround("");
		else zoom(drawing.root);
	}

	function search() {
		const text = byId("search").value;
		const pattern = text === "" ? null : spanprof.pattern(text);
		const result = pattern ? spanprof.search(drawing.frames, pattern) : { found: new Set(), places: [] };
		const sums = pattern && spanprof.matched(drawing.profile, view, pattern);
		Object.assign(drawing, { found: result.found, places: result.places, place: -1 });
		byId("search").classList.toggle("wrong", text !== "" && !pattern);
		share = !pattern ? "" : "matched: " + spanprof.percent(sums.ns / (drawing.whole.ns || 1)) + (drawing.profile.diff
			? ", baseline " + spanprof.percent(sums.baseNs / (drawing.whole.baseNs || 1)) : "");
		byId("matched").value = text !== "" && !pattern ? "no regular expression" : share + placesOf(drawing);
		listFunctions(pattern);
		draw();
	}

	function listFunctions(pattern) {
		byId("functions").hidden = !byId("listed").checked;
		if (byId("listed").checked)
			spanprof.replaceLists(byId("functions"), spanprof.functionList(drawing, pattern, view.around, lookAround));
	}

	function placesOf({ places, place }) {
		if (places.length === 0) return "";
		if (place >= 0) return ", place " + (place + 1) + " of " + places.length;
		return places.length === 1 ? " in 1 place" : " in " + places.length + " places";
	}

	// Selects the next or the previous match, and zooms to it if it is too narrow to be seen otherwise.
	function nextMatch(step) {
		const n = drawing.places.length;
		if (n === 0) return;
		drawing.place = drawing.place < 0 && step < 0 ? n - 1 : (drawing.place + step + n) % n;
		const frame = drawing.places[drawing.place];
		for (const to of [drawing.root, frame])
			if (!spanprof.isLegible(frames, drawing, frame)) drawing.zoom = to;
		select(frame);
		byId("matched").value = share + placesOf(drawing);
	}

	// The same frame in a newly built view, by the names on the way to it.
	function again(frame, root) {
		const names = [];
		for (let at = frame; at && at.parent; at = at.parent) names.unshift(at.name);
		let at = root, next = frame && frame.depth < 0 ? root.callers : root.children;
		for (const name of names) {
			const child = next.find((c) => c.name === name);
			if (!child) return root;
			at = child;
			next = child.children;
		}
		return at;
	}

	function build(keepZoom) {
		const zoomed = keepZoom ? drawing.zoom : null;
		drawing.frames = spanprof.build(drawing.profile, view, drawing.whole);
		drawing.root = drawing.frames[0];
		if (view.around && drawing.root.ns === 0 && drawing.root.baseNs === 0) {
			view.around = ""; // the profile, or the view without spans, does not have it
			return build(false);
		}
		drawing.zoom = again(zoomed, drawing.root);
		drawing.selected = drawing.zoom === drawing.root && !view.around ? null : drawing.zoom;
		const verdict = drawing.profile.diff ? spanprof.verdict(drawing.frames, drawing.whole) : "";
		drawing.compared = drawing.profile.diff && verdict === "";
		note("verdict", verdict);
		describe(drawing.selected);
		legend();
		search();
	}

	function legend() {
		// The root, "all", is no frame that somebody asks about.
		const there = new Set(drawing.frames.filter((frame) => frame !== drawing.root).map((frame) => frame.kind));
		const entries = drawing.compared
			? [["more", "larger share than in the baseline"], ["less", "smaller share"], ["unchanged", "no difference, or too few samples to say"]]
			: KINDS.filter(([kind]) => there.has(kind));
		byId("legend").replaceChildren(...entries.map(([kind, words]) => {
			const item = document.createElement("li"), patch = document.createElement("i");
			patch.className = "patch v2 " + kind;
			item.append(patch, words);
			return item;
		}));
	}

	// Shows a profile. Of a newer one of the same spans the view and the zoom stay as they are.
	spanprof.show = (data, isSame) => {
		drawing.profile = spanprof.read(data);
		drawing.whole = spanprof.whole(drawing.profile);
		document.title = data.title;
		byId("title").textContent = data.title;
		byId("sums").textContent = data.sums;
		note("hint", data.hint);
		byId("tools").hidden = false;
		byId("spans").hidden = !spanprof.hasSpans(drawing.profile);
		byId("by-what").textContent = "by " + drawing.profile.by;
		if (!isSame) view.bySpan = byId("by-span").checked = data.bySpan;
		build(isSame);
	};

	spanprof.showInline = () => spanprof.show(JSON.parse(byId("profile").textContent), false);

	const frameAt = (event) => event.target.frame || null;
	const frames = byId("frames"), tip = byId("tip");
	frames.addEventListener("click", (event) => frameAt(event) && zoom(frameAt(event)));
	frames.addEventListener("mousemove", (event) => {
		const frame = frameAt(event);
		tip.hidden = !frame;
		if (!frame) return;
		tip.firstChild.textContent = frame.name;
		tip.lastChild.textContent = numbers(frame);
		tip.style.left = Math.max(0, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8)) + "px";
		tip.style.top = Math.max(0, Math.min(event.clientY + 18, innerHeight - tip.offsetHeight - 30)) + "px";
	});
	frames.addEventListener("mouseleave", () => { tip.hidden = true; });
	byId("search").addEventListener("input", search);
	byId("by-span").addEventListener("change", (event) => { view.bySpan = event.target.checked; build(false); });
	byId("inverted").addEventListener("change", (event) => { view.inverted = event.target.checked; build(false); });
	byId("listed").addEventListener("change", search);
	byId("reset").addEventListener("click", reset);
	byId("copy").addEventListener("click", copyName);
	byId("around").addEventListener("click", () => lookAround(drawing.selected.name));
	window.addEventListener("resize", () => requestAnimationFrame(draw));

	// Escape takes the last thing back: the search, then the zoom, then the view of a function.
	function escape() {
		tip.hidden = true;
		if (byId("search").value === "") return drawing.zoom === drawing.root ? reset() : zoom(drawing.root);
		byId("search").value = "";
		frames.focus();
		search();
	}

	window.addEventListener("keydown", (event) => {
		const tag = event.target.tagName;
		const typing = tag === "SELECT" || (tag === "INPUT" && event.target.type !== "checkbox");
		if (!drawing.root || event.ctrlKey || event.metaKey || event.altKey) return;
		if (event.key === "Escape") return escape();
		if (event.key === "Enter" && event.target === byId("search")) return frames.focus();
		if (typing || (tag === "BUTTON" && event.key === "Enter")) return;
		if (event.key === "/") byId("search").focus();
		else if (event.key === "Enter" && drawing.selected) zoom(drawing.selected);
		else if (event.key === "c" && drawing.selected) copyName();
		else if (event.key === "f" && canBeAround(drawing.selected)) lookAround(drawing.selected.name);
		else if (event.key === "n" || event.key === "N") nextMatch(event.key === "n" ? 1 : -1);
		else if (event.key.startsWith("Arrow")) select(drawing.selected
			? spanprof.neighbour(drawing.selected, event.key) || drawing.selected : drawing.zoom);
		else return;
		event.preventDefault();
	});
})();
