#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With SPANPROF_SPAN_TIMES each local root has attributes that say where its time went. They equal the host's
# measurements with the same clocks, for spans of any length. An unknown time has no attribute.
# Runs alone: it judges how long threads wait.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

# Times need no sample, so there is no link.
unset SPANPROF_ATTRIBUTES

need python3
readonly TURNS=2 WAIT_MS=300
readonly COMPARE=$ROOT/test/e2e/span_times.py

# waits NAME COMMAND...: runs the command with the profiler, its spans go into NAME.spans; more variables may come
# first
waits()
{
	local name=$1

	shift
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK" OTELC_SPANS_JSON="$WORK/$name.spans" "$@"
	expect_rc "$name" 0
	expect_silent "$name"
}

# Known waits, each in its own spans, long ones and short ones; no profile of them is configured.
for ms in "$WAIT_MS" 30 2; do
	waits "known.$ms" SPANPROF_SPAN_TIMES=true "$HOSTS/waits_sdk" "$TURNS" "$ms"
	python3 "$COMPARE" known "$WORK/known.$ms.out" "$WORK/known.$ms.spans"
done
[[ -z $(find "$WORK" -name '*off_cpu*' -o -name '*wall*') ]] || fail "a profile of waits unasked"

# Threads that take a lock and the processors from each other.
for threads in 1 8 200; do
	waits "crowd.$threads" SPANPROF_SPAN_TIMES=true "$HOSTS/waits_sdk" 1 "$WAIT_MS" crowd "$threads"
	python3 "$COMPARE" crowd "$WORK/crowd.$threads.out" "$WORK/crowd.$threads.spans"
done

# A process that may not be traced has the same values.
if has_nobody; then
	chmod 777 "$WORK"
	waits nobody SPANPROF_SPAN_TIMES=true setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$HOSTS/waits_sdk" 1 "$WAIT_MS" undumpable
	python3 "$COMPARE" known "$WORK/nobody.out" "$WORK/nobody.spans"
fi

# The older option gives its one attribute; and without an option there is none.
waits cpu SPANPROF_SPAN_CPU_TIME=true "$HOSTS/waits_sdk" 1 30
python3 "$COMPARE" cpu "$WORK/cpu.out" "$WORK/cpu.spans"
waits off "$HOSTS/waits_sdk" 1 30
! grep -q '"spanprof\.' "$WORK/off.spans" || fail "attributes unasked"

# The cost: two system calls at each edge of each of the five roots, and no others; no call is interrupted.
need strace
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
for option in false true; do
	strace -f -qq -o "$WORK/$option.trace" -E LD_PRELOAD="$SO" -E SPANPROF_SPAN_TIMES="$option" \
		-E SPANPROF_OUTPUT_DIR="$WORK" "$HOSTS/waits" 4 50 sleep >/dev/null
	! grep -E 'nanosleep.*(ERESTART|EINTR)|restart_syscall' "$WORK/$option.trace" ||
		fail "a sleep was interrupted"
	sed -E -e '/ resumed>/d' -e 's/^[0-9]+ +//' -e '/^(\+\+\+|---)/d' -e 's/\(.*//' "$WORK/$option.trace" |
		sort >"$WORK/$option.calls"
done
[[ $(grep -c '^getrusage$' "$WORK/true.calls") == 10 ]] ||
	fail "$(grep -c '^getrusage$' "$WORK/true.calls") calls of getrusage for five roots"
# Work that hooks do for the exporter, such as a scan for threads, comes now and then; and samples come by chance.
comm -13 <(uniq "$WORK/false.calls") <(uniq "$WORK/true.calls") |
	grep -vE '^(getrusage|clock_gettime|t?g?kill|getdents64|openat|read|readlinkat|newfstatat|close|timer_.*|m(un)?map|madvise|sched_yield|rt_sig(return|procmask))$' \
		>"$WORK/more.calls" || true
[[ ! -s $WORK/more.calls ]] || fail "calls that are not made without the option: $(<"$WORK/more.calls")"
