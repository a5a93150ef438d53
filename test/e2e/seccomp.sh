#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that forbid themselves all but some system calls end as without us. Sampling ends before the first filter;
# earlier samples arrive.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250 FIXTURE_SEED=1
readonly HOST=$HOSTS/sandbox

# A host that has ended requests nothing: its exporter notices the end, and delivers.
is_delivered()
{
	[[ -e $WORK/$1.status && -n $(profiles_in "$WORK/$1") &&
		$(ask "$WORK/$1.status" 'd["state"] in ("ending", "stopped")') == True ]]
}

# confined NAME STATUS CASE [WAY]: runs it with and without us. WAY is how the filter is installed.
confined()
{
	local name=$1 status=$2 plain=$3.plain

	shift 2
	mkdir "$WORK/$name"
	[[ -e $WORK/$plain.rc ]] || run "$plain" "$HOST" "$@"
	expect_rc "$plain" "$status"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_STATUS_FILE="$WORK/$name.status" \
		"$HOST" "$@"
	expect_same "$plain" "$name" out rc
}

# arrived NAME SPAN...: each of these spans has samples, and no sample that was put is missing.
arrived()
{
	local name=$1 span

	shift
	poll_until 10 is_delivered "$name" || fail "$name: it is not delivered"
	expect "$WORK/$name.status" 'd["samples"]["put"] == d["samples"]["drained"] > 0'
	report "$WORK/$name" "$WORK/$name.json"
	for span in "$@"; do
		expect "$WORK/$name.json" "any(n['span_name'] == '$span' and n['samples'] > 0 for n in d['span_names'])"
	done
}

# ended NAME SPAN...: the same, and no sample from after the filter.
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

# Whether this filter or a later one lets handlers return makes no difference.
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

# A filter that no hook sees is found in /proc.
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

# A filter from before the program that kills it for a call that we need: a child tries the call, and there is a
# message.
confined inherited 27 inherited
grep -q 'a seccomp filter would kill the program for a system call of the profiler' "$WORK/inherited.err" || fail 'inherited: nobody is told'
[[ -z $(profiles_in "$WORK/inherited") ]] || fail "inherited: a profile"
# A filter that refuses the call was always counted.
confined inherited-refusing 27 inherited-refusing
poll_until 10 is_delivered inherited-refusing || fail "inherited-refusing: it is not delivered"
expect "$WORK/inherited-refusing.status" 'd["loss"]["threads_unarmed_refused"] > 0'

# The message names the missing system call, and the program runs as without us.
while read -r call errno; do
	number=$(printf '#include <sys/syscall.h>\nSYS_%s\n' "$call" | gcc -E -P - | tail -n 1)
	SPANPROF_SECCOMP=trust confined "without.$call" 27 without "$number" "$errno"
	grep -q "$call.* was refused.*: not profiling this process" "$WORK/without.$call.err" ||
		fail "without $call: $(<"$WORK/without.$call.err")"
done <<'END'
memfd_create 38
ftruncate 38
prlimit64 1
eventfd2 1
END

# The program's own threads and forks show whether the filter kills for a clone, and for which call.
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
