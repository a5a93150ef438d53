#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Profilers outside of the process find its resource and each thread's active span. A reader stops eight threads
# thousands of times. Each time it sees the span that the host has open at that moment, and the span's root. We
# publish nothing before the first span, nothing in a forked child before its own first span unless an option asks for
# it, and nothing if another library publishes.
# Runs alone: on a busy machine it stops the host less often in its time.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly READER=$TEST_LIBS/context-reader
# On an idle machine 100,000 stops take a second; on a busy one each may take some milliseconds.
readonly STOPS=${CONTEXT_STOPS:-100000}
readonly SECONDS_MAX=${CONTEXT_SECONDS:-3}
export SPANPROF_THREAD_CONTEXT=true
export OTEL_SERVICE_NAME=shop
export OTEL_RESOURCE_ATTRIBUTES='service.version=1.2,my%20key=a%2Cb,service.name=other'

# host NAME [VARIABLE=VALUE]... COMMAND...: runs it with the profiler; $words reads its output and $input is its
# input.
host()
{
	local name=$1

	shift
	coproc HOST { LD_PRELOAD=$SO SPANPROF_OUTPUT_DIR=$WORK SPANPROF_STATUS_FILE="$WORK/$name.%p.status" \
		exec env "$@" 2>"$WORK/$name.err"; }
	words=${HOST[0]} input=${HOST[1]} pid=$HOST_PID
}

# host_ends STATUS
host_ends()
{
	local rc=0

	exec {input}>&-
	wait "$pid" || rc=$?
	((rc == $1)) || fail "the host ended with $rc"
}

# say NAME: waits for that word of the host; $number is the number behind it.
say()
{
	local word

	read -r -t 60 -u "$words" word number || fail "the host did not say $1"
	[[ $word == "$1" ]] || fail "the host said $word, not $1"
}

on()
{
	printf x >&"$input"
}

# process PID FILE: writes the process context as JSON; "none" if there is no mapping.
process()
{
	local rc=0

	"$READER" process "$1" >"$2.bytes" || rc=$?
	case $rc in
	0) python3 test/context/decode.py <"$2.bytes" >"$2" ;;
	3) echo '"none"' >"$2" ;;
	*) fail "the process context cannot be read: $rc" ;;
	esac
}

# expect_thread PID PATTERN
expect_thread()
{
	local record

	record=$("$READER" thread "$1")
	# shellcheck disable=SC2053 # it is a pattern
	[[ $record == $2 ]] || fail "the record is \"$record\", not \"$2\""
}

expect_nothing()
{
	process "$1" "$WORK/context.json"
	expect "$WORK/context.json" 'd == "none"'
	expect_thread "$1" none
}

# A host with one thread, step by step.
host steps FIXTURE_SPANS="$WORK/steps.spans" "$HOSTS/context" steps
say begun
main=$number
expect_nothing "$main"
on
say span
process "$main" "$WORK/parent.json"
expect "$WORK/parent.json" 'd["attributes"] == {"threadlocal.schema_version": "tlsdesc_v1_dev",
	"threadlocal.attribute_key_map": ["pyroscope.profile.id"]}'
expect "$WORK/parent.json" '(d["resource"]["service.name"], d["resource"]["service.version"],
	d["resource"]["my key"]) == ("shop", "1.2", "a,b")'
# without one of these the reference reader refuses the rest
expect "$WORK/parent.json" '{"deployment.environment.name", "service.instance.id", "telemetry.sdk.language",
	"telemetry.sdk.name", "telemetry.sdk.version"} <= set(d["resource"])'
expect_thread "$main" 'valid *'
published=$("$READER" thread "$main")
on
say none
expect_thread "$main" invalid
# the published ids are those that the SDK has exported
read -r trace span < <(sed -n 's/.*"name":"outer","trace_id":"\([0-9a-f]*\)","span_id":"\([0-9a-f]*\)".*/\1 \2/p' \
	"$WORK/steps.spans")
[[ $published == "valid $trace $span $span" ]] || fail "published: $published; exported: $trace $span"
on
say forked
expect_nothing "$number"
child=$number
on
say child-span
process "$child" "$WORK/child.json"
[[ $(ask "$WORK/child.json" 'd["resource"]["service.instance.id"]') != \
	"$(ask "$WORK/parent.json" 'd["resource"]["service.instance.id"]')" ]] || fail 'one id for two processes'
expect_thread "$child" 'valid *'
on
say child-none
expect_thread "$child" invalid
on
# the fork was inside of a span, which only the parent may publish
say inner
expect_nothing "$number"
expect_thread "$main" 'valid *'
on
say still
expect_thread "$main" 'valid *'
on
say ended
expect_thread "$main" invalid
on
host_ends 32
expect "$WORK/steps.$main.status" 'd["thread_context"] == "published"'

# Eight threads that change their spans as fast as they can.
host flip "$HOSTS/context" flip
say truth
"$READER" watch "$pid" "$number" "$STOPS" "$SECONDS_MAX" >"$WORK/watch" || fail 'a record that is not true'
cat "$WORK/watch"
# each state was observed
for state in none root child changing; do
	(($(awk -v state=$state '$1 == state { print $2 }' "$WORK/watch") > 0)) ||
		fail "no stop at \"$state\""
done
host_ends 31

# A profiler may watch for this very call, whether or not the kernel accepts it.
if command -v strace >/dev/null && strace -o /dev/null true 2>/dev/null; then
	run named strace -f -qq -e trace=prctl -o "$WORK/named.trace" -E LD_PRELOAD="$SO" "$HOSTS/context" flip
	grep -Eq 'prctl\((PR_SET_VMA|0x53564d41), (PR_SET_VMA_ANON_NAME|0), 0x[0-9a-f]+, [0-9]+, "OTEL_CTX"\)' \
		"$WORK/named.trace" || fail "the process context gets no name: $(<"$WORK/named.trace")"
else
	left_out "strace cannot be used here"
fi

# Without the option.
host off -u SPANPROF_THREAD_CONTEXT "$HOSTS/context" steps
say begun
main=$number
on
say span
expect_nothing "$main"
for word in none forked child-span child-none inner still ended; do
	on
	say "$word"
done
on
host_ends 32
expect "$WORK/off.$main.status" 'd["thread_context"] == "off"'

# Another library's process context exists first: it stays the only one, and ours is not made.
host other "$HOSTS/context" other
say begun
main=$number
on
say span
[[ $("$READER" process "$main" | wc -c) == 1 ]] || fail "not the other one's process context"
expect_thread "$main" none
for word in none forked; do
	on
	say "$word"
done
# a fork inherits the other library's mapping, because it was made without MADV_DONTFORK
for word in child-span child-none inner still ended; do
	on
	say "$word"
done
on
host_ends 32
expect "$WORK/other.$main.status" 'd["thread_context"] == "foreign"'
