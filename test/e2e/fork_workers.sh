#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In a prefork server each process is profiled separately: every worker's span arrives from the worker that ran it,
# whether the master had a span open when it forked, later, or never. A span that was open at the fork is the root of
# the workers' spans, as in the trace.
# Runs alone: it compares CPU time with clocks to a few per cent.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export OTELC_PROCESSOR=simple SPANPROF_SAMPLE_RATE=250

# names FILE NAME...: the samples of the report have these span names and no others.
names()
{
	local file=$1

	shift
	expect "$file" "{n['span_name'] for n in d['span_names']} - {''} == set('$*'.split())"
}

# workers WHEN SCOPE
workers()
{
	local when=$1 scope=$2 run=$1.$2 name pid workers=0 files

	mkdir "$WORK/$run"
	run_under "$run" SPANPROF_OUTPUT_DIR="$WORK/$run" OTELC_SPANS_JSON="$WORK/$run.spans" \
		SPANPROF_SPAN_ID_SCOPE="$scope" SPANPROF_SPAN_NAME_SCOPE="$scope" \
		"$HOSTS/prefork" "$when"
	expect_rc "$run" 12
	expect_silent "$run"
	while read -r name pid; do
		files=("$WORK/$run"/*-"$pid"-*.pb.gz)
		[[ -e ${files[0]} ]] || fail "$run: no profile of $name, process $pid"
		build/spanprof-report --json "${files[@]}" >"$WORK/one.json"
		# 400 ms of CPU time. The time after a process's last tick is unsampled CPU time; with five processes
		# on two processors the last tick may be long ago.
		expect "$WORK/one.json" "395e6 < d['total']['ns'] < 480e6"
		# A tick after the end of a span gives a sample outside of it. There are few, but such a sample counts
		# for all time since the tick before, which may be long ago as above.
		expect "$WORK/one.json" "d['total']['samples'] - d['labelled']['samples'] <= 2"
		case $name.$when.$scope in
		worker-*.before.root) names "$WORK/one.json" master ;;
		# Between the fork and its own span a worker is in the master's span.
		worker-*.before.all)
			expect "$WORK/one.json" "{n['span_name'] for n in d['span_names']} - {'', 'master'} == {'$name'}"
			;;
		*) names "$WORK/one.json" "$name" ;;
		esac
		workers=$((workers + 1))
	done <"$WORK/$run.out"
	[[ $workers == $([[ $when == never ]] && echo 4 || echo 5) ]] || fail "$run: $workers processes with a profile"
	# Every span in the report was exported.
	report "$WORK/$run" "$WORK/all.json"
	python3 "$CHECK" spans "$WORK/all.json" "$WORK/$run.spans" "$scope"
}

workers before root
workers before all
workers after root
workers never root
