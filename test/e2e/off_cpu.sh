#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SPANPROF_OFF_CPU and SPANPROF_WALL: threads wait in known ways in known spans. The sums equal the threads' own
# clocks, the stacks are those of the waits; no system call is interrupted, and none is added.
# Runs alone: it judges how long threads wait, and for what.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
readonly TURNS=8 WAIT_MS=300
readonly COMPARE=$ROOT/test/e2e/off_cpu.py

# of_type FOLDER TYPE FORM FILE [OPTION]...
of_type()
{
	local folder=$1 type=$2 form=$3 file=$4

	shift 4
	build/spanprof-report --type "$type" "--$form" "$@" "$folder" >"$file"
}

# The exporter of that run has ended.
has_ended()
{
	! grep -qsz "^SPANPROF_STATUS_FILE=$WORK/$1.json$" /proc/[0-9]*/environ
}

# waits FOLDER NAME [VARIABLE=VALUE]...
waits()
{
	local folder=$1 name=$2

	shift 2
	mkdir -p "$folder"
	run_under "$name" SPANPROF_OUTPUT_DIR="$folder" SPANPROF_UPLOAD_INTERVAL=1s \
		SPANPROF_STATUS_FILE="$WORK/$name.json" "$@" OTELC_SPANS_JSON="$WORK/$name.spans" \
		"$HOSTS/${HOST_OF:-waits}" "${TURNS_OF:-$TURNS}" "$WAIT_MS"
	expect_rc "$name" 0
	expect_silent "$name"
	poll_until 20 has_ended "$name" || fail "$name: the exporter does not end"
	[[ $(value "$name" interrupted) == 0 ]] || fail "$name: $(value "$name" interrupted) calls were interrupted"
}

# links NAME: how many spans of that run have a link to their profile, and how many spans there are. Spans that
# compute may have samples.
links()
{
	python3 "$COMPARE" links "$WORK/$1.spans"
}

# Off by default: no profile, and the exporter gets no labels. A span that only waits has no samples, and no link.
TURNS_OF=1 HOST_OF=waits_sdk waits "$WORK/off" off SPANPROF_ATTRIBUTES=with-samples
[[ -z $(find "$WORK/off" -name '*off_cpu*' -o -name '*wall*') ]] || fail "a profile of waits unasked"
[[ $(ask "$WORK/off.json" 'd["off_cpu"]') == None ]] || fail "the status file tells of waits unasked"
read -r linked spans < <(links off)
((linked * 4 < spans)) || fail "$linked of $spans spans that wait have a link without a profile of waits"

# Both types, for a folder and for a server.
# shellcheck disable=SC2119
double_start
waits "$WORK/on" on SPANPROF_OFF_CPU=true SPANPROF_WALL=true SPANPROF_FLUSH_TIMEOUT=20s \
	SPANPROF_SERVER_ADDRESS="$DOUBLE_URL"
of_type "$WORK/on" off_cpu json "$WORK/on.off_cpu"
of_type "$WORK/on" wall json "$WORK/on.wall"
python3 "$COMPARE" sums "$WORK/on.out" "$WORK/on.off_cpu" off "$TURNS"
python3 "$COMPARE" sums "$WORK/on.out" "$WORK/on.wall" wall "$TURNS"
grep '^without ' "$WORK/on.out" || true
mkdir "$WORK/stacks"
mapfile -t names < <(awk '$1 == "off" { print $2 }' "$WORK/on.out")
for name in "${names[@]}"; do
	of_type "$WORK/on" off_cpu folded "$WORK/stacks/$name.folded" --span-name "$name"
