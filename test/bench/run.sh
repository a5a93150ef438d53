#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The cost of the profiler, measured side by side in this run: hosts with and without it take turns. BENCH_ROUNDS=n
# takes n rounds instead of 201. Ends with a table of all answers, which is also written to
# build/test/bench/answers.md.
set -euo pipefail
cd "$(dirname "$0")/../.."

# shellcheck source=test/bench/lib.bash
source test/bench/lib.bash
readonly ROUNDS=${BENCH_ROUNDS:-201}
readonly PAIRS=1000
# Targets in percent of the SDK's own pair: switched off, without attributes, and with one on each span or, the
# default, on spans with samples. And in ns, for our own part.
readonly TARGET_OFF=2 TARGET_NEVER=10 TARGET_ALWAYS=40 TARGET_NS=60
out=$WORK
export BENCH_ANSWERS=$WORK/answers

# "label|environment" of a host that is profiled with these settings. The folder alone would have it list slow roots.
profiled()
{
	echo "$1|OTELC_PROCESSOR=drop LD_PRELOAD=$OBJECT SPANPROF_OUTPUT_DIR=$out SPANPROF_SLOW=off ${*:2}"
}

# All settings. The results are compared with those of the first line.
settings()
{
	local mode scope

	echo "without us|OTELC_PROCESSOR=drop"
	profiled "switched off" SPANPROF_DISABLED=true
	for scope in root all; do
		for mode in never with-samples always; do
			profiled "$scope, $mode" SPANPROF_ATTRIBUTES=$mode SPANPROF_SPAN_ID_SCOPE=$scope
		done
	done
}

# The cost of an attribute that the SDK's user sets, and of options for a span.
more_settings()
{
	echo "without us|OTELC_PROCESSOR=drop"
	echo "without us, attribute|OTELC_PROCESSOR=drop BENCH_ATTRIBUTE=http.route"
	profiled "root, never" SPANPROF_ATTRIBUTES=never
	profiled "default" SPANPROF_ATTRIBUTES=with-samples
	profiled "attribute" BENCH_ATTRIBUTE=http.route
	profiled "label" SPANPROF_SPAN_LABELS=http.route BENCH_ATTRIBUTE=http.route
	profiled "published" SPANPROF_ATTRIBUTES=never SPANPROF_THREAD_CONTEXT=true
	profiled "with waits" SPANPROF_ATTRIBUTES=never SPANPROF_OFF_CPU=true
	profiled "CPU time of roots" SPANPROF_SPAN_CPU_TIME=true SPANPROF_ATTRIBUTES=always
	profiled "slow roots" SPANPROF_ATTRIBUTES=with-samples SPANPROF_SLOW=auto
	profiled "times of roots" SPANPROF_SPAN_TIMES=true SPANPROF_ATTRIBUTES=always
	profiled "root, always" SPANPROF_ATTRIBUTES=always
}

few_settings()
{
	settings | grep -E '^(without us|root, never)'
}

table()
{
	awk -F'|' '{ printf "  %-20s %6.0f ns %+8.1f ns  x %.3f   quiet rounds: %6.0f ns %+8.1f ns  x %.3f\n",
		$1, $2, $3, $4, $5, $6, $5 / ($5 - $6) }'
}

# rounds_of HOST THREADS OPEN, settings on stdin; the SDK's own messages are dropped
rounds_of()
{
	"$BENCH/rounds" "$ROUNDS" "$BENCH/$1" "$2" "$PAIRS" "$3" 2>"$out/stderr" >"$out/rounds"
	table <"$out/rounds"
}

# percent LABEL: the percentage that the setting adds to the SDK's own pair in quiet rounds
percent()
{
	awk -F'|' -v label="$1" '$1 == label { printf "%.1f", $6 / ($5 - $6) * 100 }' "$out/rounds"
}

# more_than LABEL BASE: the ns that the setting adds to BASE in quiet rounds
more_than()
{
	awk -F'|' -v label="$1" -v base="$2" '
		$1 == base { from = $5 }
		$1 == label { to = $5 }
		END { printf "%.0f", to - from }' "$out/rounds"
}

