// SPDX-License-Identifier: Apache-2.0
// The page of slow requests. Functions of "slow" compute what is drawn; code for clicks and keys is
// at the end. Texts of profiles become text nodes, and are never parsed as HTML.
"use strict";
const slow = {};

// Converts the data, which is arrays of numbers, into frames, segments and sums.
(() => {
	// The kinds of time of a request, in the words of the legend; each has a colour.
	slow.KINDS = [["cpu", "on a CPU"], ["run", "waiting for a CPU"], ["lock", "lock"], ["io", "network, disk"],
		["sleep", "timer"], ["other", "other wait"], ["off", "unknown, or not active"]];
	const KIND_OF = { cpu: "cpu", runnable: "run", lock: "lock", condition: "lock", futex: "lock", sleep: "sleep", socket: "io",
		pipe: "io", file: "io", terminal: "io", kernel: "io", child: "other", events: "other", signal: "other", other: "other" };
	slow.kindOf = (part) => KIND_OF[part] || "off";

	// The sums of a request by kind, for its bar. The rest of its duration is unknown.
	function sumsOf(request, parts) {
		const sums = Object.fromEntries(slow.KINDS.map(([kind]) => [kind, 0]));
		sums.cpu = request.cpu ? request.cpu[0] : 0;
		for (let i = 0; i < request.waits.length; i += 2) sums[slow.kindOf(parts[request.waits[i]])] += request.waits[i + 1];
		const known = Object.values(sums).reduce((a, b) => a + b, 0);
		sums.off = Math.max(0, request.ns - known);
		return sums;
	}

	// Splits "flame" or "stacks" into rows. Their frames have numbers from 1 on; 0 = none.
	const rowsOf = (array, width) => Array.from({ length: array.length / width }, (_, i) => array.slice(i * width, (i + 1) * width));

	slow.read = (data) => {
		const requests = data.requests.map((r, index) => {
			const group = data.groups[r.group], sums = sumsOf(r, data.parts);
			return { ...r, index, group, service: group.service, name: group.name || "(no name)", sums,
				largest: slow.KINDS.map(([kind]) => kind).filter((kind) => kind !== "off")
					.reduce((best, kind) => sums[kind] > sums[best] ? kind : best, "cpu"),
				text: [group.service, group.name, r.sentence, r.span, r.trace].join("\n").toLowerCase() };
		});
		return { ...data, requests, services: new Set(data.groups.map((g) => g.service)) };
	};

	// The stack of a segment, from its root to its leaf.
	function stackOf(model, request, node) {
		const out = [];
		for (let k = node; k > 0; k = request.stacks[3 * (k - 1)])
			out.push({ name: model.names[request.stacks[3 * (k - 1) + 1]], kind: model.kinds[request.stacks[3 * (k - 1) + 2]] });
		return out.reverse();
	}

	// Folds library functions into the library function that called them.
	slow.folded = (stack) => stack.filter((frame, i) => frame.kind !== "library" || i === 0 || stack[i - 1].kind !== "library");

	slow.segments = (model, request, thread, fold) => rowsOf(thread.segments, 4).map(([from, to, node, part]) => {
		const whole = stackOf(model, request, node);
		const held = whole.find((frame) => frame.kind === "waiting" && frame.name.startsWith("held by "));
		const wait = whole.filter((frame) => frame.kind === "waiting" && frame !== held).pop();
		const stack = fold ? slow.folded(whole) : whole;
		return { from, to, part: model.parts[part], kind: slow.kindOf(model.parts[part]), whole, stack, held: held ? held.name.slice(8) : "",
			wait: wait ? wait.name : "" };
	});

	// A text that says what the thread did, or waited for.
	slow.words = (segment) => {
		if (segment.part === "cpu") return "on a CPU";
		if (segment.held) return "lock held by " + segment.held;
		if (segment.part === "off_cpu") return "off the CPU";
		if (segment.part === "runnable") return "waiting for a CPU";
		return segment.wait || segment.part;
	};

	// How many frames two stacks have in common, from the root on.
	function common(a, b) {
		let n = 0;
		while (n < a.length && n < b.length && a[n].name === b[n].name) n++;
		return n;
	}

	// The frames of each segment, without the one that names a wait. If its stack is not known,
	// as while a thread waits for a CPU, these are the frames that the stacks before and after
	// have in common.
	function stacksOf(segments) {
		const out = segments.map((s) => s.stack.filter((frame) => frame.kind !== "waiting"));
		for (let i = 0; i < out.length; i++) {
			if (out[i].length) continue;
			let next = i;
			while (next < out.length && out[next].length === 0) next++;
			const both = i > 0 && next < out.length ? out[i - 1].slice(0, common(out[i - 1], out[next])) : [];
			while (i < next) out[i++] = both;
		}
		return out;
	}

	// The flame chart of a thread. Equal frames that follow each other in one row become one
	// box. Of the callers that all stacks have in common, only the last one is drawn.
	slow.chart = (segments) => {
		const stacks = stacksOf(segments), known = stacks.filter((stack) => stack.length), boxes = [], open = [];
		const shared = known.reduce((least, stack) => Math.min(least, common(stack, known[0])), known.length ? known[0].length : 0);
		const skip = Math.max(0, shared - 1);
		let end = -Infinity;
		segments.forEach((s, i) => {
			const frames = stacks[i].slice(skip);
			open.length = s.from <= end + 1 ? common(open, frames) : 0;
			for (const box of open) box.to = s.to;
			for (let row = open.length; row < frames.length; row++) {
				const box = { ...frames[row], from: s.from, to: s.to, row };
				boxes.push(box);
				open.push(box);
			}
			end = s.to;
		});
		return boxes;
	};

	// Adds rows to a tree of frames: [caller, name, kind, part, own ns, own samples]. Stacks of
	// all parts share one tree.
	function add(root, model, rows, fold, wants, key, divide) {
		const at = [root];
		rows.forEach(([caller, name, kind, part, ns], i) => {
			const above = at[caller], text = model.names[name], word = model.kinds[kind];
			const isInside = fold && word === "library" && above.kind === "library";
			let frame = above;
			if (!isInside) {
				frame = above.below.get(text);
				if (!frame) above.below.set(text, frame = { name: text, kind: word, here: 0, usual: 0, below: new Map(),
					colour: word === "waiting" ? slow.kindOf(model.parts[part]) : word });
			}
			at[i + 1] = frame;
			if (wants(model.parts[part])) frame["own_" + key] = (frame["own_" + key] || 0) + ns / divide;
		});
	}

	function sum(frame) {
		frame.here = frame.own_here || 0;
		frame.usual = frame.own_usual || 0;
		for (const [name, child] of frame.below) {
			sum(child);
			frame.here += child.here;
			frame.usual += child.usual;
			if (child.here + child.usual === 0) frame.below.delete(name);
		}
	}

	slow.TABS = [["this", "This request"], ["cpu", "On a CPU"], ["wait", "Waiting"], ["usual", "Average"], ["diff", "Difference"]];

	slow.hasUsual = (request) => request.group.flame.length > 0 && request.group.count > 0;

	// Makes the flame graph of a request, of the average request of its name, or of both.
	slow.flame = (model, request, tab, fold) => {
		const root = { name: request.name, kind: "span", colour: "span", below: new Map() };
		const wants = tab === "cpu" ? (part) => part === "cpu" : tab === "wait" ? (part) => part !== "cpu" : () => true;
		if (tab !== "usual") add(root, model, rowsOf(request.flame, 6), fold, wants, "here", 1);
		if (tab === "usual" || tab === "diff") add(root, model, rowsOf(request.group.flame, 6), fold, wants, "usual", request.group.count);
		sum(root);
		return root;
	};

	// Computes the places of frames, from 0 to 1. In a comparison the width of a frame is the
	// mean of both.
	slow.layout = (root, tab) => {
		const value = (frame) => tab === "usual" ? frame.usual : tab === "diff" ? (frame.here + frame.usual) / 2 : frame.here;
		const all = value(root), out = [];
		const place = (frame, left, row) => {
			const width = value(frame) / all;
			out.push({ frame, left, width, row });
			for (const child of Array.from(frame.below.values()).sort((a, b) => value(b) - value(a) || (a.name < b.name ? -1 : 1))) {
				if (value(child) / all < 1 / 4000) continue;
				place(child, left, row + 1);
				left += value(child) / all;
			}
		};
		if (all > 0) place(root, 0, 0);
		return out;
	};

	slow.time = (ns) => {
		const ms = ns / 1e6, round = (n, digits) => n.toFixed(digits);
		return ms < 0.9995 ? round(ms * 1000, 0) + " us" : ms < 9.995 ? round(ms, 1) + " ms" : ms < 999.5 ? round(ms, 0) + " ms"
			: ms < 99995 ? round(ms / 1000, 2) + " s" : round(ms / 1000, 0) + " s";
	};
	slow.bytes = (n) => n < 1024 ? n + " B" : n < 1 << 20 ? (n / 1024).toFixed(1) + " KiB" : (n / (1 << 20)).toFixed(1) + " MiB";
	slow.clock = (us) => new Date(us / 1000).toISOString().slice(11, 23);
	slow.times = (request) => request.group.p50 ? (request.ns / request.group.p50).toFixed(request.ns / request.group.p50 < 99.5 ? 1 : 0) + "×" : "";

	// The marks of an axis, about six, at round distances.
	slow.marks = (from, to) => {
		const raw = (to - from) / 7, ten = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((n) => n * ten >= raw) * ten, out = [];
		for (let at = Math.ceil(from / step) * step; at <= to; at += step) out.push(Math.round(at));
		return out;
	};

	// Selects and sorts the requests of the list.
	slow.select = (model, { q, kind, sort }) => {
		const words = (q || "").toLowerCase().split(/\s+/).filter(Boolean);
		const all = model.requests.filter((r) => (!kind || r.largest === kind) && words.every((word) => r.text.includes(word)));
		if (sort === "long") all.sort((a, b) => b.ns - a.ns);
		if (sort === "time") all.sort((a, b) => a.start_us - b.start_us);
		return all;
	};

	// The slow request that holds the lock for which another one waits, if there is one.
	slow.holder = (model, request, segment) => model.requests.find((r) => r !== request && segment.held && r.group.name &&
		(segment.held + " in ").startsWith(r.group.name + " in ") && r.start_us <= request.start_us + segment.to && r.start_us + r.ns / 1000 >= request.start_us + segment.from);
})();

