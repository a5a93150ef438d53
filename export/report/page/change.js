// SPDX-License-Identifier: Apache-2.0
// Says in numbers and colours what a frame takes, and how that differs from the baseline.
"use strict";
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
	spanprof.seconds = (ns) => (ns / 1e9).toFixed(3) + " s";
	const points = (difference) => (difference >= 0 ? "+" : "\u2212") + Math.abs(100 * difference).toFixed(2) + " points";

	// What is told of a frame besides its name. Callers of a leaf or of a function have no time of their
	// own there.
	spanprof.numbers = (frame, whole, profile, inverted) => {
		const now = part(frame.ns, whole.ns), then = part(frame.baseNs, whole.baseNs);
		if (!profile.diff)
			return spanprof.percent(now) + " of all, " + spanprof.seconds(frame.ns) + " " + profile.time +
				(inverted || frame.depth < 0 ? "" : ", itself " + spanprof.seconds(frame.selfNs)) + ", " + frame.samples + " samples";
		const isAll = frame.samples === whole.samples && frame.baseSamples === whole.baseSamples;
		return spanprof.percent(now) + " here, " + spanprof.percent(then) + " in the baseline (" +
			points(now - then) + "), " + frame.samples + " and " + frame.baseSamples + " samples" +
			(isAll || spanprof.isChange(frame, whole) ? "" : "; too few samples to call it a difference");
	};
})();
