// SPDX-License-Identifier: Apache-2.0
// The page of traces: the page of slow requests (slow.js), whose list is the waterfall of one trace. Each of its spans is a
// request; those that no profile knows have no samples.
"use strict";
(() => {
	const REMARKS = [[1, "error"], [2, "its parent is not in these files"], [4, "below its own child"]], INDENT_MAX = 16;
	const data = JSON.parse(document.getElementById("traces").textContent), read = slow.read;
	const first = data.traces.length ? data.traces[0].id : "";

	// What stands for a span of which no profile knows anything.
	const unknown = (ns, group, span, trace, startUs) => ({ sentence: slow.time(ns) + ", and no profile has this span", group, span, trace,
		start_us: startUs, ns, slower: null, allocated: null, faults: null, cpu: null, off: null, waits: [], flame: [], stacks: [], threads: [],
		added: true, isUnknown: true });

	slow.read = (all) => {
		const groups = [...all.groups], numbers = new Map(), requests = [];
		const groupOf = (service, name) => {
			const key = JSON.stringify([service, name]);
			if (!numbers.has(key)) {
				numbers.set(key, groups.length);
				groups.push({ service, name, count: null, slow: 0, p50: null, p90: null, p99: null, flame: [] });
			}
			return numbers.get(key);
		};
		for (const trace of data.traces)
			for (const [span, depth, startUs, ns, service, name, request, remarks] of trace.spans)
				requests.push({ ...(all.requests[request] || unknown(ns, groupOf(data.names[service], data.names[name]), span, trace.id,
					trace.start_us + startUs)), depth, at: trace.ns ? startUs * 1000 / trace.ns : 0, part: trace.ns ? ns / trace.ns : 1,
					remarks: REMARKS.filter(([bit]) => remarks & bit).map(([, words]) => words) });
		return read({ ...all, groups, requests });
	};

	slow.select = (model, { q, kind, sort }) => {
		const words = (q || "").toLowerCase().split(/\s+/).filter(Boolean), trace = sort || first;
		return model.requests.filter((r) => r.trace === trace && (!kind || (!r.isUnknown && r.largest === kind)) && words.every((word) => r.text.includes(word)));
	};

	slow.row = (row, request) => {
		const words = slow.make("div", "words", undefined, row), line = slow.make("div", "line", undefined, row);
		words.style.paddingLeft = Math.min(request.depth, INDENT_MAX) * 12 + "px";
		if (request.isUnknown) row.classList.add("unknown");
		slow.make("span", "name", request.service + ": " + request.name, words).title = request.service + ": " + request.name;
		if (request.remarks.length) slow.make("span", "remark", request.remarks.join(", "), words);
		slow.make("span", "took", slow.time(request.ns), words);
		const bar = request.isUnknown ? slow.make("div", "bar") : slow.bar(request);
		bar.style.marginLeft = 100 * Math.min(0.995, request.at) + "%";
		bar.style.width = 100 * Math.max(0.005, Math.min(request.part, 1 - request.at)) + "%";
		line.append(bar);
	};

	slow.summary = (model, listed) => {
		const trace = data.traces.find((t) => t.id === (listed.length ? listed[0].trace : first));
		return trace.all + " spans of " + trace.services + (trace.services === 1 ? " service, " : " services, ") + slow.time(trace.ns) + " from " +
			slow.clock(trace.start_us) + " UTC, " + trace.profiled + " in profiles" + (data.passed ? "; passed over: " + data.passed : "");
	};
	slow.none = "No span of this trace has this.";
	slow.placeOf = (request) => ({ sort: request.trace === first ? "" : request.trace });

	// The choice of an order becomes one of a trace.
	const choice = document.getElementById("sort");
	choice.setAttribute("aria-label", "Trace");
	choice.parentElement.firstChild.textContent = "trace ";
	choice.parentElement.hidden = data.traces.length < 2;
	choice.replaceChildren(...data.traces.map((trace, i) => {
		const option = slow.make("option", "", slow.time(trace.ns) + ", " + trace.id.slice(0, 8));
		option.value = i === 0 ? "" : trace.id;
		return option;
	}));
	document.body.classList.add("traces");
	document.getElementById("list").setAttribute("aria-label", "Spans of the trace");
})();
