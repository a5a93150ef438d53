#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Memory and processor time of the exporter: with one busy process, with many idle processes and threads, when nearly
# all stacks are new, and with large debug information; and of the report with many profiles. Writes a table to
# build/test/bench/exporter.md.
# BENCH_SECONDS=n observes each for n seconds instead of 30 after the first 20, BENCH_DEBUG_MIB=n makes a debug file
# of n MiB instead of 2,048, BENCH_PROFILES_MIB=n profiles of n MiB instead of 100.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash

readonly FIRST_S=20 WATCH_S=${BENCH_SECONDS:-30}
readonly DEBUG_MIB=${BENCH_DEBUG_MIB:-2048} PROFILES_MIB=${BENCH_PROFILES_MIB:-100}
readonly STACKS=10000

# ours_ms PID: CPU time of all threads of the process.
ours_ms()
{
	cat /proc/"$1"/task/*/schedstat | awk '{ sum += $1 } END { printf "%d\n", sum / 1e6 }'
}

# watch_memory PID FILE: waits for the end of the process, and writes the KiB of its peak resident memory, and of the
# peak part that belongs to no file.
watch_memory()
{
	local status peak=0 anon=0 value

	while status=$(cat "/proc/$1/status" 2>/dev/null) && [[ $status == *VmHWM* ]]; do
		peak=$(awk '/^VmHWM/ { print $2 }' <<<"$status")
		value=$(awk '/^RssAnon/ { print $2 }' <<<"$status")
		((value <= anon)) || anon=$value
		echo "$peak $anon" >"$2.new"
		mv "$2.new" "$2"
		sleep 0.1
	done
}

# row WHAT FIRST_MS LATER_MS LATER_S FILE
row()
{
	local peak anon

	read -r peak anon <"$5"
	awk -v what="$1" -v first="$2" -v later="$3" -v s="$4" -v peak="$peak" -v anon="$anon" 'BEGIN {
		printf "| %s | %s | %s | %.1f MiB | %.1f MiB |\n", what,
			first == "" ? "" : sprintf("%.2f s", first / 1000),
			later == "" ? "" : sprintf("%.2f %%", later / s / 10), peak / 1024, anon / 1024 }'
}

sampled()
{
	awk '$1 == "worker" { print $2; exit }' "$WORK/out" | grep . || echo "$host"
}

is_served()
{
	exporter=$(exporter_of "$(sampled)")
}

is_ready()
{
	grep -qx ready "$WORK/out" || ! kill -0 "$host" 2>/dev/null
}

has_ended()
{
	! kill -0 "$1" 2>/dev/null
}

# beside WHAT WAITS PROGRAM...: a row about the exporter of that program. With WAITS the program says "ready" and ends
# with its input; otherwise it is killed after the observation.
beside()
{
	local what=$1 waits=$2 host exporter watcher go first later

	shift 2
	: >"$WORK/out"
	rm -rf "$WORK/go" "$WORK/profiles"
	mkfifo "$WORK/go"
	LD_PRELOAD=$OBJECT SPANPROF_OUTPUT_DIR=$WORK/profiles OTELC_SPANS_FILE=/dev/null "$@" \
		<"$WORK/go" >"$WORK/out" 2>/dev/null &
	host=$!
	STARTED+=("$host")
	disown "$host"
	exec {go}>"$WORK/go"
	[[ $waits == false ]] || poll_until 300 is_ready
	poll_until 60 is_served || { echo "exporter.sh: $what: no exporter" >&2; exit 1; }
	watch_memory "$exporter" "$WORK/memory" &
	watcher=$!
	sleep "$FIRST_S"
	first=$(ours_ms "$exporter")
	sleep "$WATCH_S"
	later=$(($(ours_ms "$exporter") - first))
	exec {go}>&-
	[[ $waits == true ]] || kill "$host" 2>/dev/null || true
	poll_until 120 has_ended "$host" || kill -KILL "$host"
	poll_until 120 has_ended "$exporter" || true
	kill "$watcher" 2>/dev/null || true
	row "$what" "$first" "$later" "$WATCH_S" "$WORK/memory"
}

# Prints a program whose functions are in units with that much debug information together, each mostly types, as in
# real programs.
make_debug()
{
	local units=320 structs unit

	structs=$((DEBUG_MIB * 1024 * 1024 / units / 66))
	{
		for ((i = 0; i < structs; i++)); do
			echo "struct s$i { int a; long b; struct s$i *next; char text[$((i % 50 + 1))]; };"
		done
		echo 'unsigned work(unsigned n) { unsigned s = 1; while (n--) s = s * 31 + n; return s; }'
	} >"$WORK/unit.c"
	gcc -O2 -g -fno-eliminate-unused-debug-types -c -o "$WORK/unit.o" "$WORK/unit.c"
	{
		echo '#include "preload/spanprof.h"'
		for ((unit = 0; unit < units; unit++)); do
			objcopy --redefine-sym work=work_$unit "$WORK/unit.o" "$WORK/unit_$unit.o"
			echo "unsigned work_$unit(unsigned n);"
		done
		echo "static unsigned (*const work[])(unsigned) = {"
		for ((unit = 0; unit < units; unit++)); do echo "work_$unit,"; done
		echo '};'
		echo 'volatile unsigned sum;'
		echo "int main(void) { for (unsigned i = 0;; i++) sum += work[i % $units](1000000); }"
	} >"$WORK/large.c"
	gcc -O1 -I. -o "$WORK/large" "$WORK/large.c" "$WORK"/unit_*.o
	rm -f "$WORK"/unit*
}

table()
{
	local size ms form

	echo '| beside | CPU time until 20 s after the host was ready | of a processor after that | resident at most | of it in no file |'
	echo '|---|---|---|---|---|'
	beside 'one process with two busy threads, sampled at 100 Hz' false build/test/hosts/spans 600000
	beside '300 idle processes' true build/test/hosts/family 300
	beside '1,000 idle threads' true env SPANPROF_PROFILE=always "$BENCH/threads" idle 1000
	mkdir "$WORK/stacks"
	"$BENCH/export" stacks $STACKS $((FIRST_S + WATCH_S)) "$WORK/stacks" >"$WORK/ms" &
	watch_memory $! "$WORK/memory"
	row 'a ring with 10,000 new stacks of 64 frames in each second (no host)' '' "$(<"$WORK/ms")" \
		$((FIRST_S + WATCH_S)) "$WORK/memory"
	make_debug
	size=$(stat -c %s "$WORK/large")
	beside "a process with $((size >> 20)) MiB of debug information in 320 units, all in use" false \
		env SPANPROF_PROFILE=always "$WORK/large"
	rm -f "$WORK/large"
	echo
	mkdir "$WORK/many"
	"$BENCH/export" profiles "$WORK/many" "$PROFILES_MIB"
	echo "| spanprof-report, of $PROFILES_MIB MiB of profiles ($(find "$WORK/many" -type f | wc -l) files) | CPU time | resident at most |"
	echo '|---|---|---|'
	for form in '' --json --folded "--flamegraph $WORK/flame.html"; do
		# shellcheck disable=SC2086
		read -r size ms < <(python3 test/bench/peak.py build/spanprof-report $form "$WORK/many")
		awk -v what="${form%% *}" -v ms="$ms" -v kib="$size" 'BEGIN {
			printf "| %s | %.2f s | %.0f MiB |\n", what == "" ? "tables" : "`" what "`", ms / 1000, kib / 1024 }'
	done
}

table >"$BENCH/exporter.md"
cat "$BENCH/exporter.md"
