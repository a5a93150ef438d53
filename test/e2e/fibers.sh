#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Fibers take turns a thousand times a second: each sample begins at the entry of the fiber that ran, with its own
# frames and no other fiber's. If fibers only take turns, so that samples hit the switch itself, still no frame is
# wrong.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
[[ -x $HOSTS/fibers ]] || skip "Boost.Context is not installed"
readelf -SW "$HOSTS/fibers" | sed -n 's/^ *\[ *[0-9]*\] \(\.\)/\1/p' >"$WORK/sections"
grep -q '^\.plt' "$WORK/sections" || fail "no procedure linkage table: $(<"$WORK/sections")"
export SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=30s

# fibers NAME KIND TURNS MICROSECONDS ENTRY [VARIABLE=VALUE]
fibers()
{
	local name=$1 kind=$2 turns=$3 us=$4 entry=$5

	shift 5
	mkdir "$WORK/$name"
	run "$name.plain" "$HOSTS/fibers" "$kind" "$turns" "$us"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_STATUS_FILE="$WORK/$name.status" "$@" \
		"$HOSTS/fibers" "$kind" "$turns" "$us"
	expect_same "$name.plain" "$name" out rc
	expect_rc "$name" 5
	build/spanprof-report --folded "$WORK/$name" >"$WORK/$name.folded"
	python3 - "$WORK/$name.folded" "$entry" "$us" "$WORK/sections" <<'END' || fail "$name: $(<"$WORK/$name.folded")"
import re, sys
path, entry, us = sys.argv[1], sys.argv[2], int(sys.argv[3])
# Stubs that the linker made have no symbol.
plt = [(int(f[2], 16), int(f[2], 16) + int(f[4], 16)) for f in (line.split() for line in open(sys.argv[4]))
       if f[0].startswith(".plt")]
total = leaves = broken = 0

def is_stub(frame):
    at = re.fullmatch(r"fibers\+0x([0-9a-f]+)", frame)
    return at and any(lo <= int(at.group(1), 16) < hi for lo, hi in plt)

# On the stack of a fiber; the clock is read there.
known = re.compile(r"leaf_|fiber_|coroutine_|boost::context|std::|"
                   r"jump_fcontext|make_fcontext|ontop_fcontext|__start_context|(__)?(swap|set|get)context|"
                   r"cpu_ns|burn|clock_gettime|__vdso|_dl_|\[vdso\]|make$")
for line in open(path):
    stack, ns = line.rsplit(" ", 1)
    frames, ns = stack.split(";"), int(ns)
    if frames[-1] == "[unsampled cpu]":
        continue
    total += ns
    if frames[0] == "[incomplete]":
        # stacks in which only the switch itself is known
        broken += ns
        frames = frames[1:]
    if frames[0] == "_start":
        # main's own stack, which may also contain other functions
        if any(re.match("(leaf|fiber|coroutine)_", f) for f in frames):
            sys.exit("a fiber below main: " + line)
        continue
    for f in frames:
        # The loader looks a function up at its first call, and its functions have many names.
        if f.startswith("_dl_"):
            break
        if not known.match(f) and not is_stub(f):
            sys.exit("a wild frame: %s in %s" % (f, line))
    here = {f[-1] for f in frames if re.match("(leaf|fiber|coroutine)_[ab]$", f)}
    if len(here) > 1:
        sys.exit("frames of both: " + line)
    if any(f.startswith("leaf_") for f in frames):
        leaves += ns
        if frames[0] != entry or "main" in frames:
            sys.exit("not rooted at %s: %s" % (entry, line))
if us > 0 and (leaves < 0.8 * total or broken > 0.02 * total):
    sys.exit("%d of %d ns are in the fibers, %d are incomplete" % (leaves, total, broken))
END
	expect "$WORK/$name.status" 'd["samples"]["put"] > 5'
}

fibers boost boost 250 1000 make_fcontext
fibers makecontext makecontext 250 1000 __start_context
fibers boost.copied boost 250 1000 make_fcontext SPANPROF_UNWIND=snapshot
# 0.3 s of nothing but switches
fibers boost.fast boost 3000000 0 make_fcontext
fibers makecontext.fast makecontext 300000 0 __start_context
