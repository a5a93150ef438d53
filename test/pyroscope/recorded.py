# SPDX-License-Identifier: Apache-2.0
"""What a real Pyroscope answers to the requests below, and whether the double answers the same.

  recorded.py record URL TENANTS_URL    asks a server, and one with -auth.multitenancy-enabled, both with
                                        nothing else changed and empty, and writes recorded.json
  recorded.py check DOUBLE              starts the double, with and without its own rules

Each request goes to a service of its own. Its record is the answer, and what can be read back afterwards:
the series and the flame graph. What the double refuses on its own, and what it counts as lost where the server
says nothing, stands in the cases, as no server can tell it.
"""
import gzip
import http.client
import json
import os
import re
import subprocess
import sys
import time
import urllib.parse

from profiles import CPU, SPAN, TICK_NS, TRACE, Profile, field, series

ANSWERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.json")
PUSH = "/push.v1.PusherService/Push"
QUERIER = "/querier.v1.QuerierService/"
CPU_TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
PROTO = {"Content-Type": "application/proto"}
JSON = {"Content-Type": "application/json"}
SECOND = 10 ** 9


class Case:
    """strict: what the double alone refuses it for. lost: what it counts. own_words: only status and code have
    to be the server's. tenant: asked where there are many. reads: where it is looked for afterwards."""

    def __init__(self, name, body=b"", path=PUSH, headers=PROTO, method="POST", strict=None, lost=(),
                 own_words=False, many=False, kind=CPU_TYPE, service=None):
        self.name, self.body, self.path, self.headers, self.method = name, body, path, headers, method
        self.strict, self.lost, self.own_words, self.many = strict, dict(lost), own_words, many
        # the service and the type by which its profile is searched
        self.service, self.kind = service or slug(name), kind


def slug(name):
    return re.sub("[^a-z0-9]+", "-", name)


def cpu_labels(name):
    return [("__name__", "process_cpu"), ("service_name", slug(name))]


