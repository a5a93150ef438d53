// SPDX-License-Identifier: Apache-2.0
// Draws frames as elements. Names of a profile become text of elements, never markup.
"use strict";
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
