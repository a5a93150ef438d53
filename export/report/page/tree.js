// SPDX-License-Identifier: Apache-2.0
// Builds what is drawn out of the data: stacks from their roots, or from their leaves, per span or not.
"use strict";
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
			title: data.title, sums: data.sums, time: data.time, diff: data.diff, bySpan: data.bySpan,
			names: data.names, kinds: data.kinds,
			parent: column(0), name: column(1), kind: column(2), ns: column(3), samples: column(4),
			baseNs: data.diff ? column(5) : none(), baseSamples: data.diff ? column(6) : none(),
		};
	};

	// Whether there is more than one name at the roots, so that a view without them differs.
	spanprof.hasSpans = (profile) => profile.parent.some((parent, i) =>
		parent === 0 && profile.names[profile.name[i]] !== "(no span)");

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
