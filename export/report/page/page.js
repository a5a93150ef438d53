// SPDX-License-Identifier: Apache-2.0
// The page. Stacks, changes, frames, search and lists are functions of "spanprof", as names are
// (names.js). Code for clicks and keys is at the end.
"use strict";

// Builds frames from the data: stacks from their roots or from their leaves, with or without spans.
(() => {
	const NONE = -1;

	// Reads the columns of all nodes in the data. The first node has number 1, and 0 is the
	// root.
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

	// Whether the profile has spans at the roots, so that a view without them differs.
	spanprof.hasSpans = (profile) => profile.parent.some((parent, i) =>
		parent === 0 && !["(no span)", "(no value)"].includes(profile.names[profile.name[i]]));

	const frame = (name, kind, parent) => ({
		name, kind, parent, children: new Map(), callers: [], depth: parent ? parent.depth + 1 : 0, inside: null,
		ns: 0, selfNs: 0, samples: 0, baseNs: 0, baseSamples: 0, left: 0, width: 0,
	});

	// The child of a frame for node k of the data; made if missing.
	function childOf(parent, profile, k) {
		const name = profile.names[profile.name[k]];
		let child = parent.children.get(name);
		if (!child) {
			child = frame(name, profile.kinds[profile.kind[k]], parent);
			parent.children.set(name, child);
		}
		const inside = profile.inside && profile.inside.get(k + 1);
		if (inside) {
			child.inside = child.inside || new Set();
			for (const number of inside) child.inside.add(profile.names[number]);
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

	// As childOf(), and adds the sums of node i to the child.
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

	// Adds each stack in reverse: its leaf first, then the leaf's callers.
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

	// The nodes of a stack that are drawn, the leaf first.
	function stackOf(profile, i, bySpan) {
		const out = [];
		for (let k = i; k >= 0; k = profile.parent[k] - 1)
			if (bySpan || profile.kinds[profile.kind[k]] !== "span") out.push(k);
		return out;
	}

	// Adds all calls of one function: the functions that it calls are below it, its callers
	// above it. A sample counts once, at the outermost call. So if the function calls itself,
	// it is also among the functions below it.
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

	// The share of a frame; in a comparison the mean of both shares, so that a frame that is
	// gone is still visible.
	spanprof.share = (frame, whole) => whole.baseNs > 0
		? (part(frame.ns, whole.ns) + part(frame.baseNs, whole.baseNs)) / 2 : part(frame.ns, whole.ns);

	// Computes the places of all frames under a root, from 0 to 1. Callers come before their
	// callees, the widest child is on the left.
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

	// The sums of all samples; shares are parts of these.
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

	// The frames of a view, the root first. The root is "all", or the function of a view of
	// callers and callees, in which callers have negative depths. A frame comes after all
	// frames between it and the root.
	spanprof.build = (profile, view, whole) => {
		if (view.around) return buildAround(profile, view, whole);
		const root = frame("all", "marker", null);
		(view.inverted ? addFromLeaf : addFromRoot)(root, profile, view.bySpan);
		return place(root, whole);
	};
})();

// Changes the columns of a profile before frames are built from them, so that pictures, lists,
// comparisons and searches agree.
(() => {
	const CYCLE_MAX = 32; // most functions in a circle of calls
	const TOO_NARROW = 0; // the number of the name "[too narrow to draw]", see page.c

	const SUMS = ["ns", "samples", "baseNs", "baseSamples"];
	const columns = (profile) => ({ ...profile, parent: [], name: [], kind: [], ns: [], samples: [], baseNs: [], baseSamples: [] });

	// Makes the nodes of a new profile. As in all profiles here, the first node has number 1, 0
	// is the root, and a node comes after its caller.
	function nodes(profile) {
		const out = columns(profile), numbers = new Map();
		const child = (parent, i) => {
			const key = parent * profile.names.length + profile.name[i];
			let number = numbers.get(key);
			if (number) return number;
			out.parent.push(parent);
			out.name.push(profile.name[i]);
			out.kind.push(profile.kind[i]);
			for (const sum of SUMS) out[sum].push(0);
			number = out.parent.length;
			numbers.set(key, number);
			return number;
		};
		const add = (number, i) => { for (const sum of SUMS) out[sum][number - 1] += profile[sum][i]; };
		return { out, child, add };
	}

	// Removes nodes without a sum of their own or below them. Returns the new number of each
	// node; a removed node has the root's.
	function prune(out) {
		const isUsed = new Array(out.parent.length + 1).fill(false), numbers = [0];
		for (let number = out.parent.length; number > 0; number--) {
			isUsed[number] = isUsed[number] || SUMS.some((sum) => out[sum][number - 1] !== 0);
			if (isUsed[number]) isUsed[out.parent[number - 1]] = true;
		}
		let kept = 0;
		for (let number = 1; number < isUsed.length; number++) {
			numbers.push(isUsed[number] ? kept + 1 : 0);
			if (!isUsed[number]) continue;
			for (const column of [...SUMS, "name", "kind"]) out[column][kept] = out[column][number - 1];
			out.parent[kept++] = numbers[out.parent[number - 1]];
		}
		for (const column of [...SUMS, "name", "kind", "parent"]) out[column].length = kept;
		return numbers;
	}

	const addTo = (sums, profile, i) => { for (const sum of SUMS) sums[sum] += profile[sum][i]; };
	const isSpan = (profile, i) => profile.kinds[profile.kind[i]] === "span";

	// Selects stacks with a function that "focus" matches and none that "ignore" matches, and
	// removes functions that "hide" matches. Each is a pattern or null. The time of a hidden
	// function counts for its caller; stacks that are hidden altogether are left out. "go tool
	// pprof" has options of these names with the same effect. "kept" is the sum that remains.
	// "unknown" is the sum of stacks that might match, but whose functions are too narrow to be
	// in the data.
	spanprof.filter = (profile, { focus, ignore, hide }) => {
		if (!focus && !ignore && !hide) return profile;
		const test = (pattern) => profile.names.map((name, i) => i !== TOO_NARROW && pattern !== null && pattern.test(name));
		const [focused, ignored, hidden] = [focus, ignore, hide].map(test);
		const { out, child, add } = nodes(profile);
		const zero = () => ({ ns: 0, samples: 0, baseNs: 0, baseSamples: 0 });
		// For each node of the profile: its number in the new one, and what matched on the
		// path to it.
		const to = [0], isFocused = [!focus], isIgnored = [false], isShown = [false];
		out.kept = zero();
		out.unknown = zero();
		for (let i = 0; i < profile.parent.length; i++) {
			const parent = profile.parent[i], name = profile.name[i], span = isSpan(profile, i);
			isFocused.push(isFocused[parent] || (!span && focused[name]));
			isIgnored.push(isIgnored[parent] || (!span && ignored[name]));
			const isHidden = !span && hidden[name];
			isShown.push(isShown[parent] || (!span && !isHidden));
			to.push(isHidden ? to[parent] : child(to[parent], i));
			if (name === TOO_NARROW && !isIgnored[i + 1] && (!isFocused[i + 1] || ignore)) addTo(out.unknown, profile, i);
			if (!isFocused[i + 1] || isIgnored[i + 1] || (hide && !isShown[i + 1])) continue;
			add(to[i + 1], i);
			addTo(out.kept, profile, i);
		}
		prune(out);
		return out;
	};

	// If a node gets this child, the path to the child may end with the same functions twice.
	// Returns how many functions these are, or 0.
	function cycle(out, parent, name, kind) {
		// Kinds are compared as well: a function of the kernel's vdso has the name of its
		// caller in the C library, and a span may have any name.
		const isSame = (a, b) => out.name[a - 1] === out.name[b - 1] && out.kind[a - 1] === out.kind[b - 1];
		for (let n = 1, at = parent; n <= CYCLE_MAX && at !== 0; n++, at = out.parent[at - 1]) {
			if (out.name[at - 1] !== name || out.kind[at - 1] !== kind) continue;
			let a = parent, b = out.parent[at - 1], left = n - 1;
			for (; left > 0 && b !== 0 && isSame(a, b); left--) {
				a = out.parent[a - 1];
				b = out.parent[b - 1];
			}
			if (left === 0) return n;
		}
		return 0;
	}

	// "recursion": if functions call themselves, or each other in a circle, only the first
	// round is drawn, with the sums of all. "libraries": library functions that a library
	// function calls are folded into it, with their time, up to your own code. "isOpen":
	// whether folding is off for the name with a number. Of the result, "inside" has the folded
	// names of each node, "from" is the original profile, and "to" has the new number of each
	// original node.
	spanprof.fold = (profile, { recursion, libraries, isOpen }) => {
		if (!recursion && !libraries) return profile;
		const { out, child, add } = nodes(profile);
		// first: the name of the first library function in the row of library functions
		// that a node ends, or -1
		const to = [0], first = [-1];
		out.inside = new Map();
		for (let i = 0; i < profile.parent.length; i++) {
			const parent = profile.parent[i], name = profile.name[i];
			const isLibrary = profile.kinds[profile.kind[i]] === "library";
			const within = isLibrary && libraries ? first[parent] : -1;
			let at = to[parent];
			first.push(!isLibrary ? -1 : within >= 0 ? within : name);
			if (within >= 0 && !isOpen(within)) {
				if (!out.inside.has(at)) out.inside.set(at, new Set());
				out.inside.get(at).add(name);
			} else {
				let again = recursion ? cycle(out, at, name, profile.kind[i]) : 0;
				if (again === 0) at = child(at, i);
				// The node of the first round that has the same function: goes back
				// one round, less the missing node.
				else while (--again > 0) at = out.parent[at - 1];
			}
			to.push(at);
			if (at !== 0) add(at, i);
		}
		const numbers = prune(out);
		out.inside = new Map(Array.from(out.inside, ([number, names]) => [numbers[number], names]));
		return Object.assign(out, { from: profile, to: to.map((number) => numbers[number]) });
	};
})();

// Numbers and colours: how much time a frame has, and how that differs from the baseline.
(() => {
	// How many standard errors two shares must be apart to differ. There are many frames, and
	// by chance alone one in 20 would be two apart.
	const ERRORS = 3;
	const EXPECTED_SAMPLES = 5;
	const FEW_SAMPLES = 100;
	const part = (n, whole) => whole > 0 ? n / whole : 0;

	// Whether a frame has enough samples to say that its share differs from the baseline's.
	spanprof.isChange = (frame, whole) => {
		const now = whole.samples, then = whole.baseSamples;
		const both = part(frame.samples + frame.baseSamples, now + then);
		const byTime = part(frame.ns, whole.ns) - part(frame.baseNs, whole.baseNs);
		const bySamples = part(frame.samples, now) - part(frame.baseSamples, then);
		const error = Math.sqrt(both * (1 - both) * (1 / now + 1 / then));
		return both * Math.min(now, then) >= EXPECTED_SAMPLES && byTime * bySamples > 0 &&
			Math.abs(bySamples) >= ERRORS * error;
	};

	// The text if no frame differs by more than chance, so that colours for differences would
	// be useless. It also says how large a difference of a share near one half may be
	// unnoticed.
	spanprof.verdict = (frames, whole) => {
		if (frames.some((frame) => spanprof.isChange(frame, whole))) return "";
		const here = whole.samples, there = whole.baseSamples;
		const seen = ERRORS * Math.sqrt((1 / here + 1 / there) / 4);
		return (Math.min(here, there) < 2 * EXPECTED_SAMPLES ? "Not enough samples to be sure"
			: "No frame differs by more than chance, and less than " + Math.ceil(100 * Math.min(seen, 1)) + " points could be missed") +
			": " + here + " samples here, " + there + " in the baseline. Colours tell whose code a frame is.";
	};

	// The text for a single profile with few samples: how far a share of one half may be off,
	// by two standard errors.
	spanprof.doubt = (whole, profile) => {
		if (profile.inBytes || whole.samples === 0 || whole.samples >= FEW_SAMPLES) return "";
		const off = 2 * Math.sqrt((profile.time === "CPU" ? 1 : 2) / 4 / whole.samples);
		return "Not enough samples to be sure: " + whole.samples + (whole.samples === 1 ? " sample" : " samples") +
			", so shares may be off by " + Math.ceil(100 * Math.min(off, 1)) + " points.";
	};

	// How much of the frame is new (up to 1) or gone (down to -1).
	spanprof.change = (frame, whole) => {
		const now = part(frame.ns, whole.ns), then = part(frame.baseNs, whole.baseNs);
		return part(now - then, now + then);
	};

	spanprof.percent = (share) => (100 * share).toFixed(2) + " %";
	spanprof.amount = (n, inBytes) => inBytes ? (n / (1 << 20)).toFixed(3) + " MiB" : (n / 1e9).toFixed(3) + " s";
	const counted = (profile) => profile.inBytes ? " blocks" : " samples";
	const points = (difference) => (difference >= 0 ? "+" : "\u2212") + Math.abs(100 * difference).toFixed(2) + " points";

	// The text about a frame besides its name. In an inverted view, and above a function,
	// frames have no time of their own.
	spanprof.numbers = (frame, whole, profile, inverted) => {
		const now = part(frame.ns, whole.ns), then = part(frame.baseNs, whole.baseNs);
		const inside = !frame.inside ? "" : "; " + frame.inside.size + " more library function" +
			(frame.inside.size === 1 ? "" : "s") + " in it, a click opens it";
		if (!profile.diff)
			return spanprof.percent(now) + " of all, " + spanprof.amount(frame.ns, profile.inBytes) + " " + profile.time +
				(inverted || frame.depth < 0 ? "" : ", itself " + spanprof.amount(frame.selfNs, profile.inBytes)) + ", " + frame.samples + counted(profile) + inside;
		const isAll = frame.samples === whole.samples && frame.baseSamples === whole.baseSamples;
		return spanprof.percent(now) + " here, " + spanprof.percent(then) + " in the baseline (" +
			points(now - then) + "), " + frame.samples + " and " + frame.baseSamples + counted(profile) +
			(isAll || spanprof.isChange(frame, whole) ? "" : "; too few samples to call it a difference") + inside;
	};

	// The text about the sum that filters have left, and how sure that is.
	spanprof.remaining = (kept, unknown, whole, profile) => {
		const narrow = part(unknown.ns, whole.ns);
		return spanprof.percent(part(kept.ns, whole.ns)) + (profile.diff
			? " here, " + spanprof.percent(part(kept.baseNs, whole.baseNs)) + " in the baseline"
			: " of all, " + spanprof.amount(kept.ns, profile.inBytes) + " " + profile.time + ", " + kept.samples + counted(profile)) +
			(narrow < 0.00005 ? "" : "; " + spanprof.percent(narrow) + " is in functions that are too narrow to be matched");
	};
})();

// Short hashes of names for the address.
(() => {
	spanprof.hashOf = (text, from) => {
		let hash = from;
		for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
		return hash;
	};

	const begin = [2166136261, 84696351];
	const next = (hashes, name) => hashes.map((hash) => spanprof.hashOf(name + "\n", hash));
	const textOf = (hashes) => hashes.map((hash) => (hash >>> 0).toString(36)).join("");

	spanprof.keyOf = (name) => textOf(next(begin, name));

	// The key of a frame is a hash of all names on the path to it. Callers in a view of a
	// function have another start value.
	const hashesOf = (frame) => !frame.parent ? begin
		: next(frame.parent.parent || frame.depth > 0 ? hashesOf(frame.parent) : next(begin, "callers"), frame.name);
	spanprof.pathKeyOf = (frame) => textOf(hashesOf(frame));

	// The frame with the key, or undefined. Frames come after their parents.
	spanprof.frameOfKey = (frames, key) => {
		const known = new Map([[frames[0], begin]]), callers = next(begin, "callers");
		return frames.find((frame) => {
			if (frame.parent) known.set(frame, next(frame.depth === -1 ? callers : known.get(frame.parent), frame.name));
			return textOf(known.get(frame)) === key;
		});
	};
})();

// Draws frames as elements. Names of a profile become the text of elements, never markup.
(() => {
	const SEEN_PIXELS = 0.7;
	const WIDE_PIXELS = 8;
	const TEXT_PIXELS = 24;
	const PADDING_PIXELS = 7;
	const VARIANTS = 5;

	// The same function has the same shade in every picture.
	const variantOf = (name) => (spanprof.hashOf(name, 2166136261) >>> 16) % VARIANTS;

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

	const CLOSED = "\u25b8 "; // a triangle: other functions are folded into the frame
	const labelOf = (frame, room) => (frame.inside ? CLOSED : "") +
		spanprof.labelWithin(frame.name, frame.kind, room - (frame.inside ? CLOSED.length : 0));

	// The width of a character; all characters of the frames' font have the same.
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

	// The place of a frame if the zoomed frame is as wide as the page; null = outside of the
	// page.
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

	// drawing: frames (the root first), root, whole, profile, zoom, selected, found (a Set),
	// compared (whether colours show the difference to the baseline).
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
	// Makes a pattern that ignores case. Null = the text is not a regular expression.
	spanprof.pattern = (text) => {
		try {
			return new RegExp(text, "iu");
		} catch {
			return null;
		}
	};

	const isMatch = (frame, pattern) => frame.parent !== null &&
		(pattern.test(frame.name) || (frame.inside !== null && Array.from(frame.inside).some((name) => pattern.test(name))));

	// Finds frames whose name, or a name folded into them, matches. "places": matches that no
	// other match has called, the widest first. Frames come after their callers.
	spanprof.search = (frames, pattern) => {
		const found = new Set(), inside = new Set(), places = [];
		for (const frame of frames) {
			const within = frame.parent !== null && inside.has(frame.parent);
			const matches = isMatch(frame, pattern);
			if (matches) found.add(frame);
			if (within || matches) inside.add(frame);
			if (matches && !within) places.push(frame);
		}
		places.sort((a, b) => b.width - a.width);
		return { found, places };
	};

	// For the root and each node: whether its path has a wanted name.
	function withAny(profile, view, isWanted) {
		const out = [false];
		for (let i = 0; i < profile.parent.length; i++) {
			const isDrawn = view.bySpan || profile.kinds[profile.kind[i]] !== "span";
			out.push(out[profile.parent[i]] || (isDrawn && isWanted(profile.name[i])));
		}
		return out;
	}

	// The time of all stacks of a view that contain a match, also inside of folded frames.
	spanprof.matched = (profile, view, pattern) => {
		const all = profile.from || profile, to = (i) => profile.from ? profile.to[i + 1] : i + 1;
		const names = all.names.map((name) => pattern.test(name)), around = all.names.indexOf(view.around);
		const matches = withAny(all, view, (name) => names[name]);
		const through = view.around ? withAny(profile, view, (name) => name === around) : null;
		const sums = { ns: 0, baseNs: 0 };
		for (let i = 0; i < all.parent.length; i++) {
			if (!matches[i + 1] || (through && !through[to(i)])) continue;
			sums.ns += all.ns[i];
			sums.baseNs += all.baseNs[i];
		}
		return sums;
	};
})();

// Lists with rows that can be clicked, and the list of functions.
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

	// A list with headings. A row is [whether it is chosen, what to do when it is clicked,
	// texts, the whole name if the first text is a shorter one].
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

	// Replaces lists by newer ones, and keeps how far they were scrolled.
	spanprof.replaceLists = (parent, ...elements) => {
		const old = Array.from(parent.querySelectorAll(".list"), (box) => box.scrollTop);
		parent.replaceChildren(...elements);
		parent.querySelectorAll(".list").forEach((box, i) => { box.scrollTop = old[i] || 0; });
	};

	const isFunction = (profile, i) => !["span", "marker", "unsampled"].includes(profile.kinds[profile.kind[i]]);

	// The time of each function, alone and with its callees. If a function calls itself, a
	// sample counts once.
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

	// The list of functions that match, sorted by their own time, or by how much their own
	// share changed.
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

// The page around the frames: reacts to clicks and keys.
(() => {
	const byId = (id) => document.getElementById(id);
	const HINT = "Click a frame, or move with the arrow keys and press Enter, to zoom. Esc goes back. / searches, n and N go through the matches.";
	const KINDS = [["own", "own code"], ["library", "libraries"], ["kernel", "kernel"], ["waiting", "waiting"],
		["unsampled", "unsampled"], ["span", "span names"], ["marker", "not known, or too narrow"]];
	const FILTERS = ["focus", "ignore", "hide"];
	const EXPRESSION_MAX = 1000; // letters of an expression in an address
	// The view. "around": the function whose callers and callees are shown, or "". focus,
	// ignore and hide: expressions, or "". open: keys of the names of functions that were
	// unfolded.
	const view = { bySpan: false, inverted: false, around: "", recursion: false, libraries: false, open: new Set(),
		focus: "", ignore: "", hide: "" };
	// all: the profile as it was read; profile: all of it, filtered and folded for the view.
	const drawing = { frames: [], root: null, all: null, whole: null, profile: null, zoom: null, selected: null, found: new Set(),
		places: [], place: -1, compared: false };

	let share = ""; // the text about all matches

	const draw = () => {
		if (!drawing.root) return;
		spanprof.draw(byId("frames"), drawing);
		byId("reset").disabled = drawing.zoom === drawing.root && !view.around;
		byId("around").disabled = !canBeAround(drawing.selected);
		byId("inverted").disabled = view.around !== "";
	};

	// Whether callers and callees of the frame can be shown: it is a function or a span, not
	// "all" or "[too narrow to draw]".
	const canBeAround = (frame) => frame !== null && frame.kind !== "marker" && frame.name !== view.around;

	// Members of the view that are in the address, by the ids of their check boxes.
	const CHECKED = [["by-span", "bySpan"], ["inverted", "inverted"], ["recursion", "recursion"], ["libraries", "libraries"]];

	// The choices are in the address, so that users can send them to others, and go back to
	// them. Other keys of the address belong to live.js.
	function address() {
		const all = new URLSearchParams(location.hash.slice(1));
		const put = (key, value) => value ? all.set(key, value) : all.delete(key);
		for (const [id, choice] of CHECKED)
			put(id, view[choice] === (choice === "bySpan" && drawing.all.bySpan) ? "" : view[choice] ? "yes" : "no");
		for (const kind of FILTERS) put(kind, view[kind]);
		put("functions", byId("listed").checked ? "yes" : "");
		put("search", byId("search").value);
		put("open", Array.from(view.open).join("."));
		put("around", view.around && spanprof.keyOf(view.around));
		put("zoom", drawing.zoom === drawing.root ? "" : spanprof.pathKeyOf(drawing.zoom));
		return "#" + all;
	}

	// Writes the choices into the address. A browser may forbid that, for example in a frame of
	// another page; then they are only on the page.
	function keep(how) {
		const now = address();
		if (now === (location.hash || "#")) return;
		try {
			history[how || "pushState"](null, "", now);
		} catch {}
	}

	// Reads the choices from the address, and draws the view.
	function restore() {
		const all = new URLSearchParams(location.hash.slice(1));
		const text = (key) => (all.get(key) || "").slice(0, EXPRESSION_MAX);
		for (const [id, choice] of CHECKED)
			byId(id).checked = view[choice] = all.has(id) ? all.get(id) === "yes" : choice === "bySpan" && drawing.all.bySpan;
		for (const kind of FILTERS) view[kind] = text(kind);
		byId("listed").checked = all.has("functions");
		byId("search").value = text("search");
		view.open = new Set((all.get("open") || "").split(".").filter((key) => key !== ""));
		view.around = all.has("around") && drawing.all.names.find((name) => spanprof.keyOf(name) === all.get("around")) || "";
		build((frames) => all.has("zoom") && spanprof.frameOfKey(frames, all.get("zoom")));
	}

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

	// Scrolls so that the element is not under the page's header or footer, which stay in
	// place.
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
		keep();
	}

	// A click on a folded frame unfolds it; a click on any other frame zooms to it.
	function enter(frame) {
		if (!frame.inside) return zoom(frame);
		view.open.add(spanprof.keyOf(frame.name));
		drawing.selected = frame;
		build(again);
		keep();
	}

	// If the browser does not allow the page to copy, the name is selected, so that the user
	// can copy it.
	async function copyName() {
		try {
			await navigator.clipboard.writeText(drawing.selected.name);
			byId("copy").textContent = "Copied";
		} catch {
			getSelection().selectAllChildren(byId("name"));
		}
	}

	// Shows the callers and callees of a function; name "" = the whole profile again.
	function lookAround(name) {
		view.around = name;
		build();
		keep();
		frames.focus({ preventScroll: true }); // the button that was pressed is disabled now
		scrollTo(name ? document.querySelector(".frame.selected") : byId("frames"));
	}

	// Shows the whole profile again.
	function reset() {
		if (view.around) lookAround("");
		else zoom(drawing.root);
	}

	const patternOf = (text) => text === "" ? null : spanprof.pattern(text);

	function search() {
		const text = byId("search").value;
		const pattern = patternOf(text);
		const result = pattern ? spanprof.search(drawing.frames, pattern) : { found: new Set(), places: [] };
		const sums = pattern && spanprof.matched(drawing.profile, view, pattern);
		Object.assign(drawing, { found: result.found, places: result.places, place: -1 });
		byId("search").classList.toggle("wrong", text !== "" && !pattern);
		share = !pattern ? "" : "matched: " + spanprof.percent(sums.ns / (drawing.whole.ns || 1)) + (drawing.profile.diff
			? ", baseline " + spanprof.percent(sums.baseNs / (drawing.whole.baseNs || 1)) : "");
		byId("matched").value = text !== "" && !pattern ? "no regular expression" : share + placesOf(drawing);
		byId("filter").hidden = !pattern;
		listFunctions(pattern);
		draw();
	}

	// Makes the search text a filter. "ignore" and "hide" may have several expressions.
	function filterBy(kind) {
		const text = byId("search").value;
		view[kind] = kind === "focus" || view[kind] === "" ? text : view[kind] + "|" + text;
		byId("search").value = "";
		frames.focus({ preventScroll: true }); // the button that was pressed is hidden now
		build(again);
		keep();
	}

	function listFilters() {
		const given = FILTERS.filter((kind) => view[kind] !== ""), { kept, unknown } = drawing.filtered;
		byId("filters").hidden = given.length === 0;
		byId("filters").replaceChildren(...given.map((kind) => {
			const isWrong = spanprof.pattern(view[kind]) === null;
			const button = spanprof.make("button", kind + ": " + view[kind] + (isWrong ? " (no regular expression)" : "") + " \u00d7");
			button.type = "button";
			button.title = "No longer " + kind;
			button.className = isWrong ? "wrong" : "";
			button.addEventListener("click", () => {
				view[kind] = "";
				frames.focus({ preventScroll: true });
				build(again);
				keep();
			});
			return button;
		}), kept ? "shown: " + spanprof.remaining(kept, unknown, drawing.whole, drawing.all) : "");
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

	// Selects the next or the previous match. Zooms to it if it is too narrow otherwise.
	function nextMatch(step) {
		const n = drawing.places.length;
		if (n === 0) return;
		drawing.place = drawing.place < 0 && step < 0 ? n - 1 : (drawing.place + step + n) % n;
		const frame = drawing.places[drawing.place];
		for (const to of [drawing.root, frame])
			if (!spanprof.isLegible(frames, drawing, frame)) drawing.zoom = to;
		select(frame);
		byId("matched").value = share + placesOf(drawing);
		keep();
	}

	// Finds the zoomed frame in a new view, by the names on the path to it.
	function again([root]) {
		const names = [], frame = drawing.zoom;
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

	// Filters and folds the profile as the view says.
	function choose() {
		const [focus, ignore, hide] = FILTERS.map((kind) => patternOf(view[kind]));
		const isOpen = drawing.all.names.map((name) => view.open.size > 0 && view.open.has(spanprof.keyOf(name)));
		drawing.filtered = spanprof.filter(drawing.all, { focus, ignore, hide });
		drawing.profile = spanprof.fold(drawing.filtered, { ...view, isOpen: (name) => isOpen[name] });
	}

	// Builds and draws the view. zoomOf(frames): the new frame to zoom to; by default, or if
	// there is none, the root.
	function build(zoomOf) {
		choose();
		drawing.frames = spanprof.build(drawing.profile, view, drawing.whole);
		drawing.root = drawing.frames[0];
		if (view.around && drawing.root.ns === 0 && drawing.root.baseNs === 0) {
			view.around = ""; // the profile, or the view without spans, has no such function
			return build();
		}
		drawing.zoom = zoomOf && zoomOf(drawing.frames) || drawing.root;
		drawing.selected = drawing.zoom === drawing.root && !view.around ? null : drawing.zoom;
		const verdict = drawing.profile.diff ? spanprof.verdict(drawing.frames, drawing.whole) : "";
		drawing.compared = drawing.profile.diff && verdict === "";
		note("verdict", drawing.profile.diff ? verdict : spanprof.doubt(drawing.whole, drawing.all));
		describe(drawing.selected);
		legend();
		listFilters();
		search();
	}

	function legend() {
		// The root, "all", needs no entry in the legend.
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
		if (drawing.profile.diff) spanprof.make("li", "widths: the mean of both shares", byId("legend"));
	}

	// Shows a profile. isSame: it is a newer one of the same spans, so view and zoom stay.
	spanprof.show = (data, isSame) => {
		drawing.all = spanprof.read(data);
		drawing.whole = spanprof.whole(drawing.all);
		document.title = data.title;
		byId("title").textContent = data.title;
		byId("sums").textContent = data.sums;
		note("hint", data.hint);
		byId("tools").hidden = false;
		byId("spans").hidden = !spanprof.hasSpans(drawing.all);
		byId("by-what").textContent = "by " + drawing.all.by;
		if (isSame) build(again);
		else restore();
	};

	spanprof.showInline = () => spanprof.show(JSON.parse(byId("profile").textContent), false);

	const frameAt = (event) => event.target.frame || null;
	const frames = byId("frames"), tip = byId("tip");
	frames.addEventListener("click", (event) => frameAt(event) && enter(frameAt(event)));
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
	byId("search").addEventListener("input", () => { search(); keep("replaceState"); });
	for (const [id, choice] of CHECKED)
		byId(id).addEventListener("change", (event) => {
			view[choice] = event.target.checked;
			if (id === "libraries") view.open.clear();
			build(id === "libraries" || id === "recursion" ? again : null);
			keep();
		});
	for (const kind of FILTERS) byId(kind).addEventListener("click", () => filterBy(kind));
	byId("listed").addEventListener("change", () => { search(); keep(); });
	byId("reset").addEventListener("click", reset);
	byId("copy").addEventListener("click", copyName);
	byId("around").addEventListener("click", () => lookAround(drawing.selected.name));
	window.addEventListener("hashchange", () => drawing.all && restore());
	window.addEventListener("resize", () => requestAnimationFrame(draw));

	// Escape undoes one thing: the search, then the zoom, then the view of a function.
	function escape() {
		tip.hidden = true;
		if (byId("search").value === "") return drawing.zoom === drawing.root ? reset() : zoom(drawing.root);
		byId("search").value = "";
		frames.focus();
		search();
		keep("replaceState");
	}

	window.addEventListener("keydown", (event) => {
		const tag = event.target.tagName;
		const typing = tag === "SELECT" || (tag === "INPUT" && event.target.type !== "checkbox");
		if (!drawing.root || event.ctrlKey || event.metaKey || event.altKey) return;
		if (event.key === "Escape") return escape();
		if (event.key === "Enter" && event.target === byId("search")) return frames.focus();
		if (typing || (tag === "BUTTON" && event.key === "Enter")) return;
		if (event.key === "/") byId("search").focus();
		else if (event.key === "Enter" && drawing.selected) enter(drawing.selected);
		else if (event.key === "c" && drawing.selected) copyName();
		else if (event.key === "f" && canBeAround(drawing.selected)) lookAround(drawing.selected.name);
		else if (event.key === "n" || event.key === "N") nextMatch(event.key === "n" ? 1 : -1);
		else if (event.key.startsWith("Arrow")) select(drawing.selected
			? spanprof.neighbour(drawing.selected, event.key) || drawing.selected : drawing.zoom);
		else return;
		event.preventDefault();
	});
})();
