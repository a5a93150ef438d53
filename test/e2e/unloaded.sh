#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Libraries come and go between two readings of the mappings, one at the addresses of the other. A sample has the
# names of the library that was mapped when the sample was taken, even if the exporter read the mappings only while
# another library was there. The exporter does not know a library that no reading showed, or that has no build id,
# like the fourth: functions of such a library have only the library's name.
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
    # Stripped functions of the C library have no name in any program.
    unnamed = [f for f in stack[at:] if f in ("[unknown]", "[anon]") or re.match("libreload_[abc]", f)]
    # The stub by which a library calls another object has no name either.
    if unnamed == stack[-1:] and any(f.startswith(f"libreload_{c}.") for f in unnamed for c in called):
        unnamed = []
    # At its first and last instructions the library's function is not, or no longer, at work.
    inside = len(stack) > at + 2
    # Without names, the loader's calls at a library's begin and end look like its work.
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
# All samples in one profile: the exporter must remember unloaded libraries until it encodes the profile.
run_under once SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/once" SPANPROF_SAMPLE_RATE=500 \
	SPANPROF_UPLOAD_INTERVAL=30s "$HOSTS/reload" "$ROUNDS" "$MS" "$FIRST_MS" "${libraries[@]}"
expect_same plain once err rc
[[ $(<"$WORK/once.out") != 'reused 0' ]] || fail "no library was at another one's addresses"
check once

# Many short profiles: the exporter must know a library again that it dropped after an earlier profile.
mkdir "$WORK/often"
run_under often SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/often" SPANPROF_SAMPLE_RATE=500 \
	SPANPROF_UPLOAD_INTERVAL=200ms "$HOSTS/reload" "$ROUNDS" "$MS" "$FIRST_MS" "${libraries[@]}"
expect_same plain often err rc
(($(profiles_in "$WORK/often" | wc -l) > 2)) || fail "only $(profiles_in "$WORK/often" | wc -l) profiles"
check often

# A file that was never seen mapped is not opened, even if the program names it.
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