def all_cases(now):
    cases = []

    def case(name, *args, **options):
        cases.append(Case(name, *args, **options))

    def good(**options):
        profile = Profile(now, **options)
        profile.span()
        return profile

    def push(name, change=None, labels=(), without=(), profile=None, **options):
        """One profile, changed; a good one unless another is given."""
        made = profile or good()
        if change:
            change(made)
        pairs = [p for p in cpu_labels(name) if p[0] not in without] + list(labels)
        case(name, series(pairs, made.bytes()), **options)

    def raw(name, data, **options):
        case(name, series(cpu_labels(name), data), **options)

    def ingest(name, query, body=None, headers=None, app=None, **options):
        name = "ingest " + name
        path = "/ingest?name=%s%s" % (urllib.parse.quote(slug(name) if app is None else app), query)
        case(name, good().bytes() if body is None else body, path=path, headers=headers or {}, **options)

    def labelled(*pairs):
        return lambda p: p.sample(labels=b"".join(p.label(*pair) for pair in pairs))

    # What a push is.
    push("good")
    case("gzipped", gzip.compress(series(cpu_labels("gzipped"), gzip.compress(good().bytes()))),
         headers={**PROTO, "Content-Encoding": "gzip"})
    case("not gzipped", series(cpu_labels("not gzipped"), good().bytes()),
         headers={**PROTO, "Content-Encoding": "gzip"}, own_words=True)
    push("brotli", headers={**PROTO, "Content-Encoding": "br"}, own_words=True)
    push("protocol 1", headers={**PROTO, "Connect-Protocol-Version": "1"})
    push("protocol 2", headers={**PROTO, "Connect-Protocol-Version": "2"})
    for value in ("10000", "9999999999", "12345678901", "10s", "-"):
        push("timeout " + value, headers={**PROTO, "Connect-Timeout-Ms": value}, own_words=True)
    push("another type", headers={"Content-Type": "application/x-protobuf"})
    case("get", method="GET")
    case("nothing")
    case("no protobuf", b"\x0a\x05no", own_words=True)
    case("no such path", path="/push", own_words=True)
    raw("no pprof", b"no pprof", own_words=True)
    raw("half a gzip", gzip.compress(good().bytes())[:40], own_words=True)
    raw("bad gzip", b"\x1f\x8b\x08 not gzip", own_words=True)
    raw("empty pprof", b"")
    case("good between bad", b"".join(series(cpu_labels("good between bad"), p)
                                      for p in (b"no", good().bytes(), b"no")), own_words=True)
    case("bad and nameless", series(cpu_labels("bad and nameless"), b"no pprof") +
         series([("service_name", "bad-and-nameless")], good().bytes()))

    # Labels of series.
    push("no metric", without=["__name__"])
    push("no service", without=["service_name"], lost={"default_service_names": 1}, service="unknown_service")
    push("empty service", without=["service_name"], labels=[("service_name", "")])
    push("dots and dashes", labels=[("cloud.region-1", "eu")])
    push("a label without a name", labels=[("", "v")])
    push("a label that is no text", labels=[("n", b"\xc5")], own_words=True)
    push("a label twice", labels=[("a", "1"), ("a", "2")])
    push("a name in utf-8", labels=[("\u00e9 t\u00e9", "v")])
    push("an empty label", labels=[("a", "")], lost={"empty_labels": 1})
    for size in (1024, 1025):
        push("name of %d" % size, labels=[("n" * size, "v")])
    for size in (2048, 2049):
        push("value of %d" % size, labels=[("n", "v" * size)])
    for count in (30, 31):
        # the span's name is one more
        push("%d names" % count, labels=[("l%02d" % i, "v") for i in range(count - 3)])

    # Samples.
    push("2048 bytes of span name", lambda p: p.span(name="n" * 2048))
    push("2049 bytes of span name", lambda p: p.span(name="n" * 2049))
    push("a number as a label", labelled(("thread_id", None, 7)), lost={"numeric_labels": 1})
    push("the service as a label", labelled(("service_name", "other")), lost={"shadowed_sample_labels": 1})
    push("profile_id", labelled(("profile_id", SPAN)))
    push("a key twice", labelled(("a", "1"), ("a", "2")), lost={"repeated_sample_labels": 1})
    for span_id in ("9a517183f26a089", SPAN + "0", "9a517183f26a089g", "0" * 16):
        push("span id " + span_id, labelled(("span_id", span_id)), lost={"invalid_span_ids": 1})
    push("capital span id", labelled(("span_id", SPAN.upper())))
    push("short trace id", labelled(("trace_id", SPAN)), lost={"invalid_trace_ids": 1})
    push("zeros", lambda p: p.sample((0, 0)), lost={"zero_samples": 1})
    push("a negative", lambda p: p.sample((1, -1)), lost={"negative_samples": 1})
    zeros = Profile(now)
    zeros.sample((0, 0))
    push("zeros alone", profile=zeros, lost={"zero_samples": 1, "empty_profiles": 1})
    push("equal ones", lambda p: (p.span(2), p.span(4, "00000000000000ab"), p.span(8, None, "GET /", None)))
    for count in (100, 101):
        push("%d labels" % count, labelled(*[("span_id", SPAN)] * count),
             lost={"repeated_sample_labels": 99} if count == 100 else {})
    for count in (1, 3):
        push("%d values" % count, lambda p, n=count: p.sample((1, 2, 3)[:n]))
    for depth in (1000, 1001):
        push("%d frames" % depth, lambda p, n=depth: p.sample(stack=[3] + [1] * (n - 1)),
             lost={"truncated_stacks": 1, "truncated_frames": 1} if depth > 1000 else {})
    for count in (16000, 16001):
        many = Profile(now)
        for _ in range(count):
            many.sample()
        push("%d samples" % count, profile=many)

    # The rest of a profile.
    push("location 0", lambda p: p.location(0, 1, 1))
    push("function 0", lambda p: p.function(0, 0))
    push("a dash in a type", profile=good(types=(CPU[0], ("off-cpu", "nanoseconds"))))
    push("a dash in a unit", profile=good(types=(CPU[0], ("cpu", "nano-seconds"))))
    push("no type", profile=good(types=()))
    shifted = good()
    shifted.strings[0] = b"cpu"
    push("string 0 is not empty", profile=shifted)
    push("no utf-8", lambda p: p.new_string(b"a\xff"))
    push("utf-8", lambda p: p.new_string(b"a\xc3\xbf"))
    push("a function's name beyond", lambda p: p.function(9, 999))
    push("a function's name below", lambda p: p.function(9, -1), strict="function name below 0")
    push("a mapping's name beyond", lambda p: p.mapping(9, 999))
    push("a build id beyond", lambda p: p.mapping(9, 0, more=field(6, 999)))
    push("a label beyond", lambda p: p.sample(labels=field(3, field(1, p.string("k")) + field(2, 999))))
    push("a type beyond", lambda p: (p.add(1, field(1, 999)), p.sample((1, 2, 3))))
    for size in (65535, 65536):
        push("string of %d" % size, lambda p, n=size: p.function(9, p.new_string(b"h" + b"x" * (n - 1))),
             lost={"cut_strings": 1} if size > 65535 else {})
    for seconds in (-3500, -3700, 500, 700):
        other = Profile(now + seconds * SECOND)
        other.span()
        push("time %+d s" % seconds, profile=other)
    timeless = Profile(0)
    timeless.span()
    push("no time", profile=timeless, lost={"replaced_times": 1})
    for size in ((2 << 20) - 200, (2 << 20) + 200, (4 << 20) + 200):
        push("%d bytes" % size, lambda p, n=size: p.add(100, bytes(n - len(p.bytes()) - 6)))
    bomb = series(cpu_labels("bomb"), gzip.compress(bytes(32 << 20)))
    case("bomb", bomb, own_words=True)
    raw("tiny messages", b"\x22\x00" * 100000)

    # The server does not notice these, but users see the result.
    push("a string twice", lambda p: p.sample(labels=field(3, field(1, p.new_string("span_id")) +
                                                            field(2, p.string(SPAN)))),
         strict="string in the table twice ('span_id')")
    push("mapping 0", lambda p: p.mapping(0, 0), strict="mapping id is 0")
    push("mapping missing", lambda p: p.location(9, 0, 1), strict="location without an existing mapping (9)")
    push("mapping twice", lambda p: p.mapping(1, 0), strict="mapping id twice (1)")
    push("function missing", lambda p: p.location(9, 1, 77), strict="location with a missing function (9)")
    push("location missing", lambda p: p.sample(stack=[77]), strict="sample with a missing location (1)",
         lost={"unresolved_samples": 1})
    push("no line", lambda p: p.location(9, 1, 0),
         strict="location without lines in a mapping that has functions (9)")
    push("no line, none told", lambda p: (p.mapping(2, 0, False), p.location(9, 2, 0)))
    push("comment beyond", lambda p: p.add(13, 9999), strict="comment string index out of range")
    push("no period", profile=good(period=None), strict="no period_type")

    # /ingest.
    ingest("raw", "&format=pprof&spyName=c", app="ingest-raw{a=b}")
    ingest("service given", "&format=pprof", app="app{service_name=ingest-service-given}")
    ingest("service given empty", "&format=pprof", app="app{service_name=}")
    ingest("no name", "&format=pprof", app="")
    for app in ("a:b", "a b", "{a=b}", "app{a=b,c,d=e}", "app{=v}"):
        ingest("name " + app, "&format=pprof", app=app)
    for app in (" a-b.c/d_9 ", "open{a=b", "twice{a=1,a=2}", 'text{a=b=c&"d"}'):
        ingest("name " + app, "&format=pprof", app=app, service=app.split("{")[0].strip())
    ingest("no pprof", "&format=pprof", b"no pprof", own_words=True)
    bad_text = good()
    bad_text.new_string(b"\xff")
    ingest("no utf-8", "&format=pprof", bad_text.bytes())
    ingest("jfr", "&format=jfr", own_words=True)
    ingest("any format", "&format=any", own_words=True)
    case("ingest get", path="/ingest", headers={}, method="GET")
    for kind, unit in (("samples", "count"), ("wall", "nanoseconds"), ("alloc_space", "bytes"),
                       ("space", "bytes"), ("outer_space", "bytes")):
        one = Profile(now, types=((kind, unit),))
        one.sample((1,))
        ingest("type " + kind, "&format=pprof", one.bytes(), kind=None)
    ingest("nothing", "&format=pprof", b"", lost={"empty_ingests": 1})

    # Tenants.
    push("no tenant", many=True)
    push("a tenant", many=True, headers={**PROTO, "X-Scope-OrgID": "team"})
    push("a tenant where there is one", headers={**PROTO, "X-Scope-OrgID": "team"})
    ingest("no tenant", "&format=pprof", many=True)

    # Questions, about the first push.
    def ask(name, call, own_words=False, /, **question):
        question = {"start": now // 10 ** 6 - 60000, "end": now // 10 ** 6 + 60000, **question}
        case(name, json.dumps({k: v for k, v in question.items() if v is not None}).encode(),
             path=QUERIER + call, headers=JSON, own_words=own_words)

    mine = {"profileTypeID": CPU_TYPE, "labelSelector": '{service_name="equal-ones"}'}
    ask("a span", "SelectMergeSpanProfile", **mine, spanSelector=[SPAN])
    ask("another span", "SelectMergeSpanProfile", **mine, spanSelector=["00000000000000ab"])
    ask("a span in capitals", "SelectMergeSpanProfile", **mine, spanSelector=[SPAN.upper()])
    ask("an unknown span", "SelectMergeSpanProfile", **mine, spanSelector=["f" * 16])
    ask("a span of another service", "SelectMergeSpanProfile", profileTypeID=CPU_TYPE,
        labelSelector='{service_name="other"}', spanSelector=[SPAN])
    ask("a span of another time", "SelectMergeSpanProfile", **mine, spanSelector=[SPAN],
        end=now // 10 ** 6 - 30000)
    ask("a short span id", "SelectMergeSpanProfile", **mine, spanSelector=["9a"])
    ask("a span's name", "SelectMergeStacktraces", profileTypeID=CPU_TYPE,
        labelSelector='{service_name="equal-ones",span_name!="GET /"}')
    ask("a bad type", "SelectMergeStacktraces", profileTypeID="cpu", labelSelector="{}")
    ask("no range", "SelectMergeStacktraces", **mine, start=None, end=None)
    ask("a range that ends before", "SelectMergeStacktraces", **mine, start=2, end=1)
    ask("a long range", "SelectMergeStacktraces", **mine, start=1, end=86400002)
    ask("values of names", "LabelValues", name="span_name", matchers=['{service_name="equal-ones"}'])
    ask("names", "LabelNames", matchers=['{service_name="equal-ones"}'])
    ask("an unknown question", "Unknown", True)
    return cases


class Server:
    def __init__(self, url):
        self.connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=60)

    def ask(self, method, path, body=b"", headers=None):
        self.connection.request(method, path, body, headers or {})
        answer = self.connection.getresponse()
        return answer.status, answer.headers.get("Content-Type", "").split(";")[0], answer.read()

    def question(self, call, question):
        _, _, body = self.ask("POST", QUERIER + call, json.dumps(question).encode(), JSON)
        return json.loads(body or b"{}")

    def stats(self):
        return json.loads(self.ask("GET", "/double/stats")[2])


def flame(answer):
    """A flame graph as the value of each stack, and of its own. Each bar is four numbers, the first of which is
    the distance from the end of the bar before."""
    graph = answer.get("flamegraph") or {}
    names, out, above = graph.get("names", []), {}, [(0, None, ())]
    for level in graph.get("levels", []):
        bars, at = [], 0
        numbers = list(map(int, level["values"]))
        for i in range(0, len(numbers), 4):
            at += numbers[i]
            parent = [stack for start, end, stack in above if start <= at and (end is None or at < end)][0]
            stack = parent + (names[numbers[i + 3]],)
            key = " ".join(stack[1:]) or "total"
            if len(stack) > 8:
                key = "%s ... %d" % (stack[-1], len(stack) - 1)
            # of a deep stack only the ends are compared
            if len(stack) < 9 or numbers[i + 2]:
                out[key[:40]] = [numbers[i + 1], numbers[i + 2]]
            bars.append((at, at + numbers[i + 1], stack))
            at += numbers[i + 1]
        above = bars
    # An empty graph has a total of 0, or no bar at all.
    return out if out.get("total", [0])[0] else {}


# The flame graph of one sample of 10 ms.
GOOD = {"main": [TICK_NS, 0], "main work": [TICK_NS, 0], "main work leaf": [TICK_NS, TICK_NS], "total": [TICK_NS, 0]}


def steady(text):
    """The text without parts that differ each time."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)? \+0000 UTC", "TIME", text)
    return text if len(text) < 400 else text[:200] + " ... " + text[-120:]


def told(status, kind, body, own_words):
    """The parts of an answer that are compared."""
    out = {"status": status, "type": kind if body else ""}
    if status == 200 and (kind == "application/proto" or not body):
        # an empty message, which a server compresses if it likes
        return {"status": 200}
    try:
        parsed = json.loads(body)
    except ValueError:
        return out if own_words else {**out, "body": steady(body.decode(errors="replace"))}
    if "code" in parsed:
        out["code"] = parsed["code"]
        if not own_words:
            out["message"] = steady(parsed.get("message", ""))
    elif "flamegraph" in parsed:
        out["flame"] = flame(parsed)
    elif parsed:
        out["body"] = parsed
    return out


def stored(server, case, now):
    """What can be read back of it; a server does not show other names than Prometheus had at first."""
    span = {"start": now // 10 ** 6 - 3 * 3600000, "end": now // 10 ** 6 + 3 * 3600000}
    who = '{service_name="%s"}' % case.service
    found = server.question("Series", {"matchers": [who], **span}).get("labelsSet", [])
    shown = sorted({steady(" ".join("%s=%s" % (p["name"], p["value"]) for p in s["labels"]
                                    if re.fullmatch("__name__|(?!__)[A-Za-z_][A-Za-z0-9_]*", p["name"])))
                    for s in found})
    out = {"series": shown} if shown else {}
    graph = case.kind and flame(server.question("SelectMergeStacktraces", {
        "profileTypeID": case.kind, "labelSelector": who, "maxNodes": 100000, **span}))
    return {**out, "flame": "good" if graph == GOOD else graph} if graph else out


def answer_of(server, case):
    return told(*server.ask(case.method, case.path, case.body, case.headers), case.own_words)


def record(url, tenants_url):
    now = time.time_ns()
    servers = [Server(url), Server(tenants_url)]
    cases, out = all_cases(now), {}
    assert len({case.name for case in cases}) == len(cases)
    for case in cases:
        if case.path.startswith(QUERIER):
            continue
        if len(case.body) > 100000:
            # the rate is limited to 4 MiB in a second, in bursts of 2
            time.sleep(2)
        out[case.name] = {"answer": answer_of(servers[case.many], case)}
    time.sleep(10)
    for case in cases:
        if case.path.startswith(QUERIER):
            out[case.name] = {"answer": answer_of(servers[0], case)}
        elif not case.many:
            found = stored(servers[0], case, now)
            out[case.name].update({"stored": found} if found else {})
    with open(ANSWERS, "w", encoding="utf-8") as file:
        file.write("{\n" + ",\n".join("%s: %s" % (json.dumps(k), json.dumps(v, sort_keys=True))
                                      for k, v in out.items()) + "\n}\n")
    print("%d answers" % len(out))


class Double(Server):
    def __init__(self, program, *options):
        reader, writer = os.pipe()
        self.process = subprocess.Popen([program, "--ack-delay", "0", *options], stdout=writer)
        os.close(writer)
        with os.fdopen(reader) as file:
            super().__init__("http://127.0.0.1:" + file.readline().strip())

    def stop(self):
        self.process.terminate()
        return self.process.wait()


WRONG = []


def expect(what, wanted, got):
    if wanted != got:
        WRONG.append("%s:\n   wanted %s\n   got    %s" % (what, wanted, got))


def check_recorded(program, answers, now):
    lenient, strict = Double(program, "--no-strict"), Double(program)
    many = Double(program, "--multitenancy", "--no-strict")
    for case in all_cases(now):
        wanted = answers.pop(case.name)
        expect(case.name, wanted["answer"], answer_of(many if case.many else lenient, case))
        if case.many or case.path.startswith(QUERIER):
            continue
        expect(case.name + ", stored", wanted.get("stored", {}), stored(lenient, case, now))
        before = strict.stats()["silently_dropped"]
        got = answer_of(strict, case)
        if case.strict:
            expect(case.name + ", strict", (400, True), (got["status"], case.strict in got.get("message", "")))
        else:
            expect(case.name + ", strict", wanted["answer"], got)
            after = strict.stats()["silently_dropped"]
            expect(case.name + ", lost", case.lost,
                   {k: after[k] - before[k] for k in after if k != "total" and after[k] != before[k]})
    expect("answers to nothing", {}, answers)
    for double in (lenient, strict, many):
        expect("the double's end", 0, double.stop())


def check_hostile(program, now):
    """Whatever arrives is answered; the sanitizers say what else it does."""
    profile = Profile(now)
    profile.span()
    profile.span(2, None, None, None)
    body = series(cpu_labels("hostile"), profile.bytes())
    double = Double(program, "--no-strict")
    for cut in range(len(body)):
        expect("cut at %d" % cut, True, double.ask("POST", PUSH, body[:cut], PROTO)[0] in (400, 500))
    expect("whole", 200, double.ask("POST", PUSH, body, PROTO)[0])
    for at in range(len(body)):
        for change in (0x01, 0x80, 0xff, 0x7f):
            changed = body[:at] + bytes([body[at] ^ change]) + body[at + 1:]
            expect("byte %d ^ %02x" % (at, change), True,
                   double.ask("POST", PUSH, changed, PROTO)[0] in (200, 400, 429, 500))
    double.question("SelectMergeStacktraces", {"profileTypeID": CPU_TYPE, "start": now // 10 ** 6 - 1000,
                                               "end": now // 10 ** 6 + 1000})
    double.question("Series", {})
    double.ask("GET", "/double/spans")
    expect("the double's end", 0, double.stop())


def main():
    if sys.argv[1] == "record":
        record(*sys.argv[2:])
        return 0
    with open(ANSWERS, encoding="utf-8") as file:
        answers = json.load(file)
    number = len(answers)
    check_recorded(sys.argv[2], answers, time.time_ns())
    check_hostile(sys.argv[2], time.time_ns())
    for wrong in WRONG:
        print("FAIL " + wrong)
    print("%d answers compared, %d wrong" % (number, len(WRONG)))
    return 1 if WRONG else 0


if __name__ == "__main__":
    sys.exit(main())
