#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks "spanprof-report --serve" as an attacker does, and as a browser does.

usage: report_serve.py profile FOLDER       writes a profile
       report_serve.py names FOLDER         writes one with many spans, each with a name of its own
       report_serve.py hostile PORT
       report_serve.py news PORT FOLDER    files come, change and go
       report_serve.py look PORT FOLDER    ends with 77 where there is no browser
"""
import json
import os
import re
import socket
import sys
import time

import browser
from pprof_writer import Profile

LIMIT_S = 20
HOST = b"Host: 127.0.0.1\r\n"
END = b"\r\n\r\n"
GET = b"GET / HTTP/1.1\r\n"
# A request and its status; None = no answer, or a 4xx. A path that is not served is not opened either.
REQUESTS = {
    GET + HOST + b"\r\n": 200,
    b"GET / HTTP/1.0\r\nhost:localhost\r\nSec-Fetch-Site: none" + END: 200,
    b"GET /profile.json?type=cpu HTTP/1.1\r\n" + HOST + b"Accept: */*\r\nSec-Fetch-Site: same-origin" + END: 200,
    GET + HOST + HOST + b"\r\n": 400,
    GET + HOST + b"Host: evil" + END: 400,
    b"GET / HTTP/1.0\r\n\r\n": 400,
    GET + b"\r\n": 400,
    b"GET /profile.json HTTP/1.1\r\n" + HOST + b"Sec-Fetch-Site: cross-site" + END: 403,
    GET + HOST + b"sec-fetch-site:same-site" + END: 403,
    GET + HOST + b"Content-Length: 5" + END + b"hello": 400,
    GET + HOST + b"Content-Length: 0" + END: 400,
    GET + HOST + b"Transfer-Encoding: chunked" + END + b"0\r\n\r\n": 400,
    b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET /%2e%2e/etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET //etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET /first.pb.gz HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET /page.css/ HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET /" + b"a" * 4000 + b" HTTP/1.1\r\n" + HOST + b"\r\n": None,
    b"GET http://127.0.0.1/ HTTP/1.1\r\n" + HOST + b"\r\n": None,
    b"GET * HTTP/1.1\r\n" + HOST + b"\r\n": None,
    b"GET /#x HTTP/1.1\r\n" + HOST + b"\r\n": None,
    b"GET /\xc3\xa4 HTTP/1.1\r\n" + HOST + b"\r\n": None,
    b"GET /\x1b HTTP/1.1\r\n" + HOST + b"\r\n": None,
    b"GET" + END: None,
    b"GET /" + END: None,
    b"GET / HTTP/2\r\n" + HOST + b"\r\n": None,
    GET + HOST + b"\tfolded" + END: None,
    GET + HOST + b"no colon" + END: None,
    b"\x16\x03\x01\x00\xa5\x01\x00" + END: None,
    END: None,
    b"": None,
    GET + HOST: None,
}
REQUESTS |= {b"%s / HTTP/1.1\r\n%s\r\n" % (method, HOST): 405 for method in (b"POST", b"HEAD", b"OPTIONS", b"get", b"GETT")}
REQUESTS |= {GET + b"Host: %s%s" % (host, END): 200 for host in (b"LOCALHOST", b"[::1]:1", b"127.0.0.1:65535")}
REQUESTS |= {GET + b"Host: %s%s" % (host, END): 403 for host in (
    b"evil.example", b"127.0.0.1.evil.example", b"localhost.evil", b"localhost:80.evil", b"localhost:", b"127.0.0.2",
    b"0.0.0.0", b"user@localhost", b"[::1].evil", b"[::1]evil", b"[::]", b"evil, localhost", b"localhost evil",
    b"localhost:8080:80", b"127.1")}
REQUESTS |= {b"GET /%s HTTP/1.1\r\n%s\r\n" % (query, HOST): 400 for query in (
    b"profile.json?path=/etc/passwd", b"profile.json?type=memory", b"profile.json?type=", b"profile.json?diff=spans",
    b"profile.json?diff=x&span=00000000000000aa", b"profile.json?last=1y", b"profile.json?last=", b"profile.json?span",
    b"profile.json?span=%00", b"profile.json?span%00=a", b"profile.json?spanx=a", b"spans.json?span_names=a",
    b"stamp.json?a=b")}
REQUESTS[b"GET /spans.json?last=1m HTTP/1.1\r\n" + HOST + b"\r\n"] = 200
REQUESTS[b"GET /stamp.json? HTTP/1.1\r\n" + HOST + b"\r\n"] = 200


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), LIMIT_S)
    s.settimeout(LIMIT_S)
    return s


def rest(s):
    out = b""
    try:
        while part := s.recv(65536):
            out += part
    except ConnectionResetError:
        pass
    return out


def ask(port, request):
    with connect(port) as s:
        s.sendall(request)
        s.shutdown(socket.SHUT_WR)
        return rest(s)


def hostile(port):
    # These connections say nothing, or send a byte now and then. They take all places meanwhile.
    idle = [connect(port) for _ in range(12)]
    for s in idle[6:]:
        s.sendall(b"GET / HT")
    began = time.monotonic()
    for s in idle:
        if got := rest(s):
            sys.exit(f"FAIL: an answer to nothing: {got}")
        s.close()
    if time.monotonic() - began > LIMIT_S:
        sys.exit("FAIL: it waits for those who say nothing")
    for request, status in REQUESTS.items():
        answer = ask(port, request)
        told = int(answer.split(b" ", 2)[1]) if answer.startswith(b"HTTP/1.") else None
        if told != status and (status is not None or told is not None and told // 100 != 4 and told != 505):
            sys.exit(f"FAIL: {request}: {answer[:100]}, not {status}")
        if b"root:" in answer:
            sys.exit(f"FAIL: {request}: {answer[:1000]}")
        # Our refusals have no body; those of libmicrohttpd have a sentence, without a part of the request.
        if told not in (200, None) and not answer.endswith(b"\r\n\r\n") and not answer.endswith(b"</html>"):
            sys.exit(f"FAIL: {request}: {answer[:1000]}")
    # More bytes than the server reads; it may close before we have sent all.
    try:
        answer = ask(port, b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 100000)
    except OSError:
        answer = b""
    if answer != b"" and not answer.startswith(b"HTTP/1.1 4"):
        sys.exit(f"FAIL: a long head: {answer[:100]}")
    if not ask(port, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n").startswith(b"HTTP/1.1 200 "):
        sys.exit("FAIL: it no longer answers")


def profile(folder, name, samples):
    p = Profile("cpu", int(time.time()) - 30)
    p.sample(["main@/srv/shopd", "pay@/srv/shopd"], samples, samples * 10 ** 7, span_id="00000000000000aa",
             span_name="POST /cart")
    p.sample(["main@/srv/shopd", "look@/srv/shopd"], 10, 10 ** 8, span_id="00000000000000bb", span_name="<b>GET</b>")
    p.sample(["main@/srv/shopd", "look@/srv/shopd"], 10, 10 ** 8, span_id="00000000000000cc", span_name="<b>GET</b>")
    p.write(f"{folder}/.{name}")
    os.rename(f"{folder}/.{name}", f"{folder}/{name}")


def names(folder):
    p = Profile("cpu", int(time.time()) - 30)
    for i in range(1200):
        p.sample(["main@/srv/shopd"], 1, 10 ** 7, span_id=f"{i + 1000:016x}", span_name=f"name {i}")
    p.write(f"{folder}/.names")
    os.rename(f"{folder}/.names", f"{folder}/names.pb.gz")


def news(port, folder):
    """A file that was read is not read again: its samples stay when it becomes unreadable."""
    def samples(query=""):
        answer = ask(port, b"GET /profile.json?%s HTTP/1.1\r\n%s\r\n" % (query.encode(), HOST)).split(END, 1)[1]
        said = json.loads(answer)
        lists = json.loads(ask(port, b"GET /spans.json HTTP/1.1\r\n" + HOST + b"\r\n").split(END, 1)[1])
        if lists["stamp"] != said["stamp"]:
            sys.exit("FAIL: another stamp though nothing has changed")
        sums = said.get("error") or said["profile"]["sums"]
        graph = said.get("error") or int(re.search(r" (\d+) samples", sums)[1])
        return graph, lists["labelled"]["samples"], said["stamp"], sums

    def expect(query, graph, lists, before=None):
        got = samples(query)
        if got[:2] != (graph, lists) or got[2] == before:
            sys.exit(f"FAIL: {got}, not {graph} and {lists}")
        return got[2]

    span = "span=00000000000000aa"
    stamp = expect("", 30, 30)
    old = f"{folder}/first.pb.gz"
    times = os.stat(old)
    with open(old, "r+b") as f:
        good = f.read()
        f.seek(0)
        f.write(bytes(len(good)))
    os.utime(old, ns=(times.st_atime_ns, times.st_mtime_ns))
    expect("", 30, 30)
    # This file's name sorts before the known ones.
    profile(folder, "came.pb.gz", 50)
    stamp = expect("", 100, 100, stamp)
    profile(folder, "came_too.pb.gz", 5)
    stamp = expect("", 125, 125, stamp)
    # Another question needs all files again.
    got = samples(span)
    if "first.pb.gz" not in got[3] or got[:2] != (55, 125):
        sys.exit(f"FAIL: {got}")
    with open(old, "r+b") as f:
        f.write(good)
    os.utime(old, ns=(times.st_atime_ns, times.st_mtime_ns))
    expect(span, 65, 125)
    profile(folder, "came_last.pb.gz", 1)
    stamp = expect(span, 66, 146, stamp)
    # A file that has changed, and files that are gone.
    profile(folder, "came_too.pb.gz", 7)
    stamp = expect(span, 68, 148, stamp)
    for name in ("came.pb.gz", "came_too.pb.gz", "came_last.pb.gz"):
        os.remove(f"{folder}/{name}")
    stamp = expect(span, 10, 30, stamp)
    if samples("last=5m")[0] != 30 or samples(span)[0] != 10:
        sys.exit("FAIL: the last minutes")


def look(port, folder):
    if not browser.program():
        sys.exit(77)
    button = "[...document.querySelectorAll('#choice button')].find(e => e.textContent.includes(%r))"
    sums = "document.getElementById('sums').textContent"
    with browser.Browser() as page:
        page.go(f"http://127.0.0.1:{port}/")
        page.wait(sums + ".includes(' 30 samples')")
        page.wait("document.querySelectorAll('.frame').length === 7")
        # The choice of the user stays when there are new profiles, with new numbers.
        page.click("[...document.querySelectorAll('.frame')].find(e => e.frame.name === 'look')")
        page.key("f")
        looked_at = "document.querySelectorAll('.frame')[0].frame"
        numbers = "document.getElementById('numbers').textContent"
        page.wait(f"{looked_at}.name === 'look' && {numbers}.endsWith(' 20 samples')")
        profile(folder, "second.pb.gz", 50)
        page.wait(sums + ".includes(' 100 samples')")
        page.wait(f"{looked_at}.name === 'look' && {numbers}.endsWith(' 40 samples')")
        page.key("Escape")
        page.wait(looked_at + ".name === 'all'")
        page.click(button % "<b>GET</b>")
        page.wait("document.title.endsWith('of spans named <b>GET</b>')")
        page.click(button % "00000000000000bb")
        page.wait("document.title.includes('of span 00000000000000bb')")
        page.value("(() => { const s = document.querySelectorAll('select')[2]; s.value = 'spans';"
                   " s.dispatchEvent(new Event('change')); })()")
        page.wait(sums + ".includes('of 1 other spans of that name')")
        page.value("history.back()")
        page.wait(sums + ".includes('baseline') === false")
        # The address also has the choices on the page, and nothing is loaded again for them.
        loaded = len([a for a in page.asked if "/profile.json" in a])
        page.click("document.getElementById('inverted')")
        page.click("[...document.querySelectorAll('.frame')].find(e => e.frame.name === 'look')")
        page.wait("location.hash.includes('span=00000000000000bb') && /inverted=yes&zoom=/.test(location.hash)")
        page.value("history.back()")
        page.wait("!location.hash.includes('zoom=') && document.getElementById('inverted').checked")
        page.value("history.back()")
        page.wait("!document.getElementById('inverted').checked")
        if len([a for a in page.asked if "/profile.json" in a]) != loaded:
            sys.exit("FAIL: a view of the same profile is loaded anew")
        # If there is no data, nothing of the former data stays on the page.
        page.value("(() => { const s = document.querySelectorAll('select')[0]; s.value = 'wall';"
                   " s.dispatchEvent(new Event('change')); })()")
        page.wait("document.getElementById('problem').textContent.includes('SPANPROF_WALL=true')")
        page.wait("['title', 'sums', 'tools', 'frames'].every(id => document.getElementById(id).offsetParent === null)")
        page.value("history.back()")
        page.wait("document.getElementById('frames').offsetParent !== null")
        if page.said:
            sys.exit(f"FAIL: {page.said}")
        if page.value("document.querySelectorAll('main b, nav b').length"):
            sys.exit("FAIL: a name became markup")
        outside = [a for a in page.asked if not a.startswith(f"http://127.0.0.1:{port}/")]
        if outside:
            sys.exit(f"FAIL: asked for {outside}")


what, *args = sys.argv[1:]
if what == "profile":
    profile(args[0], "first.pb.gz", 10)
elif what == "names":
    names(args[0])
elif what == "hostile":
    hostile(int(args[0]))
elif what == "news":
    news(int(args[0]), args[1])
else:
    look(int(args[0]), args[1])
