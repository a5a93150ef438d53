#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The cost of allocation profiles: a pair of malloc() and free(), a sample, and a compiler and redis, compared with
# gperftools' heap profiler, jemalloc's and heaptrack, if they are installed. All take turns, and CPU times are
# compared within a round; BENCH_ALLOC_ROUNDS=n makes another number of rounds than 7. A separate, shorter run counts
# instructions under valgrind: a compiler's instructions do not depend on other load.
set -euo pipefail
cd "$(dirname "$0")/../.."
# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash

readonly ROUNDS=${BENCH_ALLOC_ROUNDS:-7}
readonly ALLOC_OBJECT=${OBJECT%/*}/libspanprof-alloc.so
readonly OURS=(SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK" SPANPROF_LOG_LEVEL=none
	LD_PRELOAD="$OBJECT:$ALLOC_OBJECT")
readonly TCMALLOC=libtcmalloc.so.4 JEMALLOC=libjemalloc.so.2 HEAPTRACK=/usr/lib/heaptrack/libheaptrack_preload.so

# Several measurements, the least of each: other load on the machine only adds.
least()
{
	sort -n | sed -n 1p
}

# pair [VARIABLE=VALUE]... BYTES PAIRS: nanoseconds of one pair.
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

# consumed COMMAND...: the CPU time of the program and its exporter.
consumed()
{
	python3 test/peers/cpu.py "$WORK/cpu" "$@" >"$WORK/said" 2>&1 || true
	cat "$WORK/cpu"
}

# counted COMMAND...: instructions of the program alone, without CPU samples, which would be far too frequent in a
# program that runs so slowly.
counted()
{
	SPANPROF_SAMPLE_RATE=1 valgrind --tool=callgrind --callgrind-out-file="$WORK/callgrind.%p" --trace-children=yes \
		--trace-children-skip='*spanprof-exporter*' "$@" 2>&1 >/dev/null |
		sed -n 's/.*Collected : //p' | sort -n | tail -n 1
}

# compiler HOW SOURCE [VARIABLE=VALUE]...
compiler()
{
	"$1" env "${@:3}" "$(gcc -print-prog-name=cc1plus)" -quiet -O1 -fpreprocessed -o /dev/null "$2"
}

# The allocations of a server: redis HOW REQUESTS [VARIABLE=VALUE]...
redis()
{
	local pid

	"$1" env "${@:3}" redis-server --port 0 --unixsocket "$WORK/redis.sock" --save '' >"$WORK/redis.result" &
	pid=$!
	until redis-cli -s "$WORK/redis.sock" ping >/dev/null 2>&1; do sleep 0.05; done
	redis-benchmark -s "$WORK/redis.sock" -q -n "$2" -P 16 -r 100000 -t set,lpush,hset,zadd >/dev/null
	redis-cli -s "$WORK/redis.sock" shutdown nosave >/dev/null 2>&1 || true
	wait "$pid" || true
	cat "$WORK/redis.result"
}

# all_ways FILE COMMAND...: a line "way|output of the command" for each way, in turn.
all_ways()
{
	local way settings
	local -a variables

	while IFS='|' read -r way settings; do
		read -ra variables <<<"$settings"
		# heaptrack's output stays empty under valgrind.
		[[ "$3 $way" != "counted heaptrack" ]] || continue
		echo "$way|$("${@:2}" "${variables[@]}" </dev/null)"
	done < <(ways) >>"$1"
}

# compare PROGRAM LONG FEW MANY: CPU times of LONG, and the instructions that MANY takes more than FEW, without those
# of start and end. Each profile is compared with the same tool with its profile switched off, whose allocator may
# already count, and with the program without any tool. Writes lines "way|CPU seconds|more than off, %|more than
# without, %|instructions|more than off, %|more than without, %" to PROGRAM, and for the rounds "way|from|to" to
# PROGRAM.rounds: the interval of the points by which our additional time exceeds that way's; the additional time of a
# tool is relative to the tool switched off.
compare()
{
	local round

	for ((round = 0; round < ROUNDS; round++)); do
		all_ways "$WORK/$1.cpu" "$1" consumed "$2"
	done
	touch "$WORK/$1.few" "$WORK/$1.many"
	if command -v valgrind >/dev/null; then
		all_ways "$WORK/$1.few" "$1" counted "$3"
		all_ways "$WORK/$1.many" "$1" counted "$4"
	fi
	python3 test/bench/allocs.py "$WORK/$1"
	echo "$1: CPU time, median of $ROUNDS rounds, exporter included; instructions without start and end; more than switched off, and than without"
	awk -F'|' '{ printf "  %-25s %7.2f s  %+8.1f %% %+8.1f %%", $1, $2, $3, $4 }
		$5 != "" { printf "  %8.1f million instructions  %+8.2f %% %+8.2f %%", $5 / 1e6, $6, $7 } { print "" }' "$WORK/$1"
}

# The target is the least of the other profilers. judge PROGRAM NAME [COLUMN|QUESTION]...
judge()
{
	local other column question target from to

	while IFS='|' read -r column question; do
		read -r target other < <(for other in gperftools "jemalloc's profile" heaptrack; do
			echo "$(figure "$1" "$other" "$column") $other"
		done | grep '^[-0-9]' | sort -n) || continue
		from=0 to=0
		[[ $column != 3 ]] || read -r from to <<<"$(figure "$1.rounds" "$other" 2) $(figure "$1.rounds" "$other" 3)"
		answer "allocations of $2 in a profile, $question than with it switched off, beside $other" \
			"$(figure "$1" spanprof "$column")" % "$target" "$(sum "$target" "$from")" "$(sum "$target" "$to")"
	done < <(printf '%s\n' "${@:3}")
}

sum()
{
	awk -v a="$1" -v b="$2" 'BEGIN { print a + b }'
}

# figure PROGRAM WAY COLUMN
figure()
{
	awk -F'|' -v way="$2" -v column="$3" '$1 == way { print $column }' "$WORK/$1" | tr -d +
}

if [[ -x $(gcc -print-prog-name=cc1plus) ]]; then
	: >"$WORK/none.cc"
	printf '#include <%s>\n' string >"$WORK/short.cc"
	printf '#include <%s>\n' map string vector >"$WORK/long.cc"
	echo 'std::map<std::string, std::vector<std::string>> all; void put(const std::string &s) { all[s].push_back(s); }' >>"$WORK/long.cc"
	for source in none short long; do g++ -E -o "$WORK/$source.i" "$WORK/$source.cc"; done
	compare compiler "$WORK/long.i" "$WORK/none.i" "$WORK/short.i"
	judge compiler 'a compiler' '6|more instructions' '3|more CPU time'
fi
if command -v redis-server redis-benchmark redis-cli >/dev/null; then
	compare redis 100000 16 5000
	# Its instructions depend on when requests come: two equal runs differ by a point and more.
	judge redis redis '3|more CPU time'
fi