done
python3 "$COMPARE" stacks "$WORK"/stacks/*

# All waits that were taken are in the files, and were sent.
expect "$WORK/on.json" 'd["off_cpu"]["waits"] == d["off_cpu"]["sent"] + d["off_cpu"]["lost"] > 0'
expect "$WORK/on.json" 'd["off_cpu"]["lost"] == 0 and d["off_cpu"]["no_stacks_because"] is None'
expect "$WORK/on.json" 'd["samples"]["put"] == d["samples"]["drained"]'
expect "$WORK/on.json" 'd["samples"]["with_span"] + d["samples"]["without_span"] == d["samples"]["sent"]'
[[ $(ask "$WORK/on.off_cpu" 'd["total"]["samples"]') == $(ask "$WORK/on.json" 'd["off_cpu"]["waits"]') ]] ||
	fail "the files hold $(ask "$WORK/on.off_cpu" 'd["total"]') of $(ask "$WORK/on.json" 'd["off_cpu"]')"
[[ $(ask "$WORK/on.off_cpu" 'd["total"]["ns"]') == $(ask "$WORK/on.json" 'd["off_cpu"]["time_ns"]') ]] ||
	fail "the files hold another time than was taken"

# The server has them by span.
# shellcheck disable=SC2119
expect_clean_double
range="\"start\":$(($(now_ms) - 120000)),\"end\":$(($(now_ms) + 120000))"
for type in off_cpu:off_cpu:nanoseconds:: wall:wall:nanoseconds:wall:nanoseconds; do
	read -r id wanted < <(ask "$WORK/on.${type%%:*}" \
		'"%s %d" % max((s["span_id"], s["ns"]) for s in d["spans"] if s["span_name"] == "pipe")')
	double_query SelectMergeSpanProfile "{\"profileTypeID\":\"$type\",\"spanSelector\":[\"$id\"],
		\"labelSelector\":\"{}\",$range}" "$WORK/span.json"
	[[ $(ask "$WORK/span.json" 'int(d["flamegraph"]["total"])') == "$wanted" ]] ||
		fail "span $id: the server has another time of type $type"
	expect "$WORK/span.json" '"read (pipe)" in d["flamegraph"]["names"]'
done

# The targets of waits, if the option is set. A span with a wait in the profile has a link to it.
TURNS_OF=1 HOST_OF=waits_sdk waits "$WORK/targets" targets SPANPROF_OFF_CPU=true SPANPROF_OFF_CPU_TARGETS=true \
	SPANPROF_ATTRIBUTES=with-samples SPANPROF_PROFILE_URL='http://grafana/{profile_type}'
read -r linked spans < <(links targets)
((linked == spans)) || fail "$linked of $spans spans that wait have a link to the profile of waits"
of_type "$WORK/targets" cpu json "$WORK/targets.cpu"
python3 "$COMPARE" types "$WORK/targets.spans" "$WORK/targets.cpu"
of_type "$WORK/targets" off_cpu folded "$WORK/targets.folded"
grep -q ";recvfrom tcp 127.0.0.1:$(value targets port) [0-9]*$" "$WORK/targets.folded" ||
	fail "no wait names the other end of its connection"
grep -q ";connect tcp 127.0.0.1:$(value targets hole) [0-9]*$" "$WORK/targets.folded" ||
	fail "no wait names whom it cannot reach"
grep -q ';read pipe [0-9]*$' "$WORK/targets.folded" || fail "no wait names its pipe"
grep -q ';flock /tmp/waits\.' "$WORK/targets.folded" || fail "no wait names its file"

# crowd NAME THREADS: threads that wait for a lock and for processors, which they take from each other.
crowd()
{
	mkdir "$WORK/$1"
	# Nobody has looked at waits before the exporter is there, which may take a second of these three on a busy machine.
	run_under "$1" SPANPROF_OUTPUT_DIR="$WORK/$1" SPANPROF_OFF_CPU=true SPANPROF_STATUS_FILE="$WORK/$1.status" \
		"$HOSTS/waits" 1 "$WAIT_MS" crowd "$2" "$WORK/$1.status"
	expect_rc "$1" 0
	of_type "$WORK/$1" off_cpu json "$WORK/$1.off_cpu"
	# Each name has a third of them.
	python3 "$COMPARE" sums "$WORK/$1.out" "$WORK/$1.off_cpu" off $((($2 + 2) / 3)) "$2"
}
crowd crowd.1 1
crowd crowd.8 8
crowd crowd.200 200
for name in convoy starved; do
	of_type "$WORK/crowd.200" off_cpu folded "$WORK/$name.folded" --span-name "$name"
done
python3 "$COMPARE" share "$WORK/convoy.folded" 'futex (lock)' 0.8
python3 "$COMPARE" share "$WORK/starved.folded" '[waiting for a CPU]' 0.9

# A process that may not be traced has the times, and a frame says why there is no stack.
if has_nobody; then
	mkdir "$WORK/nobody"
	chmod 777 "$WORK" "$WORK/nobody"
	run_under nobody SPANPROF_OUTPUT_DIR="$WORK/nobody" SPANPROF_OFF_CPU=true \
		SPANPROF_STATUS_FILE="$WORK/nobody/status" setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$HOSTS/waits" 1 "$WAIT_MS" undumpable
	expect_rc nobody 0
	of_type "$WORK/nobody" off_cpu json "$WORK/nobody.off_cpu"
	python3 "$COMPARE" sums "$WORK/nobody.out" "$WORK/nobody.off_cpu" off 1
	of_type "$WORK/nobody" off_cpu folded "$WORK/nobody.folded"
	grep -q '^\[blocked, no stack: the program is not dumpable' "$WORK/nobody.folded" ||
		fail "no frame says why there is no stack: $(<"$WORK/nobody.folded")"
	expect "$WORK/nobody/status" '"not dumpable" in d["off_cpu"]["no_stacks_because"]'
fi

# The host's threads make the same system calls as without us, and none of their waits is interrupted, while the
# exporter looks at all of them. The child is left out, because its end is a signal, which strace turns into an
# interruption. The thread that keeps asking for its CPU clock is left out, because strace turns that into a wait.
need strace
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"
waits=$(awk '$1 == "off" && $2 != "child" && $2 != "mixed" { printf "%s%s", sep, $2; sep = "," }' "$WORK/on.out")
for option in false true; do
	mkdir "$WORK/strace.$option"
	strace -f -qq -o "$WORK/$option.trace" -E LD_PRELOAD="$SO" -E SPANPROF_OFF_CPU="$option" \
		-E SPANPROF_OUTPUT_DIR="$WORK/strace.$option" -E SPANPROF_SAMPLE_RATE=1 \
		"$HOSTS/waits" 3 250 "$waits" >"$WORK/$option.out"
	# A call that strace shows in two parts, with another thread's call between, counts where it begins.
	sed -E -e '/ resumed>/d' -e 's/^[0-9]+ +//' -e '/^(\+\+\+|---)/d' -e 's/\(.*//' "$WORK/$option.trace" |
		sort >"$WORK/$option.calls"
	! grep -E 'ERESTART|EINTR|restart_syscall' "$WORK/$option.trace" || fail "a call was interrupted"
	grep -qx 'interrupted 0' "$WORK/$option.out" || fail "$(grep interrupted "$WORK/$option.out") calls"
	uniq -c "$WORK/$option.calls" |
		grep -E ' (clock_nanosleep|nanosleep|poll|p?select6?|epoll_p?wait|recvfrom|connect|sem(timed)?op|flock)$' \
			>"$WORK/$option.waits"
done
cat "$WORK/true.waits"
diff "$WORK/false.waits" "$WORK/true.waits" || fail "not as many calls as without the option"
mkdir "$WORK/traced"
for name in ${waits//,/ }; do
	of_type "$WORK/strace.true" off_cpu folded "$WORK/traced/$name.folded" --span-name "$name"
done
python3 "$COMPARE" seen "$WORK"/traced/*
# Work that hooks do for the exporter, such as a scan for threads, comes now and then; and samples come by chance.
comm -13 <(uniq "$WORK/false.calls") <(uniq "$WORK/true.calls") |
	grep -vE '^(t?g?kill|getdents64|lseek|openat|read|readlinkat|newfstatat|close|timer_.*|m(un)?map|madvise|sched_yield|rt_sig(return|procmask))$' \
		>"$WORK/more.calls" || true
[[ ! -s $WORK/more.calls ]] || fail "calls that are not made without the option: $(<"$WORK/more.calls")"
