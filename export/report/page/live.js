// SPDX-License-Identifier: Apache-2.0
// Served pages: lists of spans and options to choose from, which stay up to date, and the profile
// of the choice.
"use strict";
(() => {
	const STEP_MS = 2000;
	const TYPES = [["cpu", "CPU time"], ["off_cpu", "waiting time"], ["wall", "CPU and waiting time"],
		["alloc_space", "allocated memory"], ["inuse_space", "memory in use"]];
	const TIMES = [["", "all profiles"], ["1m", "last minute"], ["5m", "last 5 minutes"],
		["15m", "last 15 minutes"], ["1h", "last hour"]];
	const byId = (id) => document.getElementById(id);
	let stamp = null, shown = null;

	// The choice is in the address, so that users can bookmark it and go back to it.
	const chosen = () => new URLSearchParams(location.hash.slice(1));
	function choose(change) {
		const all = chosen();
		all.delete("zoom"); // the zoom belongs to frames of the old choice
		for (const [key, value] of Object.entries(change)) value ? all.set(key, value) : all.delete(key);
		if (!all.get("span") && all.get("compare") === "spans") all.delete("compare");
		if (!all.get("last") && all.get("compare") === "before") all.delete("compare");
		location.hash = all.toString();
	}

	function query() {
		const all = chosen(), out = new URLSearchParams();
		for (const key of ["type", "span", "span_name", "last"]) if (all.get(key)) out.set(key, all.get(key));
		if (all.get("compare") === "spans") out.set("diff", "spans");
		if (all.get("compare") === "before") out.set("before", all.get("last"));
		return out.toString();
	}

	async function ask(what) {
		const answer = await fetch(what, { cache: "no-store" });
		if (!answer.ok) throw new Error("the server answers " + answer.status);
		return answer.json();
	}

	function problem(text) {
		byId("problem").textContent = text;
		byId("problem").hidden = text === "";
	}

	const make = spanprof.make;

	function select(options, key, label) {
		const element = make("select");
		element.setAttribute("aria-label", label);
		for (const [value, words] of options) make("option", words, element).value = value;
		element.value = chosen().get(key) || options[0][0];
		element.addEventListener("change", () => choose({ [key]: element.value }));
		return element;
	}

	function comparison() {
		const options = [["", "no comparison"]];
		if (chosen().get("span")) options.push(["spans", "compare with other spans of that name"]);
		if (chosen().get("last")) options.push(["before", "compare with the time before"]);
		const element = select(options, "compare", "Comparison");
		element.disabled = options.length === 1;
		return element;
	}

	// A list. A row is [whether it is chosen, the change of the choice when it is clicked,
	// texts].
	function list(headings, rows) {
		const none = (change) => Object.fromEntries(Object.keys(change).map((key) => [key, ""]));
		return spanprof.list(headings, rows.map(([isChosen, change, texts]) =>
			[isChosen, () => choose(isChosen ? none(change) : change), texts]));
	}

	function showLists(lists) {
		const all = chosen(), inBytes = /_space$/.test(all.get("type") || "");
		const amount = (n) => spanprof.amount(n, inBytes), share = (ns) => spanprof.percent(ns / (lists.labelled && lists.labelled.ns || 1));
		const of = (rows, n) => n > rows.length ? " (the first " + rows.length + " of " + n + ")" : "";
		const names = (lists.span_names || []).map((n) => [n.span_name === all.get("span_name"),
			{ span_name: n.span_name, span: "" },
			[n.span_name || "(no name)", String(n.spans), amount(n.ns), share(n.ns)]]);
		const spans = (lists.spans || []).map((s) => [s.span_id === all.get("span"), { span: s.span_id },
			[s.span_id + "  " + s.span_name, amount(s.ns), share(s.ns)]]);
		const controls = make("div");
		controls.append(select(TYPES, "type", "Profile type"), " ", select(TIMES, "last", "Time"), " ", comparison(), " ");
		make("a", "slow requests", controls).href = "/slow";
		spanprof.replaceLists(byId("choice"), controls, list(["span name" + of(names, lists.all_span_names), "spans", inBytes ? "memory" : "time", "of spans"], names),
			list(["span" + of(spans, lists.all_spans), inBytes ? "memory" : "time", "of spans"], spans));
		byId("choice").hidden = false;
	}

	async function load() {
		const asked = query();
		const [lists, flame] = await Promise.all([ask("/spans.json?" + asked), ask("/profile.json?" + asked)]);
		if (asked !== query()) return;
		const wasShown = shown === asked;
		stamp = flame.stamp;
		showLists(lists);
		problem(flame.error || "");
		// After an error the old profile is hidden, because it does not belong to this
		// choice.
		document.body.classList.toggle("empty", Boolean(flame.error));
		shown = null;
		if (flame.error) return;
		spanprof.show(flame.profile, wasShown);
		shown = asked;
	}

	const guarded = (work) => work().catch((error) => problem("No new profiles: " + error.message));

	async function look() {
		await guarded(async () => {
			const now = await ask("/stamp.json?");
			if (now.stamp !== stamp) await load();
			else if (byId("problem").textContent.startsWith("No new profiles")) problem("");
		});
		setTimeout(look, STEP_MS);
	}

	// The address also has choices of page.js, so a change of it need not be one of the query.
	window.addEventListener("hashchange", () => query() !== shown && guarded(load));
	guarded(load).then(() => setTimeout(look, STEP_MS));
})();
