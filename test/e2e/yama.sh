#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SPANPROF_OFF_CPU in an unprivileged program under Yama, the kernel's restriction of tracing. If Yama requires the
# program's permission (1), the program gives it to its exporter, and only then. If Yama forbids tracing (2, 3), the
# time is there and a frame says why there is no stack. off_cpu.sh tests how exact the time is. This script tests the
# setting of this machine's kernel; make kernels runs it with all four, and looks for the last line.
# Runs alone: it judges how long threads wait.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
has_nobody || skip 'no other user can run programs here'
readonly FILE=/proc/sys/kernel/yama/ptrace_scope
readonly NOBODY=(setpriv --reuid=65534 --regid=65534 --clear-groups)
# The program gives permission when it next starts or ends a span, so it has several spans.
readonly TURNS=${YAMA_TURNS:-6} WAIT_MS=200 WAITS=sleep,cond,pipe
SCOPE=none
[[ ! -e $FILE ]] || SCOPE=$(<"$FILE")

chmod 777 "$WORK"
mkdir -m 777 "$WORK/profiles"
run_under waits SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_OFF_CPU=true SPANPROF_STATUS_FILE="$WORK/status" \
	"${NOBODY[@]}" "$HOSTS/waits" "$TURNS" "$WAIT_MS" "$WAITS"
expect_rc waits 0
# If the exporter comes late, there is a message.
sed -i '/: lost since the last push: [0-9]* milliseconds of waiting in spans were over when the exporter began: /d' "$WORK/waits.err"
expect_silent waits
build/spanprof-report --type off_cpu --folded "$WORK/profiles" >"$WORK/folded"
# Nanoseconds of waits whose stack reaches the start of the thread, and of all waits with a look: on a busy machine
# the exporter may begin late.
read -r rooted all < <(awk '!/^\[waiting for a CPU\]/ { all += $NF; if (/start_thread;go;/) rooted += $NF }
	END { printf "%d %d\n", rooted, all }' "$WORK/folded")

case $SCOPE in
none | 0) least=95 most=100 refusal=None ;;
1) least=60 most=100 refusal=None ;;
*) least=0 most=0 refusal='Yama forbids it' ;;
esac
((all > 0 && rooted * 100 >= least * all && rooted * 100 <= most * all)) ||
	fail "$rooted of $all ns have a stack: $(<"$WORK/folded")"
[[ $(ask "$WORK/status" 'd["off_cpu"]["no_stacks_because"]') == "$refusal" ]] ||
	fail "the status file says why there are no stacks: $(ask "$WORK/status" 'd["off_cpu"]')"
((most > 0)) || grep -q "^\[blocked, no stack: $refusal" "$WORK/folded" || fail "no frame says why: $(<"$WORK/folded")"

# With scope 3 no process may be traced.
if [[ $SCOPE != 3 ]]; then
	need strace
	for option in false true; do
		strace -f -qq -e trace=prctl -o "$WORK/$option.trace" -E LD_PRELOAD="$SO" -E SPANPROF_OFF_CPU="$option" \
			-E SPANPROF_OUTPUT_DIR="$WORK/profiles" "${NOBODY[@]}" "$HOSTS/waits" $((TURNS / 3)) "$WAIT_MS" "$WAITS" \
			>/dev/null 2>&1
	done
	asked=$(grep -c PR_SET_PTRACER "$WORK/true.trace" || true)
	! grep PR_SET_PTRACER "$WORK/false.trace" || fail "it lets others trace it, unasked"
	if [[ $SCOPE == 1 ]]; then
		((asked > 0)) || fail "it gave no leave"
	else
		((asked == 0)) || fail "it lets others trace it where nobody needs that"
	fi
fi
echo "yama: scope $SCOPE, $((rooted * 100 / all)) % of the time with a stack"
