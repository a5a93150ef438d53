#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Two plugins with a copy each of the same SDK: every call reaches the copy that it would reach without us, even if a
# plugin's call is a jump, and when plugins come, go and come back elsewhere. One copy at a time is labelled. The
# other one is asked nothing, which one message says. The same holds below a seccomp filter of the program, and then a
# span costs no more than before.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly PLUGINS=("$TEST_LIBS/libcopy_a.so" "$TEST_LIBS/libcopy_b.so")
export FIXTURE_SEED=5

of_host()
{
	grep -E '^[ab] (init|start|end)' "$WORK/$1.calls"
}

run plain FIXTURE_CALLS="$WORK/plain.calls" "$HOSTS/copies" "${PLUGINS[@]}"
expect_rc plain 22
if grep foreign "$WORK/plain.calls"; then
	fail "the test itself mixes the copies up"
fi
mkdir "$WORK/profiles"
run_under under SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_SAMPLE_RATE=500 \
	SPANPROF_SPAN_ID_SCOPE=all SPANPROF_SPAN_NAME_SCOPE=all \
	FIXTURE_CALLS="$WORK/under.calls" "$HOSTS/copies" "${PLUGINS[@]}"
grep '^spanprof\[' "$WORK/under.err" >"$WORK/under.told"
sed -i '/^spanprof\[/d' "$WORK/under.err"
expect_same plain under out err rc
diff <(of_host plain) <(of_host under) || fail "calls at the wrong copy"
# Calls of copy a until it is unloaded: 2 alone and 8 beside b; later calls of b: 2 and 4.
[[ $(grep -c '^a get_context' "$WORK/under.calls") == 10 ]] || fail "not every span of a was looked at"
[[ $(grep -c '^b get_context' "$WORK/under.calls") == 6 ]] || fail "not every span of b was looked at"
[[ $(grep -c 'another copy of libopentelemetry_c_api.so' "$WORK/under.told") == 1 ]] || fail "not told once"
report "$WORK/profiles" "$WORK/report.json"
expect "$WORK/report.json" \
	'{n["span_name"] for n in d["span_names"]} >= {"alone", "of a", "alone again", "of b"}'

# Switched off, the calls are the same.
run_under off SPANPROF_DISABLED=true FIXTURE_CALLS="$WORK/off.calls" "$HOSTS/copies" "${PLUGINS[@]}"
expect_same plain off out err rc calls

run confined.plain FIXTURE_CALLS="$WORK/confined.plain.calls" "$HOSTS/copies" "${PLUGINS[@]}" confined
expect_rc confined.plain 22
for hook in false true; do
	name=confined.$hook
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_HOOK_DLSYM=$hook \
		FIXTURE_CALLS="$WORK/$name.calls" "$HOSTS/copies" "${PLUGINS[@]}" confined
	sed -i '/^spanprof\[/d' "$WORK/$name.err"
	expect_same confined.plain "$name" out err rc
	diff <(of_host confined.plain) <(of_host "$name") || fail "$name: calls at the wrong copy"
done
