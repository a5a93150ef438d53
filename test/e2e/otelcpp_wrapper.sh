#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The spans of a C wrapper around opentelemetry-cpp are those of the SDK inside: each counts once, and its scopes
# decide which span is active.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need gdb
mkdir "$WORK/profiles"
# Profiling is on before the first spans of two threads start at the same moment.
export SPANPROF_PROFILE=always

# If a signal comes while the debugger steps over a breakpoint, the breakpoint counts twice.
readonly RARELY=SPANPROF_SAMPLE_RATE=1

# counted NAME PROGRAM [ARGUMENT]...: runs it under a debugger that counts calls; sets STARTED_CALLS, ATTACHED_CALLS
# and HOOK_CALLS.
counted()
{
	local name=$1

	shift
	run "$name" OTELC_SPANS_JSON="$WORK/$name.spans" gdb -nx -batch \
		-ex 'set confirm off' -ex 'set breakpoint pending on' -ex 'set print thread-events off' \
		-ex 'handle all nostop noprint pass' \
		-ex "set exec-wrapper env LD_PRELOAD=$SO SPANPROF_OUTPUT_DIR=$WORK/profiles $RARELY" \
		-ex 'break sp_span_started_by_id' -ex 'break sp_active_span_attach' -ex 'break hook_start' \
		-ex 'ignore 1 1000000' -ex 'ignore 2 1000000' -ex 'ignore 3 1000000' \
		-ex run -ex 'info breakpoints' --args "$@"
	expect_rc "$name" 0
	if grep -q 'ptrace: Operation not permitted' "$WORK/$name.err"; then
		skip "no permission to trace"
	fi
	STARTED_CALLS=$(hits "$name" 1)
	ATTACHED_CALLS=$(hits "$name" 2)
	HOOK_CALLS=$(hits "$name" 3)
	[[ ! -d $WORK/$name ]] || cp "$WORK/$name/spans" "$WORK/$name.spans"
	SPANS=$(wc -l <"$WORK/$name.spans")
	echo "$name: $SPANS spans, $STARTED_CALLS started, $ATTACHED_CALLS attached, $HOOK_CALLS hooks"
	((SPANS > 0)) || fail "$name: no spans: $(tail -n 20 "$WORK/$name.out" "$WORK/$name.err")"
}

# hits NAME NUMBER: how often that breakpoint was hit.
hits()
{
	awk -v n="$2" '$1 ~ /^[0-9]+(\.[0-9]+)?$/ { on = ($1 == n) }
		on && /already hit/ { print $4; found = 1; exit }
		END { if (!found) print 0 }' "$WORK/$1.out"
}

counted wrapper "$HOSTS/spans" 300
((STARTED_CALLS == SPANS && HOOK_CALLS == SPANS)) || fail "a span of the wrapper was not counted once"
((ATTACHED_CALLS == SPANS)) || fail "a scope of the wrapper was not counted once"

mkdir "$WORK/itself"
counted itself "$TEST_LIBS/conformance/debian/lazy" --story 'started beside an active span' "$WORK/itself"
((STARTED_CALLS == SPANS && HOOK_CALLS == SPANS)) || fail "a span was not counted once"
((ATTACHED_CALLS == SPANS)) || fail "a scope was not counted once"

# The span that the wrapper made current is the parent of the SDK's own span, and the root of its work.
mkdir "$WORK/mixed"
run_under mixed OTELC_SPANS_JSON="$WORK/mixed.spans" SPANPROF_OUTPUT_DIR="$WORK/mixed" \
	"$TEST_LIBS/otelcpp/mixed"
expect_rc mixed 0
report "$WORK/mixed" "$WORK/mixed.json"
expect "$WORK/mixed.json" "[n['span_name'] for n in d['span_names'] if n['ns'] > 250e6] == ['outer']"

# An attribute with our key that the program sets through the wrapper stays.
grep '"name":"outer".*"pyroscope.profile.id":"mine"' "$WORK/mixed.spans" >/dev/null ||
	fail "the program's own attribute is gone: $(<"$WORK/mixed.spans")"

# A wrapper that attaches nothing; its SDK is beside it, or inside.
for sdk in haproxy_cpp haproxy33; do
	mkdir "$WORK/tables.$sdk"
	counted "tables.$sdk" "$TEST_LIBS/conformance/$sdk/lazy" --story 'one after another' "$WORK/tables.$sdk"
	((STARTED_CALLS == SPANS)) || fail "a span of the wrapper was not counted once"
	((ATTACHED_CALLS == 0)) || fail "a scope out of nothing"
done
