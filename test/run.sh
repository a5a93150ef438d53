#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The one test runner: test/run.sh KIND=PATH... with the kinds
#   unit    a program of Criterion tests; each of them counts
#   stress  a program, exit 0 passes
#   gate    a script in test/gates, exit 0 passes
#   e2e     a script in test/e2e, exit 0 passes, 77 skips with its last line as the reason
#   matrix  as e2e, and its output is shown
#   cross   as e2e, with the programs for aarch64, in an emulator
#   skip    a reason in place of a path: a group of tests is not run
# An emulator also runs the programs below build/aarch64.
# A kind in SECOND_TRY depends on clocks and kernels that are not ours. If such a program fails, because the machine is
# busy for example, it runs once more, and if it passes then it is reported as unsteady, with both logs kept. More than
# UNSTEADY_MAX unsteady tests fail the run: that is no longer chance. Stress programs have no second try, because a race
# that the thread sanitizer has seen once is real; and with SPANPROF_TEST_TRIES=1, as in CI, no test has one.
# A test may be skipped if something that it needs is missing. With SPANPROF_TEST_TRIES=1 everything is installed, and a
# skip that test/skips does not list is a failure. A script that leaves out a part of itself writes a line for it into the
# file that TEST_LEFT_OUT names, which is a skip of "NAME, in part" when the rest has passed.
# Scripts keep one processor busy, or wait more than half of their time, for intervals, timeouts, and servers that are slow
# on purpose. So LANES scripts run at a time, one more than the processors of a small machine. Scripts with a line
# "# Runs alone: WHY", which judge times or shares or need all processors, run before, one after the other, and so do those
# in an emulator.
# Programs compute, and run before all scripts, LANES - 1 at a time: beside them a timer of CPU time would expire
# late, and its sample would count for the work before it. Some tests compute without reading a clock: gates, programs
# that step through a thread, and scripts with a line "#
# Takes its time: WHY". They run beside the scripts that run alone, one at a time, in the scheduler's class for idle
# work.
# Prints one line per test, when it ends. Near the end each failure has another line, because a long log may be kept only
# in part; then comes the number of distinct tests, because many are built more than once; the last line but one has the
# number of second tries, and the last line has the counts.
# On a machine that is TEST_PATIENCE times as slow as others, all limits are that many times as long.
# Each test gets its own session, whose leftovers are killed; logs stay in build/test/logs.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

readonly LOGS=${SPANPROF_TEST_LOGS:-build/test/logs}
readonly SKIP_STATUS=77
declare -A LIMIT_S=([unit]=300 [stress]=180 [gate]=300 [e2e]=300 [cross]=300 [matrix]=300)
declare -A SECOND_TRY=([unit]=1 [e2e]=1 [cross]=1 [matrix]=1)
[[ ${SPANPROF_TEST_TRIES:-2} == 2 ]] || SECOND_TRY=()
SKIPS=
[[ ${SPANPROF_TEST_TRIES:-2} != 1 ]] || SKIPS=${SPANPROF_TEST_SKIPS:-test/skips}
readonly SKIPS
# The profiler under test would report it as a misspelt variable.
export -n SPANPROF_TEST_TRIES SPANPROF_TEST_SKIPS
readonly UNSTEADY_MAX=2
readonly LANES=${SPANPROF_TEST_LANES:-3}
export -n SPANPROF_TEST_LANES

# The results are in files, to which tests in several lanes append whole lines: "STATUS KIND NAME" in results, and the
# name of each unsteady test in unsteady.
FOUND=$(mktemp -d)
readonly FOUND
trap 'rm -rf "$FOUND"' EXIT
touch "$FOUND/results" "$FOUND/unsteady"

# may_skip KIND NAME REASON
may_skip()
{
	local allowed

	while IFS= read -r allowed; do
		# shellcheck disable=SC2053
		[[ $allowed == '#'* || "$1 $2: $3" != $allowed ]] || return 0
	done <"$SKIPS"
	return 1
}

