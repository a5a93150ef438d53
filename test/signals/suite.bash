# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The signal suite: runs each case without and with the profiler, and says what came of it. Sourced after test/e2e/lib.bash, by test/e2e/signals.sh and by table.sh.

readonly CASES=$TEST_BUILD/test/signals/cases
readonly GPERFTOOLS=/usr/lib/x86_64-linux-gnu/libprofiler.so.0
# Below this share of the CPU time in samples a case counts as not sampled.
readonly SAMPLED_PERCENT=50

# Whatever a case is about, every process is profiled from its start.
export SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=250

# Prints "name|words" of all cases, those of other programs included.
suite_cases()
{
	"$CASES" --list
	echo 'go_shared|a Go shared object loaded by a C program'
	echo 'go_host|a Go program with cgo'
	if [[ -e $GPERFTOOLS ]]; then
		echo 'two_profilers|gperftools'\'' `libprofiler.so` (SIGPROF) at the same time'
	fi
}

# No function of the C library lets a program name the signal that we sample with; a raw system call does.
readonly OURS=33

# command_of NAME: sets COMMAND.
command_of()
{
	case $1 in
	go_shared) COMMAND=("$TEST_LIBS/signals/goshared" "$TEST_LIBS/signals/libshared-go.so") ;;
	go_host) COMMAND=("$TEST_LIBS/signals/gohost") ;;
	# Not a case with waits. The other profiler's timer runs with the CPU time of all threads, ours
	# among them, and its signal comes to a thread that can take it, so it ends waits now and then.
	two_profilers) COMMAND=("$CASES" set_and_read "$(kill -l USR1)") ;;
	reset_raw) COMMAND=("$CASES" "$1" "$OURS") ;;
	*) COMMAND=("$CASES" "$1" "$(kill -l URG)") ;;
	esac
}

# suite_run NAME: sets STATUS (works, differs, killed) and SHARE, percent of the CPU time.
suite_run()
{
	local run=$1 plain=$1.plain preload=$SO other=()

	command_of "$1"
	if [[ $1 == two_profilers ]]; then
		preload=$GPERFTOOLS:$SO
		other=("CPUPROFILE=$WORK/$run.prof")
	fi
	rm -rf "${WORK:?}/$run"
	mkdir "$WORK/$run"
	run "$plain" ${other[0]:+LD_PRELOAD="$GPERFTOOLS" "${other[0]}.plain"} "${COMMAND[@]}"
	run "$run" LD_PRELOAD="$preload" "${other[@]}" \
		SPANPROF_OUTPUT_DIR="$WORK/$run" "${COMMAND[@]}"
	# What gperftools says at its end counts its own samples.
	STATUS=works
	if [[ $(result "$run.rc") == $((128 + OURS)) ]]; then
		STATUS=killed
	elif ! cmp -s "$WORK/$plain.out" "$WORK/$run.out" || ! cmp -s "$WORK/$plain.rc" "$WORK/$run.rc"; then
		STATUS=differs
	fi
	SHARE=0
	if [[ -n $(profiles_in "$WORK/$run") ]]; then
		report "$WORK/$run" "$WORK/$run.json"
		SHARE=$(ask "$WORK/$run.json" "round(100 - 100 * sum(f['self_ns'] \
			for f in d['functions'] if f['function'] == '[unsampled cpu]') \
			/ max(d['total']['ns'], 1))")
	fi
}

# One cell of the table.
suite_cell()
{
	if [[ $STATUS == works ]] && ((SHARE < SAMPLED_PERCENT)); then
		echo "works, not sampled ($SHARE %)"
	elif [[ $STATUS == works ]]; then
		echo "works"
	else
		echo "**$STATUS**"
	fi
}
