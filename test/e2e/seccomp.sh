#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that forbid themselves system calls end as they do without us, whatever they have left
# themselves. Sampling ends before the first filter; what was sampled until then arrives.
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

# ended NAME SPAN...: the same, and nothing of what came after the filter.
ended()
{
	arrived "$@"
	expect "$WORK/$1.json" "not {'after', 'worker after', 'born', 'child', 'between'} & {n['span_name'] for n in d['span_names']}"
	expect "$WORK/$1.status" 'd["state"] == "stopped" and d["loss"]["stopped_by_seccomp"] == 1'
}

for way in prctl syscall; do
	confined "strict.$way" 21 strict "$way"
	expect_same strict.plain "strict.$way" err
	ended "strict.$way" before 'worker before'
done

# Whether handlers may return, in this filter or in a later one, makes no difference.
for case in all return second; do
	for way in prctl syscall syscall-prctl; do
		confined "$case.$way" 22 "$case" "$way"
		expect_same "$case.plain" "$case.$way" err
		ended "$case.$way" before 'worker before'
	done
done

for way in prctl syscall syscall-prctl; do
	confined "births.$way" 23 births "$way"
	ended "births.$way" before
done

# One that no hook sees is seen in /proc.
if grep -q '^Seccomp_filters:' /proc/self/status; then
	confined births.raw 23 births raw
	ended births.raw before raw
fi

confined fork 24 fork
expect_same fork.plain fork err
ended fork before

confined early 25 early
expect_same early.plain early err
[[ -z $(profiles_in "$WORK/early") ]] || fail "early: a profile"

confined refused 26 refused
expect_same refused.plain refused err
arrived refused before born
expect "$WORK/refused.status" 'd["loss"]["stopped_by_seccomp"] == 0'

# A filter from before the program, that ends it for what we need: tried in a child, and told.
confined inherited 27 inherited
grep -q 'a seccomp filter would kill the program for a system call of the profiler' "$WORK/inherited.err" || fail 'inherited: nobody is told'
[[ -z $(profiles_in "$WORK/inherited") ]] || fail "inherited: a profile"
# One that refuses it has always been counted.
confined inherited-refusing 27 inherited-refusing
poll_until 10 is_delivered inherited-refusing || fail "inherited-refusing: it is not delivered"
expect "$WORK/inherited-refusing.status" 'd["loss"]["threads_unarmed_refused"] > 0'

# Whether the filter kills for a clone is known from what the program has made itself, and by which call.
readonly UNKNOWN='this process was not profiled: it is below a seccomp filter and made no thread or fork'
if [[ $(uname -m) == x86_64 ]]; then
	confined inherited-clone 27 inherited-clone
	arrived inherited-clone born
fi
for case in alone alone-refusing; do
	confined "$case" 27 "$case"
	[[ $(grep -c "$UNKNOWN" "$WORK/$case.err") == 1 ]] || fail "$case: not told once"
	[[ -z $(profiles_in "$WORK/$case") ]] || fail "$case: a profile"
done
for case in alone-refusing forked; do
	[[ $case == forked ]] || export SPANPROF_SECCOMP=trust
	confined "$case.known" 27 "$case"
	unset SPANPROF_SECCOMP
	! grep -q "$UNKNOWN" "$WORK/$case.known.err" || fail "$case.known: told"
	[[ -n $(profiles_in "$WORK/$case.known") ]] || fail "$case.known: no profile"
done
