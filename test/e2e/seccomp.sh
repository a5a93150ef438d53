#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that forbid themselves system calls end as they do without us, whatever they have left
# themselves, and what was sampled until then and after it arrives.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250 FIXTURE_SEED=1
readonly HOST=$HOSTS/sandbox

# An ended host asks for nothing: its exporter sees that for itself, and delivers.
is_delivered()
{
	[[ -e $WORK/$1.status && -n $(profiles_in "$WORK/$1") &&
		$(ask "$WORK/$1.status" 'd["state"] in ("ending", "stopped")') == True ]]
}

# confined NAME STATUS CASE [WAY]: runs it with and without us. However it is put in, a filter is one.
confined()
{
	local name=$1 status=$2 plain=$3.plain

	shift 2
	mkdir "$WORK/$name"
	[[ -e $WORK/$plain.rc ]] || run "$plain" "$HOST" "$1"
	expect_rc "$plain" "$status"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_STATUS_FILE="$WORK/$name.status" \
		"$HOST" "$@"
	expect_same "$plain" "$name" out rc
}

# arrived NAME SPAN...: each of these has samples, and nothing that was put is missing.
arrived()
{
	local name=$1 span

	shift
	poll_until 10 is_delivered "$name" || fail "$name: it is not delivered"
	expect "$WORK/$name.status" 'd["samples"]["put"] == d["samples"]["drained"] > 0'
	report "$WORK/$name" "$WORK/$name.json"
	for span in "$@"; do
		expect "$WORK/$name.json" "any(n['span_name'] == '$span' and n['ns'] > 5e6 for n in d['span_names'])"
	done
}

for way in prctl syscall; do
	confined "strict.$way" 21 strict "$way"
	expect_same strict.plain "strict.$way" err
	arrived "strict.$way" before after 'worker before' 'worker after'
done

confined all 22 all syscall
expect_same all.plain all err
arrived all before after 'worker before' 'worker after'

for way in prctl syscall syscall-prctl; do
	confined "births.$way" 23 births "$way"
	arrived "births.$way" before after
	expect "$WORK/births.$way.status" 'd["loss"]["threads_unarmed_seccomp"] == 3'
done

# One that no hook sees is seen in /proc.
if grep -q '^Seccomp_filters:' /proc/self/status; then
	confined births.raw 23 births raw
	arrived births.raw before after
fi

confined fork 24 fork
expect_same fork.plain fork err
arrived fork before after

confined early 25 early
expect_same early.plain early err
[[ -z $(profiles_in "$WORK/early") ]] || fail "early: a profile"

confined refused 26 refused
expect_same refused.plain refused err
arrived refused before born
expect "$WORK/refused.status" 'd["loss"]["threads_unarmed_seccomp"] == 0'

# A filter from before the program, that ends it for what we need: tried in a child, and told.
confined inherited 27 inherited
grep -q 'a seccomp filter would kill the program for a system call of the profiler' "$WORK/inherited.err" || fail 'inherited: nobody is told'
[[ -z $(profiles_in "$WORK/inherited") ]] || fail "inherited: a profile"
# One that refuses it has always been counted.
confined inherited-refusing 27 inherited-refusing
poll_until 10 is_delivered inherited-refusing || fail "inherited-refusing: it is not delivered"
expect "$WORK/inherited-refusing.status" 'd["loss"]["threads_unarmed_refused"] > 0'

# Where handlers may not return there are no more signals of ours.
for way in prctl syscall syscall-prctl; do
	confined "return.$way" 22 return "$way"
	arrived "return.$way" before 'worker before'
	expect "$WORK/return.$way.status" 'd["loss"]["stopped_by_seccomp"] == 1'
done
