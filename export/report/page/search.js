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

	// The frames with such names, and the share of the root that they take with all that they call. Frames
	// come after their callers, so what lies under a match is not counted twice.
	spanprof.search = (frames, pattern) => {
		const found = new Set(), inside = new Set();
		let ns = 0, baseNs = 0;
		for (const frame of frames) {
			const within = frame.parent !== null && inside.has(frame.parent);
			const matches = frame.parent !== null && pattern.test(frame.name);
			if (matches) found.add(frame);
			if (within || matches) inside.add(frame);
			if (!matches || within) continue;
			ns += frame.ns;
			baseNs += frame.baseNs;
		}
		return { found, ns, baseNs };
	};
})();
