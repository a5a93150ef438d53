#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of slow requests in a real browser.

usage: slow_page.py make FOLDER     writes what the exporter writes: 1,000 slow requests
       slow_page.py look PAGE       looks at the page of that folder
       slow_page.py served ADDRESS  looks at the page that --serve has
       slow_page.py picture PAGE NAME [HASH]   NAME-light.png and NAME-dark.png

"look" ends with 77 if there is no browser. Each request lasts 400 ms and more: it computes for 50 ms in shop::parse, waits
for a lock that POST /refund holds, and computes for 50 ms in shop::render. Every third request has a second thread.
"""
import json
import sys

import browser
from pprof_writer import Profile

BEGIN_S, REQUESTS, WAIT_MS, WITHIN_MS = 1_700_000_000, 1000, 300, 10
PROGRAM, LIBC, MARK = "@/srv/shopd", "@/lib/x86_64-linux-gnu/libc.so.6", "@[spanprof]"
MAIN = ["main" + PROGRAM, "shop::handle(int)" + PROGRAM]
LOCK = [*MAIN, "shop::reserve" + PROGRAM, "pthread_mutex_lock" + LIBC, "futex (lock)" + MARK,
        "held by POST /refund in shop::pay" + MARK]
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def make(folder):
    cpu, waits, times = (Profile(kind, BEGIN_S, 600) for kind in ("cpu", "off_cpu", "wall"))
    spans = []
    for i in range(REQUESTS):
        name = EVIL if i == REQUESTS // 2 else "search" if i % 2 else "checkout"
        start = BEGIN_S * 10 ** 9 + i * 500_000_000
        wait = WAIT_MS + i * 10
        labels = {"span_id": f"{i + 1:016x}", "span_name": name, "trace_id": f"{i + 1:032x}"}

        def moment(profile, stack, at_ms, ms, thread=7):
            profile.sample(stack, 1, ms * 10 ** 6, **labels)
            times.sample(stack, 1, ms * 10 ** 6, end_timestamp_ns=start + int(at_ms * 1e6), thread_id=thread, **labels)

        for k in range(5):
            moment(cpu, [*MAIN, "shop::parse" + PROGRAM], 4 + 10 * k, 10)
            moment(cpu, [*MAIN, "shop::render" + PROGRAM, "std::sort<It>(It, It)" + PROGRAM], 54 + wait + 10 * k, 10)
        for k in range(3):
            moment(waits, LOCK, 50 + wait * (2 * k + 1) / 6, wait // 3)
        if i % 3 == 0:
            moment(cpu, ["audit" + PROGRAM], 200, 10, 8)
        values = {"thread.id": 7, "cpu_time_ns": 10 ** 8, "off_cpu_time_ns": wait * 10 ** 6, "roots.count": 4000,
                  "duration.p50_ns": 3 * 10 ** 7, "duration.p90_ns": 10 ** 8, "duration.p99_ns": 3 * 10 ** 8}
        spans.append({"traceId": labels["trace_id"], "spanId": labels["span_id"], "name": name, "kind": 2,
                      "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + (100 + wait) * 10 ** 6),
                      "attributes": [{"key": "spanprof." + key, "value": {"intValue": str(n)}} for key, n in values.items()]})
    stem = f"{folder}/spanprof-shop-123-20231114T221320Z-0a1b2c3d-00000"
    cpu.write(stem + "1.pb.gz")
    waits.write(stem + "2-off_cpu.pb.gz")
    times.write(stem + "4-slow.pprof.gz")
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}},
                               {"key": "process.pid", "value": {"intValue": "123"}}]}
    with open(stem + "3-slow.otlp.jsonl", "w", encoding="utf-8") as file:
        file.write(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [
            {"scope": {"name": "spanprof"}, "spans": spans}]}]}) + "\n")


def expect(what, value, wanted):
    if value != wanted:
        sys.exit(f"FAIL: {what}: {value!r}, not {wanted!r}")


def texts(page, selector):
    return page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(e => e.textContent)")


def by_tip(name):
    return f"[...document.querySelectorAll('#line .box')].find(e => e.tip && e.tip[0] === {json.dumps(name)})"


def flame(name):
    return f"[...document.querySelectorAll('#flame .box')].find(e => e.tip && e.tip[0] === {json.dumps(name)})"


def chosen(page):
    return page.value("document.querySelector('.row.chosen').request.span")


def edges(page, name, whole_ms):
    """Where a box of the time line begins and ends, in milliseconds."""
    return page.value(f"""(() => {{
        const box = ({by_tip(name)}), all = box.parentElement.getBoundingClientRect(), r = box.getBoundingClientRect();
        return [r.left - all.left, r.right - all.left].map((px) => px / all.width * {whole_ms});
    }})()""")


def look_at_line(page):
    whole = WAIT_MS + (REQUESTS - 1) * 10 + 100
    for name, begin, end in (("shop::parse", 0, 50), ("shop::reserve", 50, whole - 50),
                             ("lock held by POST /refund in shop::pay", 50, whole - 50), ("shop::render", whole - 50, whole)):
        for at, wanted in zip(edges(page, name, whole), (begin, end)):
            # A pixel is 12 ms here.
            if abs(at - wanted) > WITHIN_MS + whole / page.value("document.querySelector('.track').clientWidth"):
                sys.exit(f"FAIL: {name} at {at:.1f} ms, not {wanted}")
    expect("threads", texts(page, "#line .label"), ["thread 7", "held by", "thread 8"])
    expect("what is shared by all stacks is left out", page.value(f"{by_tip('main')} === undefined"), True)
    # A click shows a part of the time, Escape all of it.
    page.click(by_tip("shop::parse"))
    expect("a part", texts(page, "#line-title")[0].partition(" ms, from ")[2], "0.0 to 49.0 ms (Esc: whole)")
    page.key("Escape")
    expect("whole", texts(page, "#line-title"), ["Time line"])


def look_at_flame(page):
    expect("the whole", page.value(f"{flame('main')}.offsetWidth > 0.9 * document.getElementById('flame').offsetWidth"), True)
    page.click(flame("shop::render"))
    expect("zoomed", page.value(f"{flame('shop::render')}.offsetWidth === document.getElementById('flame').offsetWidth"), True)
    page.key("Escape")
    expect("back", page.value(f"{flame('shop::reserve')} !== undefined"), True)
    tab = "[...document.querySelectorAll('#tabs button')].find(e => e.textContent === %r)"
    page.click(tab % "On a CPU")
    expect("no waits", page.value(f"{flame('futex (lock)')} === undefined && {flame('shop::parse')} !== undefined"), True)
    page.click(tab % "Difference")
    expect("more than in the average request", page.value(f"{flame('shop::reserve')}.classList.contains('more')"), True)
    expect("the address", "tab=diff" in page.value("location.hash"), True)
    page.click(tab % "This request")


def look(path):
    if browser.program() is None:
        sys.exit(77)
    address = "file://" + path
    with browser.Browser(1320, 760) as page:
        page.go(address)
        expect("errors", page.said, [])
        expect("addresses", page.asked, [address])
        expect("title", texts(page, "#title"), ["shop: slow requests"])
        expect("rows", page.value("document.querySelectorAll('.row').length"), REQUESTS)
        expect("summary", texts(page, "#summary")[0].endswith("1000 slow"), True)
        # What was slower by most comes first, and is shown.
        slowest = f"{REQUESTS:016x}"
        expect("chosen", chosen(page), slowest)
        expect("the address", page.value("location.hash"), "#span=" + slowest)
        expect("the sentence", texts(page, "#why")[0].startswith("10.39 s, "), True)
        look_at_line(page)
        look_at_flame(page)
        # Keys, and the address.
        page.key("ArrowDown")
        expect("the next one", chosen(page), f"{REQUESTS - 1:016x}")
        page.key("ArrowUp")
        expect("the one before", chosen(page), slowest)
        page.key("/")
        page.type("checkout")
        page.wait(f"document.querySelectorAll('.row').length === {REQUESTS // 2 - 1}")
        expect("the first that is found", chosen(page), f"{REQUESTS - 1:016x}")
        page.key("Escape")
        page.key("Escape")
        page.wait(f"document.querySelectorAll('.row').length === {REQUESTS}")
        page.click("[...document.querySelectorAll('#legend button')].find(e => e.textContent === 'timer')")
        page.wait("document.querySelectorAll('.row').length === 0")
        page.go(address + f"#span={7:016x}&sort=time")
        expect("the address is shown", chosen(page), f"{7:016x}")
        expect("in its order", page.value("document.querySelector('.row').request.span"), f"{1:016x}")
        # Names stay text.
        page.go(address + f"#span={REQUESTS // 2 + 1:016x}")
        expect("the name", page.value("document.querySelector('.row.chosen .name').textContent"), EVIL)
        expect("elements", page.value("document.querySelectorAll('img').length"), 0)
        expect("title", page.value("document.title"), "shop: slow requests")
        expect("errors", page.said, [])
        page.dark(True)
        expect("dark", page.value("getComputedStyle(document.body).backgroundColor"), "rgb(23, 24, 28)")
        page.size(600, 900)
        page.wait("innerWidth === 600")
        expect("it fits", page.value("document.documentElement.scrollWidth <= innerWidth"), True)


def served(address):
    if browser.program() is None:
        sys.exit(77)
    with browser.Browser(1320, 760) as page:
        page.go(address + f"#span={7:016x}")
        page.wait(f"document.querySelectorAll('.row').length === {REQUESTS}")
        expect("title", page.value("document.title"), "shop: slow requests")
        expect("the address is shown", chosen(page), f"{7:016x}")
        expect("boxes", page.value("document.querySelectorAll('#line .box').length > 4"), True)
        expect("all its samples", page.value("document.querySelector('#about a').hash"), f"#span={7:016x}")
        expect("errors", page.said, [])


def picture(path, name, choice=""):
    with browser.Browser(1320, 760) as page:
        page.go("file://" + path + choice)
        for is_dark in (False, True):
            page.dark(is_dark)
            page.picture(f"{name}-{'dark' if is_dark else 'light'}.png")


if __name__ == "__main__":
    {"make": make, "look": look, "served": served, "picture": picture}[sys.argv[1]](*sys.argv[2:])
