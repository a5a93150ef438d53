// SPDX-License-Identifier: Apache-2.0
// The page around the frames: what is clicked and typed.
"use strict";
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