cat <<END
CPU time of one start+end pair. Median over $ROUNDS rounds of $PAIRS pairs; difference and ratio are medians
over rounds that were run one after the other; a tenth of the rounds is faster than a quiet one.
END
for host in direct pairs; do
	for threads in 1 8; do
		case $host in
		direct) echo "opentelemetry-cpp, batch processor, $threads thread(s):" ;;
		pairs) echo "through the C wrapper, whose spans are current, $threads thread(s):" ;;
		esac
		settings | rounds_of $host $threads 0
		[[ $host == direct ]] || continue
		own="$threads thread(s), of opentelemetry-cpp's own start and end"
		echo "  switched off: $(answer "a span while we are switched off, $own" \
			"$(percent 'switched off')" % $TARGET_OFF)"
		echo "  never: $(answer "a span without attribute, $own" \
			"$(percent 'root, never')" % $TARGET_NEVER)"
		echo "  with-samples: $(answer "a span by default (SPANPROF_ATTRIBUTES=with-samples), $own" \
			"$(percent 'root, with-samples')" % $TARGET_ALWAYS)"
		echo "  always: $(answer "a span with SPANPROF_ATTRIBUTES=always, $own" \
			"$(percent 'root, always')" % $TARGET_ALWAYS)"
	done
done
echo "opentelemetry-cpp, what an attribute of its own costs, and what options cost a span (with the"
echo 'attributes that carry the times of roots), 1 thread:'
more_settings | rounds_of direct 1 0
plain=$(more_than 'without us, attribute' 'without us')
printf '  one SetAttribute %+d ns\n' "$plain"
echo "  no label: $(answer "an attribute of a span while SPANPROF_SPAN_LABELS is not set, of the SDK's own" \
	"$(($(more_than attribute default) - plain))" ns 5)"
while IFS='|' read -r label base question target; do
	echo "  $label: $(answer "$question" "$(more_than "$label" "$base")" ns "$target")"
done <<'END'
label|attribute|a local root with one attribute in SPANPROF_SPAN_LABELS, more than one without|100
published|root, never|a span whose thread context is published, more than one without|20
with waits|root, never|a span with SPANPROF_OFF_CPU, more than one without|150
slow roots|default|a local root with SPANPROF_SLOW, more than one without|100
CPU time of roots|root, always|a local root with SPANPROF_SPAN_CPU_TIME, more than one without|1500
times of roots|root, always|a local root with SPANPROF_SPAN_TIMES, more than one without|3000
END
echo "opentelemetry-cpp, each span current from its start to its end:"
settings | grep -E '^(without us|root, (never|with-samples))' | BENCH_SCOPE=1 rounds_of direct 1 0
echo "  with-samples: $(answer "a span that is current in a Scope, by default, of opentelemetry-cpp's own start, Scope and end" \
	"$(percent 'root, with-samples')" % $TARGET_ALWAYS)"
for open in 10 1000 10000; do
	echo "opentelemetry-cpp, with $open spans open on another thread:"
	few_settings | rounds_of direct 1 $open
done

echo 'our own part alone, without SDK and hooks:'
while read -r threads open; do
	"$BENCH/rounds" "$ROUNDS" "$BENCH/ours" "$threads" "$PAIRS" "$open" <<<'ours|A=' >"$out/rounds"
	quiet=$(awk -F'|' '{ printf "%.0f", $5 }' "$out/rounds")
	printf '  %d thread(s), %5d spans open   %5.0f ns   quiet rounds: %5.0f ns   %s\n' "$threads" "$open" \
		"$(cut -d '|' -f 2 "$out/rounds")" "$quiet" \
		"$(answer "our own part of a span, $threads thread(s), $open spans open" "$quiet" ns $TARGET_NS)"
done <<<'1 10
1 1000
1 10000
8 10'

echo 'the same while the thread context is published, and a sample that reads one of somebody else:'
printf '%s\n' 'ours|A=' 'published|BENCH_PUBLISH=1' |
	"$BENCH/rounds" "$ROUNDS" "$BENCH/ours" 1 "$PAIRS" 10 >"$out/rounds"
table <"$out/rounds"
echo "  two changes: $(answer "our own part of a span whose thread context is published, more than one without" \
	"$(more_than published ours)" ns 20)"
"$BENCH/rounds" "$ROUNDS" "$BENCH/ours" 1 "$PAIRS" 0 <<<'reads|BENCH_READ=1' >"$out/rounds"
echo "  a read: $(answer "the handler reads a thread context of somebody else" \
	"$(awk -F'|' '{ printf "%.0f", $5 }' "$out/rounds")" ns 20)"

for part in execs handler threads allocs compile symbols export idle waits faults; do
	echo
	"test/bench/$part.sh"
done

{
	echo '| question | figure | target | |'
	echo '|---|---|---|---|'
	cat "$BENCH_ANSWERS"
} >"$BENCH/answers.md"
echo
echo "All targets (in this run, on this machine; nothing fails because of them):"
column -t -s '|' -o '|' "$BENCH/answers.md" | sed 's/^/  /'
