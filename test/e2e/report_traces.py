#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whole traces of the host program "traced", for spanprof-report --traces.

usage: report_traces.py receive PORT_FILE SPANS   takes spans over HTTP and appends each message as a line of SPANS
       report_traces.py join SPANS DOCUMENT       writes the lines of SPANS as one document
       report_traces.py judge SPANS TABLE         compares the waterfall with the processes' own clocks
       report_traces.py look PAGE SPANS           looks at the page in a browser; 77 if there is none
       report_traces.py picture PAGE NAME [HASH]  NAME-light.png and NAME-dark.png
"""
import http.server
import json
import os
import re
import sys

import browser

# The spans of a trace, in the order of the waterfall: service, name, depth, in milliseconds what the slow one computes and waits.
ROWS = [("front", "checkout", 0), ("front", "POST /reserve", 1), ("back", "reserve", 2), ("back", "supplier", 3)]
UNITS = {"us": 1e-3, "ms": 1, "s": 1000}


def receive(port_file, spans_file):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            is_good = self.path == "/v1/traces" and self.headers["Content-Type"].startswith("application/json")
            if is_good:
                with open(spans_file, "ab") as file:
                    file.write(json.dumps(json.loads(body)).encode() + b"\n")
            self.send_response(200 if is_good else 400)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(port_file + ".tmp", "w", encoding="utf-8") as file:
        file.write(str(server.server_address[1]))
    os.rename(port_file + ".tmp", port_file)
    server.serve_forever()


def join(spans_file, document):
    with open(spans_file, encoding="utf-8") as file:
        messages = [json.loads(line) for line in file]
    with open(document, "w", encoding="utf-8") as file:
        json.dump({"resourceSpans": [r for m in messages for r in m["resourceSpans"]]}, file, indent=1)


def value_of(attributes, key):
    return next((list(a["value"].values())[0] for a in attributes if a["key"] == key), None)


def read(spans_file):
    """Traces as lists of their four spans, each with what its process measured, in milliseconds."""
    traces = {}
    with open(spans_file, encoding="utf-8") as file:
        for line in file:
            for resource in json.loads(line)["resourceSpans"]:
                service = value_of(resource["resource"]["attributes"], "service.name")
                for span in (s for scope in resource["scopeSpans"] for s in scope["spans"]):
                    own, cpu = (int(value_of(span["attributes"], k)) / 1e6 for k in ("own.ns", "own.cpu_ns"))
                    traces.setdefault(span["traceId"].lower(), {})[service, span["name"]] = {
                        "id": span["spanId"].lower(), "ns": own, "cpu": cpu, "start": int(span["startTimeUnixNano"]) / 1e6}
    for trace, spans in traces.items():
        if len(spans) != len(ROWS):
            sys.exit(f"FAIL: trace {trace} has {sorted(spans)}")
    return traces


def slowest(traces):
    return max(traces.items(), key=lambda t: t[1]["front", "checkout"]["ns"])


def fail(what):
    sys.exit("FAIL: " + what)


def near(what, said, truth, most):
    print(f"{what:58} {said:9.1f} ms {truth:9.1f} ms")
    if abs(said - truth) > most:
        fail(f"{what}: {said:.1f} ms, not {truth:.1f} (at most {most:.1f} off)")


def milliseconds(text):
    number, unit = text.lstrip("~").split()
    return float(number) * UNITS[unit]


TIME = r"~?[0-9.]+ (?:us|ms|s)"
ROW = re.compile(rf"^ *({TIME}) +({TIME}) +({TIME})? *({TIME})? *\[[ =]{{20}}\]  ( *)(\w+): (.*)$")


def judge(spans_file, table):
    traces = read(spans_file)
    trace, spans = slowest(traces)
    with open(table, encoding="utf-8") as file:
        lines = file.read().splitlines()
    if not lines[0].startswith(f"trace {trace}: 4 spans of 2 services, "):
        fail(f"not the slow trace {trace}: {lines[0]}")
    if len(traces) != 12:
        fail(f"{len(traces)} traces")
    rows, where = [], {}
    for line in lines[2:]:
        match = ROW.match(line)
        if match:
            rows.append(match.groups())
        elif line.lstrip().startswith("span "):
            where[rows[-1][5], rows[-1][6]] = line.lstrip()
        else:
            fail("a line of no form: " + line)
    if [(r[5], r[6], len(r[4]) // 2) for r in rows] != ROWS:
        fail(f"the rows are {rows}")
    begun = spans["front", "checkout"]["start"]
    for start, took, cpu, off, _, service, name in rows:
        span = spans[service, name]
        what = f"{service}: {name}"
        # The process reads its clocks next to those of the SDK, and is seldom preempted just there; figures have three digits.
        near(what + ", start", milliseconds(start), span["start"] - begun, 1 + 0.01 * (span["start"] - begun))
        near(what + ", took", milliseconds(took), span["ns"], 5 + 0.01 * span["ns"])
        if (name in ("checkout", "reserve")) != (cpu is not None and off is not None):
            fail(f"{what} has {cpu} on a CPU, {off} off it")
        if cpu is None:
            continue
        near(what + ", on a CPU", milliseconds(cpu), span["cpu"], 2 + 0.02 * span["cpu"])
        near(what + ", off a CPU", milliseconds(off), span["ns"] - span["cpu"], 5 + 0.02 * span["ns"])
        near(what + ", both", milliseconds(cpu) + milliseconds(off), span["ns"], 5 + 0.02 * span["ns"])
        if not where[service, name].startswith(f"span {span['id']}: "):
            fail(f"{what}: {where[service, name]}")
    check_where(where, spans)


def check_where(where, spans):
    """Where the time was: shares of a few samples, so within a quarter of the span."""
    call, query = spans["front", "POST /reserve"], spans["back", "supplier"]
    reserve = spans["back", "reserve"]
    for key, pattern, truth in (
            (("front", "checkout"), rf"({TIME}) waiting for a socket \(recv\w*\) in ask", call["ns"]),
            (("back", "reserve"), rf"({TIME}) sleeping in wait_for_supplier", query["ns"]),
            (("back", "reserve"), rf"({TIME}) in count_stock", reserve["cpu"])):
        found = re.search(pattern, where[key])
        if not found:
            fail(f"no {pattern}: {where[key]}")
        near(f"{key[0]}: {key[1]}, {found.group(0)[-30:]}", milliseconds(found.group(1)), truth, 0.25 * spans[key]["ns"])


def expect(what, value, wanted):
    if value != wanted:
        fail(f"{what}: {value!r}, not {wanted!r}")


def texts(page, selector):
    return page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")


def row(name):
    return f"[...document.querySelectorAll('.row')].find(e => e.querySelector('.name').textContent === {json.dumps(name)})"


def flame(page):
    return page.value("[...document.querySelectorAll('#flame .box')].map(e => e.tip[0])")


def look(path, spans_file):
    if browser.program() is None:
        sys.exit(77)
    trace, spans = slowest(read(spans_file))
    address = "file://" + path
    with browser.Browser(1320, 760) as page:
        page.go(address)
        expect("errors", page.said, [])
        expect("addresses", page.asked, [address])
        names = [f"{service}: {name}" for service, name, _ in ROWS]
        expect("rows", texts(page, ".row .name"), names)
        expect("summary", texts(page, "#summary")[0].startswith("4 spans of 2 services, "), True)
        expect("indentation", page.value("[...document.querySelectorAll('.row .words')].map(e => e.style.paddingLeft)"),
               ["0px", "12px", "24px", "36px"])
        # Bars are where the spans were, within two pixels.
        whole = spans["front", "checkout"]
        for service, name, _ in ROWS:
            span = spans[service, name]
            edges = page.value(f"""(() => {{
                const bar = ({row(f"{service}: {name}")}).querySelector('.bar').getBoundingClientRect();
                const all = ({row(f"{service}: {name}")}).querySelector('.line').getBoundingClientRect();
                return [(bar.left - all.left) / all.width, (bar.right - all.left) / all.width, 2 / all.width];
            }})()""")
            for at, wanted in zip(edges, ((span["start"] - whole["start"]) / whole["ns"],
                                          (span["start"] - whole["start"] + span["ns"]) / whole["ns"])):
                if abs(at - wanted) > edges[2] + 0.01:
                    fail(f"{name} at {at:.3f} of the trace, not {wanted:.3f}")
        # Each of our spans has its sentence, flame graph and waits.
        expect("the first span", page.value("document.querySelector('.row.chosen').request.span"), whole["id"])
        expect("its functions", {"prepare", "render", "ask"} <= set(flame(page)), True)
        page.click(row("back: reserve"))
        expect("the address", "span=" + spans["back", "reserve"]["id"] in page.value("location.hash"), True)
        expect("its functions", {"count_stock", "wait_for_supplier"} <= set(flame(page)), True)
        expect("not those of the other process", {"prepare", "ask"} & set(flame(page)), set())
        expect("its sentence", " more than the median of back: reserve" in texts(page, "#why")[0], True)
        expect("its time line", page.value("document.querySelectorAll('#line .box').length > 2"), True)
        page.click("[...document.querySelectorAll('#tabs button')].find(e => e.textContent === 'Waiting')")
        expect("its waits", "wait_for_supplier" in flame(page) and "count_stock" not in flame(page), True)
        # A span without samples says so.
        page.click(row("back: supplier"))
        expect("no profile", "no profile has this span" in texts(page, "#why")[0], True)
        page.key("ArrowUp")
        expect("keys", page.value("document.querySelector('.row.chosen').request.span"), spans["back", "reserve"]["id"])
        # Another trace.
        page.value("""(() => { const choice = document.getElementById('sort'); choice.selectedIndex = 1;
            choice.dispatchEvent(new Event('change')); })()""")
        expect("rows", texts(page, ".row .name"), names)
        other = page.value("document.querySelector('.row.chosen').request.trace")
        expect("another trace", other != trace and other in page.value("location.hash"), True)
        page.go(address + "#span=" + spans["back", "reserve"]["id"])
        expect("the address is shown", page.value("document.querySelector('.row.chosen').request.trace"), trace)
        page.key("/")
        page.type("supplier")
        page.wait("document.querySelectorAll('.row').length <= 2")
        expect("errors", page.said, [])
        page.size(600, 900)
        page.wait("innerWidth === 600")
        expect("it fits", page.value("document.documentElement.scrollWidth <= innerWidth"), True)


def picture(path, name, choice=""):
    with browser.Browser(1320, 760) as page:
        page.go("file://" + path + choice)
        for is_dark in (False, True):
            page.dark(is_dark)
            page.picture(f"{name}-{'dark' if is_dark else 'light'}.png")


if __name__ == "__main__":
    {"receive": receive, "join": join, "judge": judge, "look": look, "picture": picture}[sys.argv[1]](*sys.argv[2:])
