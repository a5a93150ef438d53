// SPDX-License-Identifier: Apache-2.0
// Finds frames by a regular expression.
"use strict";
(() => {
	const sum = (frames, what) => frames.reduce((all, frame) => all + frame[what], 0);

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
		return { found, places, ns: sum(places, "ns"), baseNs: sum(places, "baseNs") };
	};
})();