# report STATUS KIND NAME SECONDS [REASON]
report()
{
	if [[ $1 == skip && -n $SKIPS ]] && ! may_skip "$2" "$3" "${5:-}"; then
		set -- "not ok" "$2" "$3" "$4" "skipped, which test/skips does not allow: ${5:-}"
	fi
	echo "$1  $2  $3${5:+: $5}" >>"$FOUND/results"
	printf '%-6s  %-6s  %s (%s s)%s\n' "$1" "$2" "$3" "$4" "${5:+: $5}"
}

# Sets EMULATOR for a program with that path; test/aarch64/module.mk has written the command.
emulate()
{
	EMULATOR=()
	[[ $1 == build/aarch64/* ]] || return 0
	# shellcheck source=/dev/null
	source build/aarch64/emulator
	export TEST_BUILD TEST_EMULATOR TEST_EMULATOR_ROOT
	read -ra EMULATOR <<<"$TEST_EMULATOR -E LD_PRELOAD=$TEST_EMULATOR_EXEC"
}

show_log()
{
	sed -e 's/^/        | /' "$1" | tail -n "${SPANPROF_TEST_LOG_LINES:-60}"
	echo "        log: $1"
}

# why STATUS LOG: why a program failed, in one line: its lines with "FAIL:", or its last line.
why()
{
	local said

	said=$(grep -a 'FAIL: ' "$2" | paste -sd ' ')
	said=${said:-$(tail -n 1 "$2")}
	echo "exit $1${said:+: ${said:0:400}}"
}

# Runs "$@" in a session of its own with a time limit, then ends all processes that remain.
run_limited()
{
	local limit=$(($1 * ${TEST_PATIENCE:-1})) log=$2 pid status

	shift 2
	setsid timeout --kill-after=10 "$limit" "$@" </dev/null >"$log" 2>&1 &
	pid=$!
	wait "$pid"
	status=$?
	pkill -KILL -s "$pid" 2>/dev/null
	if ((status == 124)); then
		echo "timed out after $limit s" >>"$log"
	fi
	return "$status"
}

elapsed()
{
	awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f", to - from }'
}

# Turns the TAP of common/unit_main.c into "status|seconds|name|reason" lines.
tap_results()
{
	awk '
	/^(not )?ok - / {
		status = /^not/ ? "not ok" : "ok"
		sub(/^(not )?ok - /, "")
		name = $1
		sub(/^[^ ]+ */, "")
		reason = ""
		if (sub(/^# SKIP */, "")) {
			status = "skip"
			reason = $0
		} else if (status == "not ok" && $0 !~ /^\(/) {
			reason = $0
		}
		seconds = match($0, /\([0-9.]+s\)/) ? substr($0, RSTART + 1, RLENGTH - 3) : "0.00"
		sub(/ *\([0-9.]+s\)/, "", reason)
		print status "|" seconds "|" name "|" reason
	}' "$1"
}

# Runs a unit program; results are its lines, bad is true if there is a failure among them. The program prints its
# plan first, so a runner that died half way is noticed.
try_unit()
{
	local program=$1 log=$2 tap=$2.tap planned rc

	rm -f "$tap"
	run_limited "${LIMIT_S[unit]}" "$log" "${EMULATOR[@]}" "$program" --tap="$tap" \
		--jobs "$(nproc)"
	rc=$?
	[[ -e $tap ]] || : >"$tap"
	mapfile -t results < <(tap_results "$tap")
	bad=$(printf '%s\n' "${results[@]}" | grep -c '^not ok')
	planned=$(sed -n 's/^1\.\.\([0-9]*\)$/\1/p' "$tap")
	if ((${#results[@]} == 0 || ${#results[@]} != ${planned:-0} || (rc != 0 && bad == 0))); then
		results+=("not ok|0||exit $rc, ${#results[@]} of ${planned:-no} tests reported")
		bad=1
	fi
	if ((bad > 0)); then
		cat "$tap" >>"$log"
		show_log "$log"
	fi
}

run_unit()
{
	local program=$1 name=$2 log=$3 line status seconds test reason
	local -a results
	local -i bad

	try_unit "$program" "$log"
	if ((bad > 0)) && [[ -n ${SECOND_TRY[unit]:-} ]]; then
		mv "$log" "$log.first"
		echo "        kept as $log.first; once more:"
		try_unit "$program" "$log"
		if ((bad == 0)); then
			echo "$name" >>"$FOUND/unsteady"
		fi
	fi
	for line in "${results[@]}"; do
		IFS='|' read -r status seconds test reason <<<"$line"
		report "$status" unit "$name${test:+ $test}" "$seconds" "$reason"
	done
}

# left_out KIND NAME: reports the parts that a passed script has left out.
left_out()
{
	local what

	while IFS= read -r what; do
		report skip "$1" "$2, in part" 0 "$what"
	done <"$TEST_LEFT_OUT"
}

show_matrix()
{
	if [[ $1 == matrix ]]; then
		cat "$2"
	fi
}

# A failure, unless the second try passes. The first one's log is shown in both cases.
run_again()
{
	local kind=$1 program=$2 name=$3 log=$4 rc=$5 start=$EPOCHREALTIME second=0

	mv "$log" "$log.first"
	show_log "$log.first"
	: >"$TEST_LEFT_OUT"
	run_limited "${LIMIT_S[$kind]}" "$log" "${PLAIN_PREFIX[@]}" "$program" || second=$?
	show_matrix "$kind" "$log"
	if ((second == 0)); then
		echo "$name" >>"$FOUND/unsteady"
		report ok "$kind" "$name" "$(elapsed "$start")" "unsteady: exit $rc at first"
		left_out "$kind" "$name"
	else
		report "not ok" "$kind" "$name" "$(elapsed "$start")" "$(why "$rc, then $second" "$log")"
		show_log "$log"
	fi
}

run_plain()
{
	local kind=$1 program=$2 name=$3 log=$4 start=$EPOCHREALTIME rc

	TEST_LEFT_OUT=$(mktemp "$FOUND/left.XXXXXX")
	export TEST_LEFT_OUT
	run_limited "${LIMIT_S[$kind]}" "$log" "${PLAIN_PREFIX[@]}" "$program"
	rc=$?
	if ((rc != 0 && rc != SKIP_STATUS)) && [[ -n ${SECOND_TRY[$kind]:-} ]]; then
		run_again "$kind" "$program" "$name" "$log" "$rc"
		return
	fi
	show_matrix "$kind" "$log"
	if ((rc == 0)); then
		report ok "$kind" "$name" "$(elapsed "$start")"
		left_out "$kind" "$name"
	elif ((rc == SKIP_STATUS)); then
		report skip "$kind" "$name" "$(elapsed "$start")" "$(tail -n 1 "$log")"
	else
		report "not ok" "$kind" "$name" "$(elapsed "$start")" "$(why "$rc" "$log")"
		show_log "$log"
	fi
}

run_one()
{
	local kind=${1%%=*} program=${1#*=} name log

	name=${program#build/}
	name=${name%.sh}
	name=${name/release\/test/test}
	log=$LOGS/$kind-${name//\//-}.log
	PLAIN_PREFIX=()
	unset TEST_BUILD TEST_EMULATOR TEST_EMULATOR_ROOT
	emulate "$program"
	case $kind in
	unit)
		run_unit "$program" "$name" "$log"
		;;
	stress)
		# ThreadSanitizer of gcc 12 cannot map its shadow under high-entropy address
		# randomisation.
		if [[ $program == */tsan/* ]] && setarch -R true 2>/dev/null; then
			PLAIN_PREFIX=(setarch -R)
		fi
		PLAIN_PREFIX+=("${EMULATOR[@]}")
		run_plain stress "$program" "$name" "$log"
		;;
	gate | e2e | matrix)
		PLAIN_PREFIX=(bash)
		run_plain "$kind" "$program" "$name" "$log"
		;;
	cross)
		emulate build/aarch64/
		PLAIN_PREFIX=(bash)
		run_plain "$kind" "$program" "$name" "$log"
		;;
	skip)
		report skip "$kind" "" 0 "$program"
		;;
	*)
		report "not ok" "$kind" "$program" 0 "no such kind of test"
		;;
	esac
}

# script_says PATTERN ITEM: whether the script has that line
script_says()
{
	grep -qs "^# $1: " "${2#*=}"
}

# Shows the output of the next test to end, all at once.
finish_one()
{
	local pid

	wait -n -p pid "${!running[@]}" || report "not ok" run "a lane" 0 "ended with $? before it could say of its test"
	cat "${running[$pid]}"
	unset "running[$pid]"
}

# run_together N ITEM...: N at a time
run_together()
{
	local -i at_once=$1
	local item shown
	local -A running=()

	shift
	for item in "$@"; do
		((${#running[@]} < at_once)) || finish_one
		shown=$(mktemp "$FOUND/shown.XXXXXX")
		run_one "$item" >"$shown" 2>&1 &
		running[$!]=$shown
	done
	while ((${#running[@]} > 0)); do
		finish_one
	done
}

# run_alone ITEM...: one at a time, and beside them items of patient, as far as there is time; the rest stays in
# patient.
run_alone()
{
	local item beside

	(
		chrt --idle --pid 0 "$BASHPID"
		for item in "${patient[@]}"; do
			if [[ -e $FOUND/over ]]; then
				echo "$item" >>"$FOUND/rest"
			else
				run_together 1 "$item"
			fi
		done
	) &
	beside=$!
	run_together 1 "$@"
	touch "$FOUND/over" "$FOUND/rest"
	wait "$beside"
	mapfile -t patient <"$FOUND/rest"
}

# count STATUS: the number of tests with that status.
count()
{
	grep -c "^$1  " "$FOUND/results"
}

# Prints the number of tests, each counted once, and how many of these were built how often.
distinct()
{
	sed -E '/, in part: /d; s/^(ok|not ok|skip)  //; s/: .*//; s#  (asan|tsan|aarch64)/#  #' "$FOUND/results" | sort | uniq -c |
		awk '{ n++; times[$1]++ }
			END {
				for (i = 1; i <= 9; i++)
					if (times[i]) built = built (built ? ", " : "") times[i] " built " (i == 1 ? "once" : i " times")
				print n + 0 " distinct tests: " built
			}'
}

# Tests that end by SIGSEGV need the signal that AddressSanitizer would take.
export ASAN_OPTIONS=${ASAN_OPTIONS:-handle_segv=0:handle_sigbus=0:abort_on_error=1}

# Programs that install-deps.sh installed come first. The tests start python3 thousands of times for small questions;
# if a version manager has put a script in its place, that takes four times as long.
export PATH=/usr/bin:$PATH

export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}

if (($# == 0)); then
	echo "test/run.sh: no tests given" >&2
	exit 2
fi
mkdir -p "$LOGS"
programs=()
computing=()
reading=()
alone=()
together=()
for item in "$@"; do
	case $item in
	cross=*) alone+=("$item") ;;
	gate=* | stress=*_step | stress=*/step/*) computing+=("$item") ;;
	e2e=* | matrix=*)
		if script_says 'Runs alone' "$item"; then
			alone+=("$item")
		elif script_says 'Takes its time' "$item"; then
			reading+=("$item")
		else
			together+=("$item")
		fi
		;;
	*) programs+=("$item") ;;
	esac
done
patient=()
if ((${#alone[@]} > 0)) && chrt --idle 0 true 2>/dev/null; then
	patient=("${reading[@]}" "${computing[@]}")
else
	programs+=("${computing[@]}")
	together=("${reading[@]}" "${together[@]}")
fi
run_together $((LANES > 1 ? LANES - 1 : 1)) "${programs[@]}"
run_alone "${alone[@]}"
run_together "$LANES" "${patient[@]}" "${together[@]}"
mapfile -t unsteady <"$FOUND/unsteady"
if ((${#unsteady[@]} > UNSTEADY_MAX)); then
	report "not ok" run "unsteady tests" 0 "${#unsteady[@]}, at most $UNSTEADY_MAX are chance"
fi
sed -n 's/^not ok  /failed: /p' "$FOUND/results"
distinct
echo "${#unsteady[@]} needed a second try${unsteady[*]:+: ${unsteady[*]}}"
echo "$(count ok) passed, $(count 'not ok') failed, $(count skip) skipped"
(($(count 'not ok') == 0))
