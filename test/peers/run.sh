#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs test suites of other projects without us and with us at 1,000 Hz from the start of every process:
#   test/peers/run.sh [python|libuv|redis|postgresql|posix|leveldb]...
# A test that passes without us and fails with us is run three times more both ways, alone. It counts as new if it
# fails in most of the runs with us and passes in all without. Ends in a table, which is written to
# test/peers/README.md when all suites were run. Exit status 1 if there is a new failure.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly ROOT=$PWD
readonly SO=$ROOT/build/libspanprof.so
readonly WORK=$ROOT/build/peers
readonly AGAIN=3
# With PEERS_ALLOC=1 allocations are sampled, too, more often than by default.
if [[ ${PEERS_ALLOC:-} == 1 ]]; then
	export SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL=65536
	readonly OBJECTS=$SO:$ROOT/build/libspanprof-alloc.so TABLE=peers-alloc ALL=(python redis leveldb)
else
	readonly OBJECTS=$SO TABLE=peers ALL=(python libuv redis postgresql posix)
fi
# shellcheck source=test/peers/suites.bash
source test/peers/suites.bash

# under_us COMMAND...: with LOG_LEVEL none, because suites compare their programs' output.
under_us()
{
	LD_PRELOAD=$OBJECTS SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_LOG_LEVEL=none \
		SPANPROF_UPLOAD_INTERVAL=5s SPANPROF_OUTPUT_DIR=$WORK/profiles "$@"
}

# measured plain|under SUITE: writes SUITE.plain.log or SUITE.under.log, and the same with .cpu, see cpu.py.
measured()
{
	local name=$2.$1

	"$PYTHON" test/peers/cpu.py "$WORK/$name.cpu" bash test/peers/run.sh --all-of "$@" \
		>"$WORK/$name.log" 2>&1 </dev/null || true
}

# all_of plain|under SUITE: the command for measured().
all_of()
{
	if [[ $1 == under ]]; then
		under_us "${2}_all"
	else
		"${2}_all"
	fi
}

# ratio NAME: the CPU time with us divided by that without.
ratio()
{
	awk 'NR == FNR { without = $1; next } { printf "%.2f", (without > 0 ? $1 / without : 0) }' \
		"$WORK/$1.plain.cpu" "$WORK/$1.under.cpu"
}

# outcome NAME: the result of one more run of a single test, "ok" or "fail".
outcome()
{
	local how=$1 suite=$2 test=$3

	if [[ $how == under ]]; then
		LIMIT_S=600 under_us "${suite}_one" "$test" >"$WORK/$suite.again.log" 2>&1 </dev/null &&
			echo ok || echo fail
	else
		LIMIT_S=600 "${suite}_one" "$test" >"$WORK/$suite.again.log" 2>&1 </dev/null && echo ok || echo fail
	fi
}

# Prints those tests on stdin that fail with us and not without.
confirm()
{
	local suite=$1 test bad plain

	while IFS= read -r test; do
		bad=0 plain=0
		for ((i = 0; i < AGAIN; i++)); do
			[[ $(outcome plain "$suite" "$test") == ok ]] || plain=$((plain + 1))
			[[ $(outcome under "$suite" "$test") == ok ]] || bad=$((bad + 1))
		done
		echo "  $test: fails with us in $bad of $AGAIN runs more, without us in $plain" >&2
		if ((plain == 0 && 2 * bad > AGAIN)); then
			echo "$test"
		fi
	done
}

# One line of the table.
suite()
{
	local name=$1 tests passed only new

	echo "peers: $name: getting it" >&2
	"${name}_get"
	echo "peers: $name: without us" >&2
	measured plain "$name"
	"${name}_results" "$WORK/$name.plain.log" >"$WORK/$name.plain.results"
	echo "peers: $name: with us" >&2
	measured under "$name"
	"${name}_results" "$WORK/$name.under.log" >"$WORK/$name.under.results"
	tests=$(wc -l <"$WORK/$name.plain.results")
	passed=$(grep -c '^ok ' "$WORK/$name.plain.results" || true)
	((passed > 0)) || {
		tail -n 20 "$WORK/$name.plain.log" >&2
		echo "peers: $name: no test passes without us" >&2
		exit 2
	}
	# Also tests that print no result any more.
	comm -23 <(sed -n 's/^ok //p' "$WORK/$name.plain.results" | sort) \
		<(sed -n 's/^ok //p' "$WORK/$name.under.results" | sort) >"$WORK/$name.only"
	only=$(wc -l <"$WORK/$name.only")
	confirm "$name" <"$WORK/$name.only" >"$WORK/$name.new"
	new=$(wc -l <"$WORK/$name.new")
	printf '| %s | %s | %d of %d | %d | %d | %s |\n' "$name" "$("${name}_version")" "$passed" "$tests" \
		"$only" "$new" "$(ratio "$name")"
	sed 's/^/| | new: | `/; s/$/` | | | |/' "$WORK/$name.new"
	failed=$((failed + new))
}

main()
{
	local name failed=0
	local -a wanted=("$@")

	((${#wanted[@]} > 0)) || wanted=("${ALL[@]}")
	mkdir -p "$WORK/profiles"
	for name in "${wanted[@]}"; do
		declare -F "${name}_all" >/dev/null || {
			echo "peers: no such suite: $name (there are: ${ALL[*]})" >&2
			exit 2
		}
	done
	{
		echo '| suite | version | pass without us | of these fail once with us | and again: new failures | CPU time, with us to without |'
		echo '|---|---|---|---|---|---|'
		for name in "${wanted[@]}"; do
			suite "$name"
		done
	} >"$WORK/table"
	cat "$WORK/table"
	if [[ ${wanted[*]} == "${ALL[*]}" ]]; then
		awk -v marker="$TABLE" -v file="$WORK/table" -f scripts/between.awk test/peers/README.md >"$WORK/README.md"
		cp "$WORK/README.md" test/peers/README.md
	fi
	((failed == 0))
}

if [[ ${1-} == --all-of ]]; then
	all_of "$2" "$3"
else
	main "$@"
fi