// The page.
(() => {
	const byId = (id) => document.getElementById(id);
	// range: the time that the user has chosen, or null; shown: the time that is drawn.
	let model = null, listed = [], chosen = null, range = null, shown = null, zoomed = [];

	// The choice is in the address, so that users can bookmark it and go back to it.
	const choice = () => Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
	function choose(change) {
		const all = new URLSearchParams(location.hash.slice(1));
		for (const [key, value] of Object.entries(change)) value ? all.set(key, value) : all.delete(key);
		history.replaceState(null, "", "#" + all.toString());
	}

	function make(tag, className, text, parent) {
		const element = document.createElement(tag);
		if (className) element.className = className;
		if (text !== undefined) element.textContent = text;
		if (parent) parent.append(element);
		return element;
	}

	function tip(element, name, words) {
		element.tip = [name, words];
	}

	slow.bar = (request) => {
		const out = make("div", "bar"), all = Math.max(request.ns, Object.values(request.sums).reduce((a, b) => a + b, 0));
		for (const [kind] of slow.KINDS)
			if (request.sums[kind] > 0 && kind !== "off") make("i", kind, undefined, out).style.width = 100 * request.sums[kind] / all + "%";
		return out;
	};

	// A row of the list, and what is said above it. The page of traces has others of its own (traces.js).
	slow.row = (row, request) => {
		const words = make("div", "words", undefined, row);
		make("span", "name", model.services.size > 1 ? request.service + ": " + request.name : request.name, words).title = request.name;
		make("span", "when", slow.clock(request.start_us), words);
		make("span", "took", slow.time(request.ns), words);
		make("span", "times", slow.times(request), words);
		row.append(slow.bar(request));
	};
	slow.summary = () => slow.clock(model.from_us).slice(0, 8) + " to " + slow.clock(model.to_us).slice(0, 8) + " UTC, " +
		(model.groups.every((g) => g.count !== null) ? model.groups.reduce((n, g) => n + g.count, 0).toLocaleString("en") + " requests, " : "") +
		listed.length + (listed.length < model.all ? " of " + model.all : "") + " slow";
	slow.none = "No slow request has this.";
	// Where a request is in the address, besides its span.
	slow.placeOf = () => ({});
	slow.make = make;

	function showList() {
		listed = slow.select(model, choice());
		byId("list").replaceChildren(...listed.map((request) => {
			const row = make("button", "row");
			row.type = "button";
			row.request = request;
			slow.row(row, request);
			row.addEventListener("click", () => show(request));
			return row;
		}));
		if (listed.length === 0) make("div", "none", slow.none, byId("list"));
		byId("summary").textContent = slow.summary(model, listed);
		byId("sort").value = choice().sort || "";
		for (const button of byId("legend").children) button.setAttribute("aria-pressed", String(button.kind === choice().kind));
		mark();
	}

	function mark() {
		for (const row of byId("list").children) {
			const isChosen = row.request === chosen && chosen !== null;
			row.classList.toggle("chosen", isChosen);
			if (isChosen) row.scrollIntoView({ block: "nearest" });
		}
	}

	// Shows the sentence, with the duration at its beginning in bold, and facts about the request.
	function showSentence(request) {
		const comma = request.sentence.indexOf(",");
		byId("why").replaceChildren();
		make("b", "", request.sentence.slice(0, comma), byId("why"));
		byId("why").append(request.sentence.slice(comma));
		const about = byId("about");
		about.replaceChildren((model.services.size > 1 ? request.service + ": " + request.name + " · " : "") + "began " + slow.clock(request.start_us) + " UTC · trace ");
		make("span", "id", request.trace, about);
		about.append(" · span ");
		make("span", "id", request.span, about);
		if (request.allocated !== null) about.append(" · " + slow.bytes(request.allocated) + " allocated");
		if (request.faults) about.append(" · " + request.faults + " major page faults");
		if (!byId("requests")) {
			about.append(" · ");
			const link = make("a", "", "all of its samples", about);
			link.href = "/#span=" + request.span;
		}
		if (request.cpu) about.append(" · " + (request.cpu[1] ? "" : "about ") + slow.time(request.cpu[0]) + " on a CPU");
	}

	const isFound = (name) => {
		const q = (choice().q || "").toLowerCase();
		return q.length > 1 && name.toLowerCase().includes(q);
	};

	// Makes a box in a track; left and right go from 0 to 1, the whole width.
	function box(track, className, left, right, top, name, kind) {
		const px = (right - left) * track.px;
		if (right <= 0 || left >= 1 || px < 0.4) return null;
		const element = make("div", "box " + className + (px > 14 ? " wide" : ""), undefined, track);
		element.style.left = 100 * Math.max(0, left) + "%";
		element.style.width = 100 * (Math.min(1, right) - Math.max(0, left)) + "%";
		element.style.top = top + "px";
		const room = Math.floor((Math.min(1, right) - Math.max(0, left)) * track.px / 7 - 1);
		if (room > 1) element.textContent = spanprof.labelWithin(name, kind, room);
		if (isFound(name)) element.classList.add("found");
		return element;
	}

	const ROW = 17, ROWS = 16;
	function thread(parent, words, rows) {
		const line = make("div", "thread", undefined, parent), label = make("div", "label", words, line), track = make("div", "track", undefined, line);
		label.title = words;
		track.style.height = rows * ROW + "px";
		track.px = parent.clientWidth - 104;
		return track;
	}

	const span = (s) => slow.time((s.to - s.from) * 1000) + ", from " + (s.from / 1000).toFixed(1) + " to " + (s.to / 1000).toFixed(1) + " ms";

	function showThread(parent, request, data) {
		const fold = byId("libraries").checked, segments = slow.segments(model, request, data, fold), boxes = slow.chart(segments);
		const deepest = Math.min(ROWS, boxes.reduce((most, b) => Math.max(most, b.row + 1), 0));
		const at = (us) => (us - shown[0]) / (shown[1] - shown[0]);
		const track = thread(parent, data.name || "thread " + data.id, deepest + 1.3);
		for (const s of segments) {
			const element = box(track, s.kind, at(s.from), at(s.to), 0, s.part === "cpu" ? "" : slow.words(s), "waiting");
			if (!element) continue;
			tip(element, slow.words(s), span(s) + (s.whole.length ? "\nin " + spanprof.shortName((s.whole.filter((f) => f.kind === "own").pop() || s.whole[s.whole.length - 1]).name) : ""));
			element.addEventListener("click", () => zoomLine(s));
		}
		for (const b of boxes) {
			if (b.row >= ROWS) continue;
			const element = box(track, b.kind, at(b.from), at(b.to), (b.row + 1.2) * ROW, b.name, b.kind);
			if (!element) continue;
			tip(element, b.name, span(b));
			element.addEventListener("click", () => zoomLine(b));
		}
		const held = segments.filter((s) => s.held);
		if (held.length === 0) return;
		const holders = thread(parent, "held by", 1);
		for (const s of held) {
			const other = slow.holder(model, request, s), element = box(holders, "waiting", at(s.from), at(s.to), 0, s.held, "waiting");
			if (!element) continue;
			tip(element, s.held, span(s) + (other ? "\na click shows that request" : ""));
			element.addEventListener("click", () => other ? show(other) : zoomLine(s));
		}
	}

	function zoomLine(s) {
		const isWhole = s.from <= shown[0] && s.to >= shown[1];
		range = isWhole ? null : [s.from, s.to];
		showLine(chosen);
	}

	function showLine(request) {
		const parent = byId("line"), whole = [0, request.ns / 1000];
		for (const t of request.threads)
			for (let i = 0; i < t.segments.length; i += 4) whole[1] = Math.max(whole[1], t.segments[i + 1]);
		shown = range || whole;
		parent.replaceChildren();
		byId("line-title").textContent = range ? "Time line, " + span({ from: shown[0], to: shown[1] }) + " (Esc: whole)" : "Time line";
		if (request.threads.length === 0) {
			make("p", "none", request.added ? "Only slow requests have a time line." : "No sample of this request has a time: it used no CPU time that was sampled, or the files with times (*-slow.pprof.gz) are gone.", parent);
			return;
		}
		const axis = make("div", "axis", undefined, parent), grid = make("div", "grid", undefined, parent);
		for (const us of slow.marks(...shown)) {
			const left = 100 * (us - shown[0]) / (shown[1] - shown[0]) + "%";
			if (us - shown[0] <= (shown[1] - shown[0]) * 0.96) make("span", "", slow.time(us * 1000).replace(/^0 us$/, "0"), axis).style.left = left;
			make("i", "", undefined, grid).style.left = left;
		}
		for (const t of request.threads) showThread(parent, request, t);
	}

	function showTabs(request) {
		byId("tabs").replaceChildren(...slow.TABS.map(([tab, words]) => {
			const button = make("button", "", tab === "usual" ? "Average of " + request.name : words);
			button.type = "button";
			button.setAttribute("role", "tab");
			button.setAttribute("aria-selected", String(tab === (choice().tab || "this")));
			button.disabled = (tab === "usual" || tab === "diff") && !slow.hasUsual(request);
			if (button.disabled) button.title = "Not known: some profiles of requests with this name are missing";
			button.addEventListener("click", () => {
				choose({ tab: tab === "this" ? "" : tab });
				zoomed = [];
				showTabs(request);
				showFlame(request);
			});
			return button;
		}));
	}

	function showFlame(request) {
		let tab = choice().tab || "this";
		if ((tab === "usual" || tab === "diff") && !slow.hasUsual(request)) tab = "this";
		let root = slow.flame(model, request, tab, byId("libraries").checked);
		const above = [];
		for (const name of zoomed) {
			const next = root.below.get(name);
			if (!next) break;
			above.push(root);
			root = next;
		}
		const frames = slow.layout(root, tab);
		const parent = byId("flame"), rows = frames.reduce((most, f) => Math.max(most, f.row + 1), 0) + above.length;
		parent.replaceChildren();
		parent.style.height = rows * ROW + "px";
		parent.px = parent.clientWidth;
		above.forEach((frame, i) => {
			const element = box(parent, "marker", 0, 1, i * ROW, frame.name, frame.kind);
			tip(element, frame.name, "a click shows all of it");
			element.addEventListener("click", () => zoomFlame(zoomed.slice(0, i)));
		});
		const paths = [];
		for (const { frame, left, width, row } of frames) {
			paths.length = row;
			paths[row] = row === 0 ? zoomed.slice(0, above.length) : [...paths[row - 1], frame.name];
			const path = paths[row], change = frame.here - frame.usual, of = Math.max(frame.here, frame.usual);
			const className = tab !== "diff" ? frame.colour : change > 0.02 * of ? "more" : change < -0.02 * of ? "less" : "marker";
			const element = box(parent, className, left, left + width, (row + above.length) * ROW, frame.name, frame.kind);
			if (!element) continue;
			if (tab === "diff") element.style.setProperty("--much", (0.25 + 0.75 * Math.min(1, Math.abs(change) / (of || 1))).toFixed(2));
			tip(element, frame.name, tab === "diff" ? slow.time(frame.here) + " here, " + slow.time(frame.usual) + " in the average request"
				: slow.time(tab === "usual" ? frame.usual : frame.here) + ", " + (100 * width).toFixed(1) + " %" + (above.length ? " of what is shown" : ""));
			element.addEventListener("click", () => zoomFlame(path));
		}
		byId("back").hidden = above.length === 0;
		byId("note").textContent = frames.length === 0 ? "No sample of this kind." : note(request, tab);
	}

	function note(request, tab) {
		const what = { usual: "The mean of all " + request.group.count + " requests named " + request.name + ".",
			diff: "Widths are the mean of both; red took longer here, blue less." }[tab] || "";
		return what + (model.waits ? "" : " There is no profile of waits (SPANPROF_OFF_CPU=true): what it waited for is not known.");
	}

	function zoomFlame(path) {
		zoomed = path;
		showFlame(chosen);
	}

	function show(request) {
		const isOther = chosen !== request;
		chosen = request;
		if (isOther) {
			range = null;
			zoomed = [];
			byId("request").scrollTop = 0;
		}
		choose({ span: request.span, ...slow.placeOf(request) });
		if (!listed.includes(request)) showList();
		showSentence(request);
		showLine(request);
		showTabs(request);
		showFlame(request);
		mark();
	}

	function step(by) {
		const at = listed.indexOf(chosen), next = listed[Math.min(listed.length - 1, Math.max(0, at + by))];
		if (next) show(next);
	}

	function back() {
		if (document.activeElement === byId("search")) byId("search").blur();
		else if (range) range = null;
		else if (zoomed.length) zoomed = [];
		else if (choice().q || choice().kind) {
			choose({ q: "", kind: "" });
			byId("search").value = "";
			showList();
		}
		if (chosen) show(chosen);
	}

	function redraw() {
		if (chosen) show(chosen);
	}

	function pointed(event) {
		let element = event.target;
		while (element && !element.tip) element = element.parentElement;
		const box = byId("tip");
		box.hidden = !element;
		if (!element) return;
		[box.firstChild.textContent, box.lastChild.textContent] = element.tip;
		box.style.left = Math.max(4, Math.min(event.clientX + 12, innerWidth - box.offsetWidth - 8)) + "px";
		box.style.top = (event.clientY + 18 + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 10 : event.clientY + 18) + "px";
	}

	slow.show = (data, title) => {
		const { span: wanted, q } = choice();
		model = slow.read(data);
		byId("title").textContent = title;
		byId("search").value = q || "";
		byId("legend").replaceChildren(...slow.KINDS.map(([kind, words]) => {
			const button = make("button");
			button.type = "button";
			button.kind = kind;
			make("i", kind, undefined, button);
			button.append(words);
			button.title = kind === "off" ? "" : "Only requests that spent most of their time with this";
			button.disabled = kind === "off";
			button.addEventListener("click", () => {
				choose({ kind: choice().kind === kind ? "" : kind });
				showList();
			});
			return button;
		}));
		chosen = null;
		showList();
		const first = model.requests.find((r) => r.span === wanted) || listed[0] || model.requests[0];
		if (first) show(first);
	};
	// If the page has no requests inline, it loads them from spanprof-report --serve, which
	// also says when there are new ones.
	slow.serve = async () => {
		let stamp = null;
		const ask = async (what) => {
			const answer = await fetch(what, { cache: "no-store" });
			if (!answer.ok) throw new Error("the server answers " + answer.status);
			return answer.json();
		};
		const look = async () => {
			try {
				const is = stamp === null ? null : (await ask("/stamp.json?")).stamp;
				if (stamp === null || is !== stamp) {
					const all = await ask("/slow.json?");
					stamp = all.stamp;
					byId("problem").textContent = all.error || "";
					if (all.slow) {
						document.title = all.title;
						slow.show(all.slow, all.title);
					}
				}
			} catch (error) {
				byId("problem").textContent = "No new requests: " + error.message;
			}
			byId("problem").hidden = byId("problem").textContent === "";
			setTimeout(look, 2000);
		};
		await look();
	};
	slow.showInline = () => slow.show(JSON.parse(byId("requests").textContent), document.title);

	byId("search").addEventListener("input", () => {
		choose({ q: byId("search").value });
		showList();
		if (listed.length && !listed.includes(chosen)) show(listed[0]);
		else redraw();
	});
	byId("sort").addEventListener("change", () => {
		choose({ sort: byId("sort").value });
		showList();
		if (listed.length && !listed.includes(chosen)) show(listed[0]);
	});
	byId("libraries").addEventListener("change", redraw);
	byId("back").addEventListener("click", () => zoomFlame([]));
	document.addEventListener("mousemove", pointed);
	document.addEventListener("keydown", (event) => {
		if (event.ctrlKey || event.altKey || event.metaKey) return;
		const isTyping = document.activeElement === byId("search");
		if (event.key === "Escape") back();
		else if (event.key === "ArrowDown" || (event.key === "j" && !isTyping)) step(1);
		else if (event.key === "ArrowUp" || (event.key === "k" && !isTyping)) step(-1);
		else if (event.key === "/" && !isTyping) byId("search").focus();
		else return;
		event.preventDefault();
	});
	window.addEventListener("resize", redraw);
	window.addEventListener("hashchange", () => {
		if (!model) return;
		const { span: wanted, q } = choice(), request = model.requests.find((r) => r.span === wanted);
		byId("search").value = q || "";
		showList();
		if (request) show(request);
	});
	if (!byId("requests")) slow.serve();
})();
