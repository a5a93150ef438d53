// SPDX-License-Identifier: Apache-2.0
// Finds frames by a regular expression.
"use strict";
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
