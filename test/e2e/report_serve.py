#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks "spanprof-report --serve" as nobody should, and as a browser does.

usage: report_serve.py profile FOLDER       writes a profile
       report_serve.py hostile PORT
       report_serve.py look PORT FOLDER    ends with 77 where there is no browser
"""
import os
import socket
import sys
import time

import browser
from pprof_writer import Profile

LIMIT_S = 20
HOST = b"Host: 127.0.0.1\r\n"
REQUESTS = {
    b"GET / HTTP/1.1\r\n" + HOST + b"\r\n": 200,
    b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n": 403,
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n": 403,
    b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n": 400,
    b"GET /profile.json HTTP/1.1\r\n" + HOST + b"Sec-Fetch-Site: cross-site\r\n\r\n": 403,
    b"POST / HTTP/1.1\r\n" + HOST + b"\r\n": 405,
    b"GET / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\nhello": 400,
    b"GET /../../etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET /%2e%2e/etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET //etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET /first.pb.gz HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET /page.css/ HTTP/1.1\r\n" + HOST + b"\r\n": 404,
    b"GET /profile.json?path=/etc/passwd HTTP/1.1\r\n" + HOST + b"\r\n": 400,
    b"GET /profile.json?type=memory HTTP/1.1\r\n" + HOST + b"\r\n": 400,
    b"GET /profile.json?diff=spans HTTP/1.1\r\n" + HOST + b"\r\n": 400,
    b"GET /profile.json?last=1y HTTP/1.1\r\n" + HOST + b"\r\n": 400,
    b"GET /profile.json?span=%00 HTTP/1.1\r\n" + HOST + b"\r\n": 400,
    b"GET /spans.json?last=1m HTTP/1.1\r\n" + HOST + b"\r\n": 200,
    b"\x16\x03\x01\x00\xa5\x01\x00\r\n\r\n": 400,
    b"\r\n\r\n": 400,
}


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
    # These say nothing, and something at a time. All places are taken meanwhile.
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
        if not answer.startswith(b"HTTP/1.0 %d " % status):
            sys.exit(f"FAIL: {request}: {answer[:100]}, not {status}")
        if status != 200 and not answer.endswith(b"\r\n\r\n"):
            sys.exit(f"FAIL: {request}: {answer[:1000]}")
    # More than it reads; it may be gone before we have sent all.
    try:
        answer = ask(port, b"GET / HTTP/1.1\r\n" + HOST + b"X: y\r\n" * 100000)
    except (ConnectionResetError, BrokenPipeError):
        answer = b"HTTP/1.0 400 "
    if not answer.startswith(b"HTTP/1.0 400 ") and answer != b"":
        sys.exit(f"FAIL: a long head: {answer[:100]}")
    if not ask(port, b"GET / HTTP/1.1\r\n" + HOST + b"\r\n").startswith(b"HTTP/1.0 200 "):
        sys.exit("FAIL: it no longer answers")


def profile(folder, name, samples):
    p = Profile("cpu", int(time.time()) - 30)
    p.sample(["main@/srv/shopd", "pay@/srv/shopd"], samples, samples * 10 ** 7, span_id="00000000000000aa",
             span_name="POST /cart")
    p.sample(["main@/srv/shopd", "look@/srv/shopd"], 10, 10 ** 8, span_id="00000000000000bb", span_name="<b>GET</b>")
    p.sample(["main@/srv/shopd", "look@/srv/shopd"], 10, 10 ** 8, span_id="00000000000000cc", span_name="<b>GET</b>")
    p.write(f"{folder}/.{name}")
    os.rename(f"{folder}/.{name}", f"{folder}/{name}")


def look(port, folder):
    if not browser.program():
        sys.exit(77)
    button = "[...document.querySelectorAll('#choice button')].find(e => e.textContent.includes(%r))"
    sums = "document.getElementById('sums').textContent"
    with browser.Browser() as page:
        page.go(f"http://127.0.0.1:{port}/")
        page.wait(sums + ".includes(' 30 samples')")
        page.wait("document.querySelectorAll('.frame').length === 7")
        # What is looked at stays when there are new profiles, and its numbers are new.
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
        # Where there is nothing, nothing of what was there before is left to be taken for it.
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
elif what == "hostile":
    hostile(int(args[0]))
else:
    look(int(args[0]), args[1])
