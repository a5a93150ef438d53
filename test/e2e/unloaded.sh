#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Libraries that come and go between two looks at what is mapped, one at the addresses of the other: each
# sample has the names of the library that was mapped when it was taken, also where that library was seen
# mapped only at another time. Where it never was, or has no build id by which to know it again, as the
# fourth, they have the name of the library alone.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly ROUNDS=50 MS=3 FIRST_MS=800
libraries=("$TEST_LIBS"/libreload_{a,b,c,d}.so)

# check NAME: no stack of it mixes libraries or lacks a name.
check()
{
	build/spanprof-report --folded "$WORK/$1" >"$WORK/$1.folded"
	python3 - "$WORK/$1.folded" <<'END' || fail "$1: see above"
import re, sys

seen, bad = {}, []
for line in open(sys.argv[1]):
    stack = line.rsplit(" ", 1)[0].split(";")
    called = {m.group(1) for f in stack if (m := re.fullmatch(r"in_library_(.)", f))}
    worked = {m[1] or m[2] for f in stack if (m := re.fullmatch(r"work_of_(.)|libreload_(d)\.so\+.*", f))}
    at = next((i for i, f in enumerate(stack) if f.startswith("in_library_")), len(stack))
    # What is stripped of the C library has no name in any program.
    unnamed = [f for f in stack[at:] if f in ("[unknown]", "[anon]") or re.match("libreload_[abc]", f)]
    # Nor has the stub by which a library calls another object.
    if unnamed == stack[-1:] and any(f.startswith(f"libreload_{c}.") for f in unnamed for c in called):
        unnamed = []
    # At the library's first and last instructions it is not yet, or no more, at work.
    inside = len(stack) > at + 2
    # Without names, what the loader runs at a library's beginning and end looks like its work.
    if not called and not any("work_of_" in f for f in stack):
        worked = set()
    if unnamed or (worked and worked != called) or (inside and not worked):
        bad.append(line)
    for library in worked:
        seen[library] = seen.get(library, 0) + 1
sys.stderr.writelines(bad[:20])
if bad or sorted(seen) != ["a", "b", "c", "d"]:
    sys.exit(f"{len(bad)} wrong stacks; worked in {sorted(seen)}")
END
}

run plain "$HOSTS/reload" "$ROUNDS" "$MS" "$FIRST_MS" "${libraries[@]}"
expect_rc plain 21
mkdir "$WORK/once"
# All of it in one profile: what is unloaded must be remembered until it is encoded.
run_under once SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/once" SPANPROF_SAMPLE_RATE=500 \
	SPANPROF_UPLOAD_INTERVAL=30s "$HOSTS/reload" "$ROUNDS" "$MS" "$FIRST_MS" "${libraries[@]}"
expect_same plain once err rc
[[ $(<"$WORK/once.out") != 'reused 0' ]] || fail "no library was at another one's addresses"
check once

# And in many: each profile knows what those before it forgot.
mkdir "$WORK/often"
run_under often SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/often" SPANPROF_SAMPLE_RATE=500 \
	SPANPROF_UPLOAD_INTERVAL=200ms "$HOSTS/reload" "$ROUNDS" "$MS" "$FIRST_MS" "${libraries[@]}"
expect_same plain often err rc
(($(profiles_in "$WORK/often" | wc -l) > 2)) || fail "only $(profiles_in "$WORK/often" | wc -l) profiles"
check often

# Files that were never seen mapped are not opened because the program names them.
mkdir "$WORK/brief"
run_under brief SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/brief" SPANPROF_SAMPLE_RATE=500 \
	SPANPROF_UPLOAD_INTERVAL=30s "$HOSTS/reload" 10 "$MS" "$MS" "${libraries[@]}"
expect_rc brief 21
build/spanprof-report --folded "$WORK/brief" >"$WORK/brief.folded"
python3 - "$WORK/brief.folded" <<'END' || fail "brief: see above"
import re, sys

seen = False
for line in open(sys.argv[1]):
    called = re.search(r"\bin_library_(.)", line)
    names = {a or b for a, b in re.findall(r"\bwork_of_(.)|\blibreload_(.)\.so", line)}
    seen = seen or bool(names)
    if called and names - {called[1]}:
        sys.exit(f"another library's name: {line}")
if not seen:
    sys.exit("no library has a sample")
END
