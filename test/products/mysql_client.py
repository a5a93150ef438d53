# SPDX-License-Identifier: Apache-2.0
"""Whether a tracing client of MySQL and the server have their work in one trace, each in its own spans:
mysql_client.py SPANS SERVER CLIENT BY_HAND SECONDS. SERVER and CLIENT are reports of their profiles, BY_HAND is the
trace of a statement that a client without a tracer has sent, SECONDS is the client's CPU time by its shell. Prints
the comparison, "trace ID" of the client's longest statement, and "truth TEXT" for the table; exit status 0 if everything agrees."""

import json
import sys

spans_file, server_file, client_file, by_hand, seconds = sys.argv[1:]
wrong = []


def check(holds, text):
    print(("  ok   " if holds else "  FAIL ") + text)
    if not holds:
        wrong.append(text)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def said(spans, key):
    return sum(s["attributes"].get(key, 0) for s in spans)


def sampled(report, spans):
    ids = {s["span_id"] for s in spans}
    return sum(s["ns"] for s in report["spans"] if s["span_id"] in ids)


def percent(a, b):
    return 100.0 * (a - b) / b if b else 100.0


with open(spans_file, encoding="utf-8") as file:
    spans = {s["span_id"]: s for s in map(json.loads, file)}
server, client = read(server_file), read(client_file)
clients = [s for s in spans.values() if s["service"] == "mysql"]
statements = [s for s in spans.values() if s["name"] == "stmt" and s["parent_span_id"]]
sessions = {s["trace_id"] + s["span_id"] for s in spans.values() if s["name"] == "session"}
of_clients = [s for s in statements if spans.get(s["parent_span_id"], {}).get("service") == "mysql"]
sent = [s for s in statements if s["trace_id"] == by_hand]

check(len(clients) == len(of_clients) == 3, "three statements of the server are below three spans of the client")
check(all(s["trace_id"] == spans[s["parent_span_id"]]["trace_id"] for s in of_clients), "each pair is one trace")
check(len(sent) == 1, "one more has the parent that was sent by hand")
check(all(sessions.intersection(s["links"]) for s in statements), "each of the four links to its session")
for s in statements:
    ours, theirs = s["attributes"].get("spanprof.cpu_time_ns", 0), s["attributes"].get("mysql.cpu_time", 0)
    # MySQL begins before its span and ends after it, by some tenths of a millisecond.
    check(abs(ours - theirs) < 0.01 * theirs + 1e6, "%7.1f ms of CPU time, mysql.cpu_time %7.1f ms" % (ours / 1e6, theirs / 1e6))
ours, theirs = sampled(server, statements), said(statements, "mysql.cpu_time")
off_server = percent(ours, theirs)
check(abs(off_server) < 3, "%.1f ms sampled in them, mysql.cpu_time %.1f ms (%+.1f %%)" % (ours / 1e6, theirs / 1e6, off_server))
ours, theirs = sampled(client, clients), said(clients, "spanprof.cpu_time_ns")
check(abs(percent(ours, theirs)) < 3, "%.1f ms sampled in spans of the client, whose CPU time is %.1f ms" %
      (ours / 1e6, theirs / 1e6))
off_client = percent(client["total"]["ns"], float(seconds) * 1e9)
check(abs(off_client) < 3, "%.3f s sampled in the client, which has used %s s (%+.1f %%)" %
      (client["total"]["ns"] / 1e9, seconds, off_client))
share = 100.0 * client["labelled"]["ns"] / client["total"]["ns"]
check(share > 95, "%.1f %% of it in spans" % share)
print("trace " + max(of_clients, key=lambda s: s["end_ns"] - s["start_ns"])["trace_id"] if of_clients else "")
print("truth statements of a client that traces: %+.1f %% of `mysql.cpu_time`; the client: %+.1f %% of its CPU time, %.1f %% in spans" % (
    off_server, off_client, share))
sys.exit(1 if wrong else 0)
