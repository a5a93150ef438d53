#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The CPU time that sampling at 100 Hz adds to a compilation by clang, compared with gperftools in turns: measured
# inside the compiler, and as the difference to a compilation without us. BENCH_COMPILES=n makes another number of
# rounds than 7, at least 6; BENCH_PARTS=n another source than one that takes ten seconds.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly ROUNDS=${BENCH_COMPILES:-7} PARTS=${BENCH_PARTS:-25}
readonly TARGET_PERCENT=0.3
readonly PERFTOOLS=libprofiler.so.0
((ROUNDS >= 6)) || { echo 'compile: BENCH_COMPILES: fewer than 6 rounds say nothing for sure' >&2; exit 1; }
readonly INSIDE=$PWD/$BENCH/libinside.so

# The compiler itself, not a launcher with its name.
find_compiler()
{
	local path

	while read -r path; do
		[[ $(realpath "$path") =~ /(cc|scc|dist)[^/]*$ ]] || { echo "$path"; return; }
	done < <(type -aP clang++ clang++-14)
	return 1
}

compiler=$(find_compiler) || {
	echo 'no clang++ here: CPU overhead of a compilation not measured'
	exit 0
}

# A program that uses the standard library: one copy of it per part.
source_code()
{
	local i

	printf '#include <%s>\n' algorithm functional map memory set string unordered_map vector
	for ((i = 0; i < PARTS; i++)); do
		sed "s/PART/part$i/" <<'END'
namespace PART {
struct key {
	long number;
	std::string text;
	bool operator<(const key &o) const { return number != o.number ? number < o.number : text < o.text; }
};
std::map<key, std::vector<std::string>> index;
bool find(const std::string &s, std::set<key> &out)
{
	std::unordered_map<std::string, std::shared_ptr<key>> seen;
	std::vector<key> all;
	for (auto &entry : index)
		for (auto &text : entry.second)
			if (text.find(s) != text.npos &&
			    seen.emplace(text, std::make_shared<key>(entry.first)).second)
				all.push_back(entry.first);
	std::sort(all.begin(), all.end(), [](const key &x, const key &y) { return y < x; });
	std::function<void(const key &)> add = [&out](const key &k) { out.insert(k); };
	std::for_each(all.begin(), all.end(), add);
	return !out.empty();
}
}
END
	done
}

ways()
{
	local ours="LD_PRELOAD=$INSIDE:$OBJECT SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR=$WORK"

	echo "without a profiler|LD_PRELOAD=$INSIDE"
	echo "spanprof|$ours"
	# Like gperftools, which leaves names to another tool: samples are taken and drained, then thrown away.
	echo "spanprof, sampling alone|$ours SPANPROF_UPLOAD_INTERVAL=10m SPANPROF_FLUSH_TIMEOUT=0"
	[[ $(ldconfig -p) != *"$PERFTOOLS"* ]] || echo "gperftools|LD_PRELOAD=$INSIDE:$PERFTOOLS \
CPUPROFILE=$WORK/perftools CPUPROFILE_FREQUENCY=100"
}

source_code >"$WORK/source.cc"
ways | BENCH_INSIDE=$WORK/inside "$BENCH/cpu" "$ROUNDS" "$compiler" -O2 -std=c++17 -c -o /dev/null \
	"$WORK/source.cc" >"$WORK/ways" 2>"$WORK/stderr" || {
	cat "$WORK/stderr" >&2
	exit 1
}
awk -F'|' '$1 != "without a profiler" && $7 == 0 {
	print "compile.sh: " $1 ": its signal handler was never seen in the compiler" >"/dev/stderr"
	bad = 1
}
END { exit bad }' "$WORK/ways"
echo "CPU time of clang++ -O2 at 100 Hz, medians of $ROUNDS rounds; what is in brackets holds the true"
echo 'median with 95 % confidence. Accounted for inside the compiler: time in the signal handler, delivery'
echo "of the signals, and the profiler's own thread or process, which names and writes:"
awk -F'|' '
$7 > 0 {
	printf "  %-25s %5d samples x (%.1f us + %.1f us) = %.2f %%  [%.2f, %.2f]", $1, $7, $8, $9, $10, $11, $12
	printf "; beside it %.1f ms; all %.2f %%  [%.2f, %.2f]\n", $13, $14, $15, $16
}' "$WORK/ways"
echo 'As the difference to a compilation without a profiler, with all that one does to caches:'
awk -F'|' '{ printf "  %-25s %7.0f ms  %+7.1f ms  %+6.2f %%  [%+.2f, %+.2f]\n", $1, $2, $3, $4, $5, $6 }' \
	"$WORK/ways"

# figures LABEL FIELD: a percentage and its two bounds
figures()
{
	awk -F'|' -v label="$1" -v n="$2" '$1 == label { print $n, $(n + 1), $(n + 2) }' "$WORK/ways"
}
readonly OF_ALL=4 OF_SAMPLING=10 OF_ACCOUNT=14
# judge LABEL FIELD TARGET QUESTION
judge()
{
	local percent from to

	read -r percent from to < <(figures "$1" "$2") || return 0
	echo "  $4: $(answer "$4" "$(printf %.2f "$percent")" % "$3" "$from" "$to")"
}
# Signals, handler and delivery, without one-time costs.
judge spanprof $OF_SAMPLING $TARGET_PERCENT 'CPU overhead of a compilation by clang at 100 Hz, sampling alone'
half=$(figures gperftools $OF_SAMPLING | awk '{ printf "%.3f", $1 / 2 }')
[[ -z $half ]] || judge spanprof $OF_SAMPLING "$half" '... beside half of what the same takes with gperftools'
judge spanprof $OF_ACCOUNT $TARGET_PERCENT '... and what the exporter takes once for each process: naming, writing'
judge 'spanprof, sampling alone' $OF_ALL $TARGET_PERCENT '... sampling alone, as the difference of CPU times'
judge spanprof $OF_ALL $TARGET_PERCENT '... all, as the difference of CPU times'
