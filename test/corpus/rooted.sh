#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs of Debian, unmodified, at 1,000 Hz from their start: at least 99.9 % of the samples, with
# 95 % confidence, are unwound to the beginning of their thread. Each program is given work until there
# are SPANPROF_CORPUS_SAMPLES. Prints a row of README.md's table for each, which it also puts there,
# and below it every kind of stack that is not.
# Usage: rooted.sh [NAME...|--table], the last to do no more than that.
readonly SAMPLES=${SPANPROF_CORPUS_SAMPLES:-10000}
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/corpus/common.bash
source test/corpus/common.bash
# shellcheck source=test/corpus/servers.bash
source test/corpus/servers.bash
# shellcheck source=test/corpus/programs.bash
source test/corpus/programs.bash

readonly ROUNDS_MAX=400
readonly ROWS=$TEST_BUILD/corpus
PROFILED=(SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_FLUSH_TIMEOUT=30s
	SPANPROF_STACK_DEPTH=496 SPANPROF_SYMBOLIZE=names SPANPROF_UPLOAD_INTERVAL=5s)

# rounds NAME COMMAND...: gives it work until there are enough samples.
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

run_words()
{
	(cd "$DATA" && env "${UNDER[@]:1}" ROUND="$2" CORPUS="$CORPUS" ROOT="$ROOT" \
		bash -c "unset BASH_ENV; ${WORDS[$1]}")
}

rooted()
{
	local name=$1
	local server=${name%_jit}

	mkdir "$WORK/$name.profiles"
	chmod 777 "$WORK/$name.profiles"
	UNDER=(env LD_PRELOAD="$SO" "${PROFILED[@]}" SPANPROF_OUTPUT_DIR="$WORK/$name.profiles")
	if [[ -v WORDS[$name] ]]; then
		rounds "$name" run_words "$name"
	else
		[[ $server == "$name" ]] || PG_JIT=on
		"start_$server"
		rounds "$name" "load_$server"
		"stop_$server"
		PG_JIT=off
	fi
	python3 "$CORPUS/stacks.py" judge "$WORK/$name.profiles" "${PROCESS[$name]}" \
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

	echo '| program | version | samples | not rooted | rooted, at least (95 %) | through generated code | not rooted |'
	echo '|---|---|---|---|---|---|---|'
	for name in "${ROOTED[@]}"; do
		[[ ! -e $ROWS/$name ]] || cat "$ROWS/$name"
	done
}

write_table()
{
	table >"$WORK/table"
	between rooted "$WORK/table" "$CORPUS/README.md"
}

if [[ ${1:-} == --table ]]; then
	write_table
	exit 0
fi
names=("$@")
((${#names[@]} > 0)) || names=("${ROOTED[@]}")
mkdir -p "$ROWS"
make_data 1000
for name in "${names[@]}"; do
	rooted "$name"
done
write_table
((failures == 0)) || fail "$failures"
