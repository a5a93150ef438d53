# SPDX-License-Identifier: Apache-2.0
"""Opens the links of exported spans as Grafana does: asks a Pyroscope for exactly what each URL says.

  SERVER RATE SPANS... The profile URL of every span with samples there finds the whole span, and the baseline URL of
                         the last span of a name finds all earlier ones.

CPU time between samples ([unsampled cpu]) is recorded until the end of its thread, so some of it may be outside of a
link's range: a span has at least the time of its samples and at most its CPU time. The last profile of a process is cut by
up to 20 ms to what the process has used, so here a sample stands for a tenth less than its period.
"""
import json
import sys
import urllib.parse
import urllib.request

PROFILE_URL = "pyroscope.profile.url"
BASELINE_URL = "pyroscope.profile.baseline.url"


def fail(text):
    print("FAIL: " + text, file=sys.stderr)
    sys.exit(1)


def quoted(text):
    return '"%s"' % text.replace("\\", "\\\\").replace('"', '\\"')


def filter_selector(text):
    """A filter is key|operator|value, with the escapes of Grafana's scenes; commas separate filters."""
    selector = ""
    for item in filter(None, text.split(",")):
        # Text behind a number sign says where a filter came from.
        key, operator, value = item.split("#")[0].split("|")[:3]
        for escape, char in (("__gfp__", "|"), ("__gfc__", ","), ("__gfh__", "#")):
            value = value.replace(escape, char)
        selector += "," + key + operator + quoted(value)
    return selector


def drilldown(query):
    return {
        "labelSelector": "{service_name=%s%s}" % (quoted(query["var-serviceName"]),
                                                  filter_selector(query.get("var-filters", ""))),
        "spanSelector": list(filter(None, query.get("var-spanSelector", "").split(","))),
        "profileTypeID": query["var-profileMetricId"],
        "start": query["from"],
        "end": query["to"],
    }


def explore(query):
    pane = json.loads(query["left"])
    ask = pane["queries"][0]
    return {
        "labelSelector": ask["labelSelector"],
        "spanSelector": ask.get("spanSelector", []),
        "profileTypeID": ask["profileTypeId"],
        "start": pane["range"]["from"],
        "end": pane["range"]["to"],
    }


def asks(url):
    """The type and the question of a link."""
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
    body = explore(query) if "left" in query else drilldown(query)
    return body["profileTypeID"], body


def follow(server, url):
    """Nanoseconds or bytes that the server shows for a link."""
    _, body = asks(url)
    call = "SelectMergeSpanProfile" if body["spanSelector"] else "SelectMergeStacktraces"
    request = urllib.request.Request(server + "/querier.v1.QuerierService/" + call,
                                     json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        return int(json.load(answer).get("flamegraph", {}).get("total", 0))


def main(server, rate, *paths):
    exported = []
    for path in paths:
        with open(path, encoding="utf-8") as file:
            exported += map(json.loads, file)
    with urllib.request.urlopen(server + "/double/spans", timeout=20) as answer:
        stored = {i: s for i, s in json.load(answer)["spans"].items() if s["samples"] > 0}
    sampled = [s for s in exported if s["span_id"] in stored]
    if len(sampled) != len(stored) or not sampled:
        fail("%d spans have samples, %d of them were exported" % (len(stored), len(sampled)))

    def least(spans):
        return sum(stored[s["span_id"]]["samples"] for s in spans) * 9 * 10 ** 8 // int(rate)

    lost = []
    for s in sampled:
        url = s["attributes"][PROFILE_URL]
        if not least([s]) <= follow(server, url) <= stored[s["span_id"]]["ns"]:
            lost.append(url)
    if lost:
        fail("%d of %d spans with samples are not found whole by their links, such as %s" % (
            len(lost), len(sampled), lost[0]))
    last = {s["name"]: s for s in sorted(sampled, key=lambda s: s["start_ns"])}
    baselines = 0
    for name, span in last.items():
        url = span["attributes"][BASELINE_URL]
        named = [s for s in sampled if s["name"] == name]
        # The program's first span does nothing, and has a sample only by chance.
        if len(named) == 1:
            continue
        baselines += 1
        before = least([s for s in named if s["end_ns"] <= span["start_ns"]])
        shown = follow(server, url)
        # The profile in which the span begins may already contain samples of it.
        if not 0 < before <= shown <= sum(stored[s["span_id"]]["ns"] for s in named):
            fail("before the last %s there were %d ns, its baseline shows %d: %s" % (
                name, before, shown, url))
    if baselines < 2:
        fail("%d names have a baseline" % baselines)
    print("%d spans found by their links, %d baselines" % (len(sampled), baselines))


if __name__ == "__main__":
    main(*sys.argv[1:])
