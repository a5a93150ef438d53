#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# SPANPROF_THREAD_NAME=true: every sample has the name that its thread had at that moment, whichever thread set it and
# when. Odd names are harmless, and the number of names is bounded. Without the option there is no name.
# Runs alone: it judges shares of CPU time.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
export SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=30s

# threads NAME: each sample has the label once, and their sum is the process's total.
complete()
{
	expect "$1" "sum(t['ns'] for t in d['threads']) == d['total']['ns'] > 0"
	expect "$1" "sum(t['samples'] for t in d['threads']) == d['total']['samples'] > 0"
}

mkdir "$WORK/off" "$WORK/story" "$WORK/many"
run_under off SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/off" "$HOSTS/names" many 20
report "$WORK/off" "$WORK/off.json"
expect "$WORK/off.json" 'd["threads"] == []'
build/spanprof-report --threads "$WORK/off" | grep -q 'no sample has the name' || fail "no word of it"

double_start
run_under story SPANPROF_THREAD_NAME=true SPANPROF_OUTPUT_DIR="$WORK/story" \
	SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" "$HOSTS/names" story
expect_rc story 0
expect_silent story
report "$WORK/story" "$WORK/story.json"
complete "$WORK/story.json"
# Stretches of 100 ms, and 30 threads of 3 ms. A sample may count for time before a change of name.
python3 - "$WORK/story.json" <<'END' || fail "$(<"$WORK/story.json")"
import json, sys
ns = {t["thread_name"]: t["ns"] for t in json.load(open(sys.argv[1]))["threads"]}
expected = {
    "main-early": 100, "main-later": 200, "pool-early": 100, "pool-later": 100, "set-by-other": 100,
    "short-lived": 90, "child": 100, "fifteen-bytes-x": 100, "latin1-caf\ufffd": 100,
    "fourteen-byte-\ufffd": 100, "(unknown)": 100,
}
for name, ms in expected.items():
    if not ms * 0.5e6 < ns.get(name, 0) < ms * 1.5e6:
        sys.exit("%s: %.1f ms, not %d" % (name, ns.get(name, 0) / 1e6, ms))
# The time before a thread gave itself a name, and the rest of a thread that did nothing under its last name.
if not set(ns) - set(expected) <= {"pool-gone", "names"}:
    sys.exit("strange names: %s" % sorted(ns))
END
# A strict server takes the labels, as labels of series.
expect_clean_double
range="\"start\": $(($(now_ms) - 600000)), \"end\": $(($(now_ms) + 60000))"
double_query LabelValues "{\"name\": \"thread_name\", $range}" "$WORK/values.json"
expect "$WORK/values.json" '{"main-early", "pool-later", "child", "latin1-caf\ufffd"} <= set(d["names"])'

build/spanprof-report --threads "$WORK/story" >"$WORK/words"
grep -Eq '^ +[0-9]+ +0\.[0-9]{3} +[0-9.]+%  pool-early$' "$WORK/words" || fail "$(<"$WORK/words")"

# 1,000 ms in records of at most 2 ms each: far more names than the limit.
run_under many SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_THREAD_NAME=true \
	SPANPROF_STATUS_FILE="$WORK/many.status" SPANPROF_OUTPUT_DIR="$WORK/many" "$HOSTS/names" many 1000
expect_rc many 0
grep -q 'samples are of threads called (other): too many different names' "$WORK/many.err" || fail "an overflow is not told"
expect "$WORK/many.status" 'd["loss"]["thread_names_over_limit"] > 0'
report "$WORK/many" "$WORK/many.json"
complete "$WORK/many.json"
expect "$WORK/many.json" 'len([t for t in d["threads"] if t["thread_name"].startswith("many-")]) >= 250'
expect "$WORK/many.json" 'len(d["threads"]) <= 258'
expect "$WORK/many.json" 'any(t["thread_name"] == "(other)" and t["ns"] > 0 for t in d["threads"])'
