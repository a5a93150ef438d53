#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs of Debian, unmodified, at 1,000 Hz from their start: at least 99.9 % of the samples, with 95 % confidence,
# are unwound to the beginning of their thread. Each program is given work until there are SPANPROF_CORPUS_SAMPLES.
# Prints a row of README.md's table for each, which it also writes there, and below it every kind of stack that is not
# unwound.
# With --waits the same for waits (SPANPROF_OFF_CPU), without a minimum number: each thread is labelled from its
# begin, and waiting.bash has the waits of a program. No share is required. Usage: rooted.sh [--waits]
# [NAME...|--table]; --table only updates the table.
readonly SAMPLES=${SPANPROF_CORPUS_SAMPLES:-10000}
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/corpus/common.bash
source test/corpus/common.bash
# shellcheck source=test/corpus/servers.bash
source test/corpus/servers.bash
# shellcheck source=test/corpus/programs.bash
source test/corpus/programs.bash
# shellcheck source=test/corpus/waiting.bash
source test/corpus/waiting.bash

TABLE=rooted
if [[ ${1:-} == --waits ]]; then
	TABLE=waits
	shift
fi
readonly ROUNDS_MAX=400
readonly ROWS=$TEST_BUILD/corpus/$TABLE
PROFILED=(SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_FLUSH_TIMEOUT=30s
	SPANPROF_STACK_DEPTH=496 SPANPROF_SYMBOLIZE=names SPANPROF_UPLOAD_INTERVAL=5s)

LIBRARIES=$SO
JUDGE=judge
if [[ $TABLE == waits ]]; then
	JUDGE=waits
	LIBRARIES="$TEST_BUILD/test/liblabelled.so $SO"
	PROFILED=(SPANPROF_OFF_CPU=true SPANPROF_FLUSH_TIMEOUT=30s SPANPROF_STACK_DEPTH=496 SPANPROF_SYMBOLIZE=names
		SPANPROF_UPLOAD_INTERVAL=5s)
fi

# rounds NAME COMMAND...: runs the command until there are enough samples.
rounds()
{
	local name=$1

	shift
	for ((ROUND = 1; ROUND <= ROUNDS_MAX; ROUND++)); do
		"$@" "$ROUND" >"$WORK/$name.load" 2>&1 || {
			tail -5 "$WORK/$name.load"
			bad "$name: round $ROUND"
			return
		}
		if python3 "$CORPUS/stacks.py" enough "$WORK/$name.profiles" "${PROCESS[$name]}" "$SAMPLES"; then
			return
		fi
	done
	bad "$name: too few samples in $ROUNDS_MAX rounds"
}

# run_words WORDS ROUND
run_words()
{
	(cd "$DATA" && env "${UNDER[@]:1}" ROUND="$2" CORPUS="$CORPUS" ROOT="$ROOT" \
		bash -c "unset BASH_ENV; $1")
}

# Servers wait for a moment before and after their work.
wait_of()
{
	local name=$1

	if [[ -v WAITING[$name] ]]; then
		run_words "$SLOW; ${WAITING[$name]}" 1
		return
	fi
	"start_$name"
	sleep 1
	"load_$name" 1
	sleep 1
	"stop_$name"
}

rooted()
{
	local name=$1
	local server=${name%_jit}

	mkdir "$WORK/$name.profiles"
	chmod 777 "$WORK/$name.profiles"
	UNDER=(env LD_PRELOAD="$LIBRARIES" "${PROFILED[@]}" SPANPROF_OUTPUT_DIR="$WORK/$name.profiles")
	if [[ $TABLE == waits ]]; then
		wait_of "$name" >"$WORK/$name.load" 2>&1 || bad "$name: $(tail -5 "$WORK/$name.load")"
	elif [[ -v WORDS[$name] ]]; then
		rounds "$name" run_words "${WORDS[$name]}"
	else
		[[ $server == "$name" ]] || PG_JIT=on
		"start_$server"
		rounds "$name" "load_$server"
		"stop_$server"
		PG_JIT=off
	fi
	python3 "$CORPUS/stacks.py" "$JUDGE" "$WORK/$name.profiles" "${PROCESS[$name]}" \
		"${TITLE[$name]:-$name}" "$(version "${PACKAGE[$name]}")" "$SAMPLES" \
		>"$WORK/row" 2>"$WORK/why" || bad "$name: see below"
	cat "$WORK/row" "$WORK/why"
	cp "$WORK/row" "$ROWS/$name"
	rm -rf "$WORK/$name.profiles"
}

# The rows of this run and of earlier ones.
table()
{
	local name
	local head='| program | version | samples | not rooted | rooted, at least (95 %) | through generated code | not rooted |'

	[[ $TABLE != waits ]] ||
		head='| program | version | waits with a stack | not rooted | through generated code | not rooted |'
	echo "$head"
	sed -E 's/[^|]+/---/g' <<<"$head"
	for name in "${ROOTED[@]}"; do
		[[ ! -e $ROWS/$name ]] || cat "$ROWS/$name"
	done
}

write_table()
{
	table >"$WORK/table"
	between "$TABLE" "$WORK/table" "$CORPUS/README.md"
}

if [[ ${1:-} == --table ]]; then
	write_table
	exit 0
fi
names=("$@")
if ((${#names[@]} == 0)); then
	for name in "${ROOTED[@]}"; do
		# A program's waits do not depend on code that it compiles while it runs.
		[[ $TABLE == waits && $name == *_jit ]] || names+=("$name")
	done
fi
mkdir -p "$ROWS"
make_data 1000
for name in "${names[@]}"; do
	rooted "$name"
done
write_table
((failures == 0)) || fail "$failures"
