#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What profiles of allocations cost: a pair of malloc() and free(), a sample, and the CPU time of a compiler and of
# redis, beside gperftools' heap profiler, jemalloc's and heaptrack, as far as they are installed. All take turns.
# BENCH_ALLOC_ROUNDS=n makes another number of rounds than 7.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly ROUNDS=${BENCH_ALLOC_ROUNDS:-7}
readonly ALLOC_OBJECT=${OBJECT%/*}/libspanprof-alloc.so
readonly OURS=(SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK" SPANPROF_LOG_LEVEL=none
	LD_PRELOAD="$OBJECT:$ALLOC_OBJECT")
readonly TCMALLOC=libtcmalloc.so.4 JEMALLOC=libjemalloc.so.2 HEAPTRACK=/usr/lib/heaptrack/libheaptrack_preload.so

# Several measurements, the least of each: what the machine does besides only adds.
least()
{
	sort -n | sed -n 1p
}

# pair [VARIABLE=VALUE]... BYTES PAIRS: nanoseconds of one.
pair()
{
	local i

	for ((i = 0; i < 3; i++)); do env "${@:1:$#-2}" "$BENCH/allocs" "${@: -2}"; done | least
}

plain=$(pair 64 2000000)
for mode in off on; do
	value=$([[ $mode == off ]] && echo false || echo true)
	took=$(pair "${OURS[@]}" SPANPROF_ALLOC="$value" 64 2000000)
	more=$(awk -v a="$took" -v b="$plain" 'BEGIN { printf "%.1f", a - b }')
	echo "a pair of malloc() and free() of 64 bytes: $plain ns; with the second object, profile $mode: $took ns"
	answer "malloc() and free() with libspanprof-alloc.so, profile $mode, more than without" "$more" ns 3
done
# Nearly every block is sampled.
plain=$(pair 65536 20000)
took=$(pair "${OURS[@]}" SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL=1024 65536 20000)
more=$(awk -v a="$took" -v b="$plain" 'BEGIN { printf "%.0f", a - b }')
echo "a block of which a sample is taken: $more ns more"
answer "a sample of an allocation" "$more" ns 2000

ways()
{
	echo 'without|'
	echo "spanprof, no allocations|${OURS[*]} SPANPROF_ALLOC=false"
	echo "spanprof|${OURS[*]} SPANPROF_ALLOC=true"
	[[ $(ldconfig -p) != *"$TCMALLOC"* ]] || {
		echo "tcmalloc|LD_PRELOAD=$TCMALLOC"
		echo "gperftools|LD_PRELOAD=$TCMALLOC HEAPPROFILE=$WORK/gperftools"
	}
	[[ $(ldconfig -p) != *"$JEMALLOC"* ]] || {
		echo "jemalloc|LD_PRELOAD=$JEMALLOC"
		env LD_PRELOAD=$JEMALLOC MALLOC_CONF=prof:true true 2>&1 | grep -q . ||
			echo "jemalloc's profile|LD_PRELOAD=$JEMALLOC MALLOC_CONF=prof:true,prof_prefix:$WORK/jeprof,prof_final:true"
	}
	[[ ! -e $HEAPTRACK ]] || echo "heaptrack|LD_PRELOAD=$HEAPTRACK DUMP_HEAPTRACK_OUTPUT=$WORK/heaptrack"
}

# seconds COMMAND...: its CPU time.
seconds()
{
	local TIMEFORMAT='%U %S'

	{ time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ print $1 + $2 }'
}

# What a server allocates; CPU time of the server alone.
redis()
{
	local pid ticks

	env "$@" redis-server --port 0 --unixsocket "$WORK/redis.sock" --save '' >"$WORK/redis.log" 2>&1 &
	pid=$!
	until redis-cli -s "$WORK/redis.sock" ping >/dev/null 2>&1; do sleep 0.05; done
	redis-benchmark -s "$WORK/redis.sock" -q -n 100000 -P 16 -r 100000 -t set,lpush,hset,zadd >/dev/null
	ticks=$(awk '{ print $14 + $15 }' "/proc/$pid/stat")
	redis-cli -s "$WORK/redis.sock" shutdown nosave >/dev/null 2>&1 || true
	wait "$pid" || true
	awk -v ticks="$ticks" -v hz="$(getconf CLK_TCK)" 'BEGIN { print ticks / hz }'
}

# compare WHAT COMMAND...: the CPU time of all ways, in turn. Rows "way|seconds" in WHAT.
compare()
{
	local what=$1 round way settings
	local -a variables

	shift
	for ((round = 0; round < ROUNDS; round++)); do
		while IFS='|' read -r way settings; do
			read -ra variables <<<"$settings"
			echo "$way|$("$@" "${variables[@]}" </dev/null)"
		done < <(ways)
	done >"$WORK/$what.all"
	ways | while IFS='|' read -r way _; do
		echo "$way|$(awk -F'|' -v way="$way" '$1 == way { print $2 }' "$WORK/$what.all" | least)"
	done >"$WORK/$what"
	echo "CPU time of $what, the least of $ROUNDS rounds:"
	awk -F'|' 'NR == 1 { plain = $2 } { base = plain
		if ($1 == "gperftools") base = of["tcmalloc"]
		if ($1 == "jemalloc'"'"'s profile") base = of["jemalloc"]
		of[$1] = $2
		printf "  %-25s %7.2f s  %+6.1f %% of %s\n", $1, $2, 100 * ($2 / base - 1),
			(base == plain ? "none" : "its allocator alone") }' "$WORK/$what" | tee "$WORK/$what.percent"
}

# percent WHAT WAY
percent()
{
	sed -n "s/^  $2  *[0-9.]* s *\([-+0-9.]*\) %.*/\1/p" "$WORK/$1.percent" | tr -d +
}

# Below each of the others.
judge()
{
	local what=$1 other figure target

	figure=$(percent "$what" spanprof)
	for other in gperftools "jemalloc's profile" heaptrack; do
		target=$(percent "$what" "$other")
		[[ -z $target ]] || answer "allocations of $what, CPU time more than without a profile, beside $other" \
			"$figure" % "$target"
	done
}

compiler=$(gcc -print-prog-name=cc1plus)
if [[ -x $compiler ]]; then
	printf '#include <%s>\n' map string vector >"$WORK/source.cc"
	echo 'std::map<std::string, std::vector<std::string>> all; void put(const std::string &s) { all[s].push_back(s); }' >>"$WORK/source.cc"
	g++ -E -o "$WORK/source.i" "$WORK/source.cc"
	one_compilation() { seconds env "$@" "$compiler" -quiet -O1 -fpreprocessed -o /dev/null "$WORK/source.i"; }
	compare 'a compiler' one_compilation
	judge 'a compiler'
fi
if command -v redis-server redis-benchmark redis-cli >/dev/null; then
	compare redis redis
	judge redis
fi
