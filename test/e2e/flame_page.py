#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens flame graphs of spanprof-report in a real browser.

usage: flame_page.py profiles FOLDER    writes profiles
       flame_page.py names              prints functions and their short names, as JSON
       flame_page.py look FOLDER        looks at the pages all, deep, wall, diff, few, evil, towers,
                                        waits.off_cpu and waits.wall (.html) there

"look" ends with 77 if there is no browser. page_logic.js tests the functions of the page.
"""
import json
import os
import sys

import browser
from pprof_writer import Profile

APP, LIBC = "@/srv/shop/shopd", "@/usr/lib/x86_64-linux-gnu/libc.so.6"
HANDLE = "shop::(anonymous namespace)::Handler<shop::Json, std::allocator<char> >::handle(shop::Request const&)"
LONG = "void shop::walk<" + "std::map<std::string, shop::Json>, " * 20 + "int>(int)"
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
NAMES = {
    HANDLE: "Handler::handle",
    "shop::operator<(shop::Row const&, shop::Row const&)": "shop::operator<",
    "shop::Run::go(int)::{lambda(int)#1}::operator()(int) const": "Run::go::{lambda#1}",
    "std::enable_if<(1 > 0), int>::type shop::f<int>(int)": "shop::f",
    "<alloc::vec::Vec<T> as core::ops::Drop>::drop": "Vec::drop",
    "core::ptr::drop_in_place<alloc::string::String>": "ptr::drop_in_place",
    "operator new(unsigned long)": "operator new",
    "a::B::operator->() const": "B::operator->",
    "main": "main",
    "memcpy@plt": "memcpy@plt",
    "a::b::c (src/deep/c.cc:12)": "b::c (c.cc:12)",
    "[unsampled cpu]": "[unsampled cpu]",
    "shop::Row::get() const &": "Row::get",
}
# A tower of the C++ library between functions of the program, one tower above the C library, and two kinds of
# recursion.
INVOKE = ["std::thread::_State_impl<F>::_M_run()" + APP, "void std::__invoke_impl<void, F>(F&&)" + APP,
          "std::function<void ()>::operator()() const" + APP]
SORT = ["void std::sort<It>(It, It)" + APP, "void std::__introsort_loop<It>(It, It)" + APP, "memcpy" + LIBC]


def profiles(folder):
    for sub in ("a", "b", "evil"):
        os.makedirs(f"{folder}/{sub}")
    for sub, render, rare in (("a", 300, 2), ("b", 100, 1)):
        p = Profile("cpu", 1000000000)
        labels = {"span_id": "00000000000000aa", "span_name": "GET /orders"}
        p.sample(["main" + APP, HANDLE + APP, "render" + APP], render, render * 10 ** 7, **labels)
        p.sample(["main" + APP, HANDLE + APP, "malloc" + LIBC], 200, 200 * 10 ** 7, **labels)
        p.sample(["main" + APP, "[unsampled cpu]"], 0, 10 ** 9, **labels)
        p.sample(["main" + APP, "store" + APP, "render" + APP], 100, 10 ** 9, span_name="POST /cart")
        p.sample(["main" + APP, "store" + APP, "rare" + APP], rare, rare * 10 ** 7, span_name="POST /cart")
        p.write(f"{folder}/{sub}/spanprof-shop-12-20010909T014640Z-000001.pb.gz")
    p = Profile("cpu", 1000000000)
    p.sample(["main" + APP] + [LONG + APP] * 200, 5, 5 * 10 ** 7, span_name="GET /orders")
    for sub, count in (("few", 4), ("fewer", 3)):
        few = Profile("cpu", 1000000000)
        few.sample(["[incomplete]@[spanprof]", "main" + APP, "render" + APP], count, count * 10 ** 7)
        few.sample(["[incomplete]@[spanprof]", "main" + APP, sub + LIBC], 3, 3 * 10 ** 7)
        os.makedirs(f"{folder}/{sub}")
        few.write(f"{folder}/{sub}/spanprof-shop-12-20010909T014640Z-000001.pb.gz")
    os.makedirs(f"{folder}/deep")
    p.write(f"{folder}/deep/spanprof-shop-12-20010909T014640Z-000001.pb.gz")
    p = Profile("wall", 1000000000)
    p.sample(["main" + APP, "futex_wait" + LIBC, "[waiting for a CPU]"], 5, 5 * 10 ** 9, span_name="GET /orders")
    p.write(f"{folder}/a/spanprof-shop-12-20010909T014640Z-000001.wall.pb.gz")
    p = Profile("cpu", 1000000000)
    p.sample(["main" + APP, *INVOKE, "work" + APP, *SORT], 40, 40 * 10 ** 7)
    p.sample(["main" + APP, *INVOKE, "work" + APP], 10, 10 ** 8)
    p.sample(["main" + APP] + ["eval" + APP] * 3 + ["leaf" + APP], 20, 20 * 10 ** 7)
    p.sample(["main" + APP] + ["value" + APP, "array" + APP] * 3 + ["leaf" + APP], 30, 30 * 10 ** 7)
    os.makedirs(f"{folder}/towers")
    p.write(f"{folder}/towers/spanprof-shop-12-20010909T014640Z-000001.pb.gz")
    p = Profile("cpu", 1000000000)
    p.sample(["main" + APP, EVIL + APP], 5, 5 * 10 ** 7, span_id="aa", span_name=EVIL)
    p.write(f"{folder}/evil/spanprof-<b>evil-1-20010909T014640Z-000001.pb.gz")


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"FAIL: {what}: {got!r}, not {wanted!r}")


def frame(name):
    """The first frame with that full name, as an expression in the page."""
    return f"[...document.querySelectorAll('.frame')].find(e => e.frame.name === {name!r})"


def element(number):
    return f"document.getElementById({number!r})"


def names(page):
    return page.value("[...document.querySelectorAll('.frame')].map(e => e.frame.name)")


def look_at_all(page, address):
    page.go(address)
    expect("errors", page.said, [])
    expect("addresses", page.asked, [address])
    expect("title", page.value("document.title"), "shop: CPU time")
    expect("roots", names(page)[:3], ["all", "GET /orders", "POST /cart"])
    expect("shown name", page.value(frame(HANDLE) + ".textContent"), "shop::Handler::handle")
    for name, kind in (("main", "own"), ("malloc", "library"), ("[unsampled cpu]", "unsampled")):
        expect("kind of " + name, page.value(f"{frame(name)}.classList.contains({kind!r})"), True)

    # The page fits any width of the window.
    for width in (600, 1300):
        page.size(width, 500)
        page.wait(f"innerWidth === {width} && Math.abs({frame('all')}.offsetWidth - {width - 20}) < 2")
        for name in (HANDLE, "render"):
            expect("it fits", page.value(f"{frame(name)}.scrollWidth <= {frame(name)}.clientWidth"), True)

    # The tooltip has the full name.
    page.mouse("mouseMoved", page.middle(frame(HANDLE)))
    page.wait(f"!{element('tip')}.hidden")
    expect("tip", page.value(element("tip") + ".firstChild.textContent"), HANDLE)
    expect("numbers", page.value(element("tip") + ".lastChild.textContent"),
           "71.23 % of all, 5.000 s CPU, itself 0.000 s, 500 samples")


def copy_name(page):
    page.value("""(() => {
        window.copied = [];
        const write = (text) => copied.length < 2 ? Promise.resolve(copied.push(text)) : Promise.reject(new Error("no"));
        Object.defineProperty(navigator, "clipboard", { value: { writeText: write } });
    })()""")
    page.click(element("copy"))
    page.wait(element("copy") + ".textContent === 'Copied'")
    page.key("c")
    page.wait("copied.length === 2")
    expect("copied", page.value("copied"), [HANDLE, HANDLE])
    # If the clipboard is forbidden, the whole name is selected.
    page.key("c")
    page.wait(f"getSelection().toString() === {HANDLE!r}")


def zoom_and_search(page):
    page.click(frame(HANDLE))
    expect("zoomed", names(page), ["all", "GET /orders", "main", HANDLE, "render", "malloc"])
    expect("as wide as the page", page.value(f"{frame(HANDLE)}.offsetWidth === {frame('all')}.offsetWidth"), True)
    copy_name(page)
    page.click(element("reset"))
    expect("reset", "POST /cart" in names(page), True)
    page.key("/")
    page.type("^(render|STORE)$")
    page.wait("document.querySelectorAll('.found').length === 3")
    # store calls render, which does not count twice
    expect("matched", page.value(element("matched") + ".value"), "matched: 57.26 % in 2 places")
    # n goes from match to match, the widest first, and zooms to a match that is too narrow to be seen.
    page.key("Enter")
    selected = "document.querySelector('.frame.selected').frame"
    for key, place, name in (("n", 1, "render"), ("n", 2, "store"), ("n", 1, "render"), ("N", 2, "store")):
        page.key(key)
        expect(key, page.value(selected + ".name"), name)
        expect(key, page.value(element("matched") + ".value"), f"matched: 57.26 %, place {place} of 2")
    page.key("/")
    page.value(element("search") + ".select()")
    page.type("^rare$")
    page.wait(element("matched") + ".value === 'matched: 0.28 % in 1 place'")
    page.key("Enter")
    page.key("n")
    expect("the narrow match", page.value(f"{frame('rare')}.offsetWidth === {frame('all')}.offsetWidth"), True)
    expect("the name in it", page.value(frame("rare") + ".textContent"), "rare")
    page.key("Escape")
    page.key("Escape")
    page.key("/")
    page.type("^(render|STORE)$")
    page.wait("document.querySelectorAll('.found').length === 3")
    page.key("Escape")
    expect("search is over", page.value("document.querySelectorAll('.found').length"), 0)
    page.key("/")
    page.type("(")
    page.wait(element("matched") + ".value === 'no regular expression'")
    page.key("Escape")


def walk(page):
    selected = "document.querySelector('.frame.selected')?.frame.name"
    for key, name in (("ArrowDown", "all"), ("ArrowDown", "GET /orders"), ("ArrowRight", "POST /cart"),
                      ("ArrowDown", "main"), ("ArrowUp", "POST /cart"), ("ArrowLeft", "GET /orders")):
        page.key(key)
        expect(key, page.value(selected), name)
    page.key("Enter")
    expect("zoomed by Enter", "POST /cart" in names(page), False)
    page.key("Escape")
    expect("zoomed out by Escape", "POST /cart" in names(page), True)


# The lowest contrast of a frame's text and background, by WCAG 2.2.
CONTRAST = """(() => {
    const light = (rgb) => rgb.map(c => c / 255).map(c => c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
    const numbers = (text) => text.match(/[0-9.]+/g).slice(0, 3).map(Number);
    const over = (top, below, much) => top.map((c, i) => c * much + below[i] * (1 - much));
    const paper = numbers(getComputedStyle(document.body).backgroundColor), out = {};
    for (const kind of ["own", "library", "kernel", "waiting", "unsampled", "marker", "span", "unchanged", "more", "less"])
        for (const variant of ["v0", "v1", "v2", "v3", "v4"])
            for (const place of ["inside", "outside"]) {
                const e = document.createElement("div");
                e.className = `frame ${kind} ${variant} ${place}`;
                document.getElementById("frames").append(e);
                const style = getComputedStyle(e), much = Number(style.opacity);
                const [a, b] = [style.color, style.backgroundColor]
                    .map(c => light(over(numbers(c), paper, much))).sort((x, y) => x - y);
                out[kind + " " + place] = Math.min(out[kind + " " + place] || 99, (b + 0.05) / (a + 0.05));
                e.remove();
            }
    return out;
})()"""


def contrast(page):
    for dark in (False, True):
        page.dark(dark)
        for kind, ratio in page.value(CONTRAST).items():
            expect(f"contrast of {kind} in {'dark' if dark else 'light'}: {ratio:.1f}", ratio >= 4.5, True)
    page.dark(False)


def focus(page):
    """The focus is visible: frames come after the tools."""
    page.click(element("search"))
    for _ in range(10):
        if page.value("document.activeElement.id") == "frames":
            break
        page.key("Tab")
    expect("outline of the focus", page.value(f"getComputedStyle({element('frames')}).outlineStyle"), "solid")


def other_views(page):
    page.click(element("by-span"))
    expect("without spans", names(page)[:2], ["all", "main"])
    page.click(element("inverted"))
    expect("leaves first", names(page)[1:3], ["render", "malloc"])
    expect("then callers", {"store", HANDLE} <= set(names(page)), True)
    light = "getComputedStyle(document.body).backgroundColor"
    before = page.value(light)
    page.dark(True)
    expect("dark", page.value(light) != before, True)
    page.dark(False)


def visible(what):
    """Whether an element is in the window, and not covered by the head or the foot of the page."""
    return (f"(() => {{ const r = ({what}).getBoundingClientRect();"
            "return r.top >= document.querySelector('header').getBoundingClientRect().bottom - 1 &&"
            " r.bottom <= document.getElementById('details').getBoundingClientRect().top + 1; })()")


def callers_and_callees(page, folder):
    page.go(f"file://{folder}/all.html")
    disabled = element("around") + ".disabled"
    expect("nothing is selected", page.value(disabled), True)
    page.click(frame("store"))
    page.click(frame("render"))
    page.click(element("around"))
    drawn = page.value("[...document.querySelectorAll('.frame')].map(e => [Math.round(e.getBoundingClientRect().top),"
                       " Math.round(e.getBoundingClientRect().left), e.frame.name]).sort((a, b) => a[0] - b[0] || a[1] - b[1])")
    tops = sorted({top for top, _, _ in drawn})
    got = [[name for top, _, name in drawn if top == row] for row in tops]
    expect("callers above", got, [["GET /orders", "POST /cart"], ["main", "main"], [HANDLE, "store"], ["render"]])
    expect("sums", page.value(element("numbers") + ".textContent"),
           "56.98 % of all, 4.000 s CPU, itself 4.000 s, 400 samples")
    # A stack counts once, even if both a caller and a callee match.
    page.key("/")
    page.type("render|store|main")
    page.wait(element("matched") + ".value.startsWith('matched: 56.98 %')")
    page.key("Escape")

    # A click zooms to a caller as to any frame; Escape goes back, and then to the whole profile.
    page.click(frame("store"))
    expect("zoomed to a caller", names(page), ["render", "store", "main", "POST /cart"])
    expect("numbers of a caller", page.value(element("numbers") + ".textContent"),
           "14.25 % of all, 1.000 s CPU, 100 samples")
    page.key("Escape")
    expect("zoomed out", len(names(page)), 7)
    for key, name in (("ArrowUp", HANDLE), ("ArrowRight", "store"), ("ArrowUp", "main"), ("ArrowDown", "store"),
                      ("ArrowDown", "render")):
        page.key(key)
        expect(key, page.value("document.querySelector('.frame.selected')?.frame.name"), name)
    page.key("Escape")
    expect("the whole profile", names(page)[0], "all")

    # The choice of a span ends in a view without spans.
    page.click(frame("POST /cart"))
    page.key("f")
    expect("a span", names(page), ["POST /cart", "main", "store", "render", "rare"])
    page.click(element("by-span"))
    expect("no span", names(page)[:2], ["all", "main"])


def list_of_functions(page, folder):
    table = "[...document.querySelectorAll('#functions tr')].map(r => [...r.cells].map(c => c.textContent))"
    page.go(f"file://{folder}/all.html")
    page.click(element("listed"))
    expect("functions", page.value(table), [
        ["function", "itself", "of all", "with callees", "of all"],
        ["render", "4.000 s", "56.98 %", "4.000 s", "56.98 %"],
        ["malloc", "2.000 s", "28.49 %", "2.000 s", "28.49 %"],
        ["rare", "0.020 s", "0.28 %", "0.020 s", "0.28 %"],
        ["main", "0.000 s", "0.00 %", "7.020 s", "100.00 %"],
        ["shop::Handler::handle", "0.000 s", "0.00 %", "5.000 s", "71.23 %"],
        ["store", "0.000 s", "0.00 %", "1.020 s", "14.53 %"]])
    expect("whole name", page.value("document.querySelectorAll('#functions button')[4].title"), HANDLE)
    page.key("/")
    page.type("^r")
    page.wait("document.querySelectorAll('#functions tr').length === 3")
    page.key("Escape")
    button = "document.querySelectorAll('#functions button')[1]"
    page.click(button)
    expect("callers and callees", names(page)[0], "malloc")
    expect("chosen", page.value("document.querySelector('#functions .chosen').innerText.split('\\t')[0]"), "malloc")
    page.click(button)
    expect("the whole profile", names(page)[0], "all")
    page.go(f"file://{folder}/diff.html")
    page.click(element("listed"))
    expect("changes", page.value(table)[:2], [["function", "itself", "baseline", "with callees", "baseline"],
                                              ["render", "56.98 %", "39.92 %", "56.98 %", "39.92 %"]])


def look_at_deep(page, folder):
    page.go(f"file://{folder}/deep.html")
    selected = "document.querySelector('.frame.selected')"
    for key, count in (("ArrowDown", 60), ("ArrowUp", 40)):
        for _ in range(count):
            page.key(key)
        expect("the selected frame is seen after " + key, page.value(visible(selected)), True)
    # A name longer than a line is shown to its end, and so is the frame's time.
    expect("name", page.value(element("name") + ".textContent"), LONG)
    for part in ("name", "numbers"):
        expect(part + " is not cut", page.value(
            f"{element(part)}.scrollWidth <= {element(part)}.offsetWidth &&"
            f"{element(part)}.getBoundingClientRect().bottom <= innerHeight"), True)
    page.value("scrollTo(0, document.body.scrollHeight)")
    expect("the last row is seen", page.value(visible("[...document.querySelectorAll('.frame')].pop()")), True)


def look_at_others(page, folder):
    page.go(f"file://{folder}/wall.html")
    expect("waiting", page.value(frame("[waiting for a CPU]") + ".classList.contains('waiting')"), True)
    page.go(f"file://{folder}/diff.html")
    expect("more", page.value(frame("render") + ".classList.contains('more')"), True)
    expect("less", page.value(frame("store") + ".classList.contains('less')"), True)
    # twice as many, but only two samples
    expect("too few", page.value(frame("rare") + ".classList.contains('unchanged')"), True)
    page.go(f"file://{folder}/evil.html")
    expect("errors", page.said, [])
    expect("addresses", page.asked, [f"file://{folder}/evil.html"])
    expect("title", page.value("document.title"), f"<b>evil: CPU time ({EVIL})")
    expect("elements", page.value("document.querySelectorAll('img, b:not(#tip b, #name)').length"), 0)
    expect("name", page.value(frame(EVIL) + " !== undefined"), True)


def look_at_few(page, folder):
    """A comparison with too few samples says so, and its colours mean the same as in a single profile."""
    page.go(f"file://{folder}/few.html")
    expect("verdict", page.value(element("verdict") + ".innerText"),
           "Not enough samples to be sure: 7 samples here, 6 in the baseline. Colours tell whose code a frame is.")
    for name, kind in (("main", "own"), ("few", "library"), ("[incomplete]", "marker")):
        expect("kind of " + name, page.value(f"{frame(name)}.classList.contains({kind!r})"), True)
    legend = "[...document.querySelectorAll('#legend li')].map(e => e.innerText)"
    expect("legend", page.value(legend), ["own code", "libraries", "not known, or too narrow", "widths: the mean of both shares"])
    page.go(f"file://{folder}/diff.html")
    expect("no verdict", page.value(element("verdict") + ".hidden"), True)
    expect("legend of a comparison", page.value(legend)[2:],
           ["no difference, or too few samples to say", "widths: the mean of both shares"])
    page.go(f"file://{folder}/all.html")
    expect("no markers", page.value(legend), ["own code", "libraries", "unsampled", "span names"])


def look_at_waits(page, folder):
    """Profiles of the exporter: a wait has its own colour and legend, and its text says its kind."""
    leaf = "futex (lock)"
    for kind in ("off_cpu", "wall"):
        page.go(f"file://{folder}/waits.{kind}.html")
        expect("class of a wait", page.value(f"{frame(leaf)}.classList.contains('waiting')"), True)
        for name in ("[waiting for a CPU]", "[blocked in the kernel]", "wait4 (child)", "read (pipe)"):
            if page.value(f"{frame(name)} !== undefined"):
                expect("class of " + name, page.value(f"{frame(name)}.classList.contains('waiting')"), True)
        hue = "getComputedStyle(%s).getPropertyValue('--h')"
        own = "document.querySelector('.frame.own')"
        expect("two colours", page.value(f"{hue % frame(leaf)} !== {hue % own}"), True)
        legend = page.value("[...document.querySelectorAll('#legend li')].map(e => e.innerText)")
        expect("legend", "waiting" in legend, True)
        page.click(frame("mutex"))
        expect("its kind is told", page.value(f"{frame(leaf)}.textContent"), leaf)
        page.click(element("reset"))
        page.click(element("listed"))
        rows = page.value("[...document.querySelectorAll('#functions button')].map(e => e.textContent)")
        expect("in the list", leaf in rows and "futex" not in rows, True)


def name_of(stack, i):
    return stack[i].partition("@")[0]


def address(page):
    return page.value("location.hash")


def go_anew(page, where):
    """A new page, so that the browser does not only scroll to another part."""
    page.call("Page.navigate", url="about:blank")
    page.wait("location.href === 'about:blank'")
    page.go(where)


def pictured(page):
    """The frames, their positions, and the texts about them."""
    return page.value("""[[...document.querySelectorAll('.frame')].map(e => [e.frame.name, e.textContent, e.className, e.style.cssText]),
        ...['matched', 'filters', 'functions', 'name', 'numbers'].map(id => document.getElementById(id).textContent),
        [...document.querySelectorAll('input')].map(e => [e.id, e.type === 'checkbox' ? e.checked : e.value])]""")


def fold(page, folder):
    where = f"file://{folder}/towers.html"
    go_anew(page, where)
    everything = names(page)
    page.click(element("libraries"))
    box, sort = frame(name_of(INVOKE, 0)), frame(name_of(SORT, 0))
    expect("towers are boxes", [name for name in names(page) if name not in ("eval", "value", "array", "leaf")],
           ["all", "main", name_of(INVOKE, 0), "work", name_of(SORT, 0)])
    expect("a box has a mark", page.value(box + ".textContent"), "\u25b8 std::thread::_State_impl::_M_run")
    page.mouse("mouseMoved", page.middle(sort))
    expect("what is told of it", page.value(element("tip") + ".lastChild.textContent"),
           "40.00 % of all, 0.400 s CPU, itself 0.400 s, 40 samples; 2 more library functions in it, a click opens it")
    page.key("/")
    page.type("introsort")
    page.wait(element("matched") + ".value === 'matched: 40.00 % in 1 place'")
    expect("found inside", page.value(sort + ".classList.contains('found')"), True)
    page.key("Escape")
    page.click(sort)
    expect("opened", {name_of(SORT, 1), name_of(SORT, 2)} <= set(names(page)), True)
    expect("the other one is not", name_of(INVOKE, 1) in names(page), False)
    opened = address(page)
    page.value("history.back()")
    page.wait(frame(name_of(SORT, 1)) + " === undefined")
    page.value("history.forward()")
    page.wait(frame(name_of(SORT, 1)) + " !== undefined")
    expect("the address of it", address(page), opened)
    # With the keyboard alone.
    page.click(frame("work"))
    page.key("ArrowUp")
    page.key("Enter")
    expect("opened by Enter", name_of(INVOKE, 2) in names(page), True)
    page.click(element("reset"))
    page.click(element("libraries"))
    expect("no boxes", names(page), everything)
    page.click(element("recursion"))
    expect("one round", [names(page).count(name) for name in ("eval", "value", "array", "leaf")], [1, 1, 1, 2])
    expect("its time", page.value(frame("eval") + ".frame.ns"), 2 * 10 ** 8)
    page.click(element("recursion"))
    expect("all rounds", names(page), everything)


def filter_by(page, expression, kind):
    page.key("/")
    page.type(expression)
    page.wait("!" + element("filter") + ".hidden")
    page.click(element(kind))


def filters(page, folder):
    where = f"file://{folder}/towers.html"
    go_anew(page, where)
    told = element("filters") + ".textContent"
    filter_by(page, "^(EVAL|work)$", "focus")
    expect("focused", "value" in names(page), False)
    expect("what is left", page.value(told), "focus: ^(EVAL|work)$ \u00d7shown: 70.00 % of all, 0.700 s CPU, 70 samples")
    expect("the search is over", page.value(element("search") + ".value"), "")
    filter_by(page, "^std::", "hide")
    expect("hidden", [name for name in names(page) if name.startswith(("std::", "void"))], [name_of(INVOKE, 1), *(
        name_of(SORT, i) for i in (0, 1))])
    filter_by(page, "^void std::", "hide")
    expect("a second expression", names(page), ["all", "main", "work", "eval", "memcpy", "eval", "eval", "leaf"])
    page.click(frame("memcpy"))
    expect("numbers", page.value(element("numbers") + ".textContent"), "40.00 % of all, 0.400 s CPU, itself 0.400 s, 40 samples")
    shown, there = pictured(page), address(page)
    page.value("history.back()")
    page.wait(f"{frame('eval')} !== undefined")
    page.value("history.go(-2)")
    page.wait("location.hash.startsWith('#focus') && !location.hash.includes('hide')")
    page.wait(f"{frame(name_of(INVOKE, 0))} !== undefined")
    # The same address shows the same page in another browser.
    go_anew(page, where + there)
    expect("errors", page.said, [])
    expect("the same picture", pictured(page), shown)
    page.click(element("filters") + ".querySelectorAll('button')[1]")
    filter_by(page, "leaf", "ignore")
    expect("ignored", "eval" in names(page), False)
    for _ in range(2):
        page.click(element("filters") + ".querySelector('button')")
    expect("all again", [page.value(element("filters") + ".hidden"), "value" in names(page)], [True, True])


def addresses(page, folder):
    """Each choice and each view can be reached by its address alone."""
    for name, steps in (("all", (lambda: page.click(frame(HANDLE)), lambda: page.click(element("listed")),
                                 lambda: page.click(element("inverted")), lambda: page.click(element("by-span")),
                                 lambda: page.click(frame("store")), lambda: page.key("f"), lambda: page.key("/"),
                                 lambda: page.type("re"), lambda: page.key("Enter"), lambda: page.click(frame("main")))),
                        ("diff", (lambda: page.click(frame("store")),)),
                        ("deep", (lambda: page.click(element("recursion")), lambda: page.click(frame(LONG))))):
        where = f"file://{folder}/{name}.html"
        go_anew(page, where)
        before = [("", pictured(page))]
        for step in steps:
            step()
            if address(page) != before[-1][0]:
                before.append((address(page), pictured(page)))
        expect("addresses of " + name, len(before) > 1 and all(len(there) < 150 for there, _ in before), True)
        for there, shown in before[1:]:
            go_anew(page, where + there)
            expect(f"{name} at {there}", pictured(page), shown)
    # The page is drawn, whatever the address contains.
    for there in ("#focus=(&ignore=[&hide=*", "#zoom=x&open=..a.&around=b&search=%ff", "#by-span=x&%", "#focus=" + "a" * 5000,
                  "#search=" + EVIL, "#focus=" + EVIL):
        go_anew(page, f"file://{folder}/evil.html")
        page.value(f"location.hash = {there!r}")
        page.wait("document.querySelectorAll('.frame').length > 0")
        expect(f"errors at {there[:40]}", page.said, [])
        expect("elements", page.value("document.querySelectorAll('img, b:not(#tip b, #name)').length"), 0)
    go_anew(page, f"file://{folder}/all.html")
    page.value("location.hash = '#focus=('")
    page.wait(element("filters") + ".textContent === 'focus: ( (no regular expression) \u00d7'")
    expect("all is there", len(names(page)) > 5, True)


def look(folder):
    if not browser.program():
        print("there is no chromium")
        sys.exit(77)
    with browser.Browser() as page:
        look_at_all(page, f"file://{folder}/all.html")
        zoom_and_search(page)
        contrast(page)
        focus(page)
        walk(page)
        other_views(page)
        callers_and_callees(page, folder)
        list_of_functions(page, folder)
        fold(page, folder)
        filters(page, folder)
        addresses(page, folder)
        look_at_deep(page, folder)
        look_at_others(page, folder)
        look_at_few(page, folder)
        look_at_waits(page, folder)


if __name__ == "__main__" and sys.argv[1] == "names":
    print(json.dumps(NAMES))
elif __name__ == "__main__":
    {"profiles": profiles, "look": look}[sys.argv[1]](sys.argv[2])
