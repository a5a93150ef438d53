#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A profiled program has the threads, descriptors, libraries and children that it has without us, so all
# that depends on there being one thread is as ever: how the last one ends, what a handler may do that
# interrupts a fork, and children that the C library knows nothing of.
# A program that waits for ever is to be found soon.
TEST_RUN_LIMIT_S=${TEST_RUN_LIMIT_S:-20}
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly HOST=$HOSTS/outside

# pair NAME ARGUMENT...: the same end with us and without, and a profile.
pair()
{
	local name=$1

	shift
	run "$name.plain" "$HOST" "$@"
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" "$HOST" "$@"
	expect_same "$name.plain" "$name" err rc
	[[ -n $(profiles_in "$WORK/$name") ]] || fail "$name: no profile"
}

# Ours are one object and one region.
pair inventory inventory
sed -E -e '/^mapped .*\/libspanprof\.so$/d' -e '/^mapped \/memfd:(spanprof|OTEL_CTX)/d' "$WORK/inventory.out" |
	diff <(uniq "$WORK/inventory.plain.out") <(uniq) >&2 || fail "something of ours is in the program"
grep -q '^mapped .*/libspanprof\.so$' "$WORK/inventory.out" || fail "it is not under us"

# Without a flush: nobody is asked before these. What was sampled is delivered nevertheless.
for how in last_exit:5 kill_thread:159; do
	run "${how%:*}.plain" "$HOST" "${how%:*}"
	expect_rc "${how%:*}.plain" "${how#*:}"
	mkdir "$WORK/${how%:*}"
	run_under "${how%:*}" SPANPROF_OUTPUT_DIR="$WORK/${how%:*}" "$HOST" "${how%:*}"
	expect_same "${how%:*}.plain" "${how%:*}" out err rc
	is_there()
	{
		[[ -n $(profiles_in "$WORK/${how%:*}") ]]
	}
	poll_until 10 is_there || fail "${how%:*}: no profile"
done

# With a second thread the C library's fork takes the allocator's locks, and the handler waits for ever.
pair fork fork_handler 500
expect_same fork.plain fork out
# exit() in a child that was not made by fork(): it has no exporter to wait for.
pair clone clone_exit 50
(($(result clone.ms) <= $(result clone.plain.ms) + 2000)) || fail "children of clone() took $(result clone.ms) ms"
# Nothing of such a child is told as of its parent, the threads that it makes included.
need python3
pair strangers clone_threads
report "$WORK/strangers" "$WORK/strangers.json"
expect "$WORK/strangers.json" "{f['function'] for f in d['functions']} & {'work_as_stranger', 'begin'} == {'begin'}"
