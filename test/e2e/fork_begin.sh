#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A forked child has only a timer until it has used CPU time for a sample or records a span. If it executes another
# program or ends before, it makes almost no system call of ours and contacts no process. A child that uses CPU time
# is sampled, even without a hooked call.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need strace python3

# of_children NAME: the system calls of each forked child before its exec or its end, one child per line.
of_children()
{
	local pid

	sed -n 's/^clone(child_stack=NULL, .*SIGCHLD, .*) = \([0-9]*\)$/\1/p' "$WORK/$1".trace.* |
		while read -r pid; do
			sed -n '/^\(execve\|exit_group\)(/q; s/^\([a-z0-9_]*\)(.*/\1/p' \
				"$WORK/$1.trace.$pid" | tr '\n' ' '
			echo
		done
}

# children NAME HOW [VARIABLE=VALUE]...: writes NAME.children
children()
{
	local name=$1 how=$2
	local -a variables=()

	shift 2
	# For the host alone: strace would wait for our children, too.
	(($# == 0)) || mapfile -t variables < <(printf -- '-E\n%s\n' "$@")
	echo go | timeout 60 strace "${variables[@]}" -ff -o "$WORK/$name.trace" "$HOSTS/forks" \
		3 0 "$how" >"$WORK/$name.out" 2>"$WORK/$name.err" || [[ $? == 12 ]] ||
		fail "$name: $(<"$WORK/$name.err")"
	of_children "$name" >"$WORK/$name.children"
	[[ $(wc -l <"$WORK/$name.children") == 3 ]] || fail "$name: not three children: $(<"$WORK/$name.children")"
}

# cheap NAME HOW [VARIABLE=VALUE]...
readonly MOST=20
cheap()
{
	local name=$1 how=$2 plain calls

	children "$name.plain" "$how"
	plain=$(wc -w <"$WORK/$name.plain.children")
	shift 2
	mkdir "$WORK/$name"
	children "$name" "$how" LD_PRELOAD="$SO" SPANPROF_OUTPUT_DIR="$WORK/$name" "$@"
	if grep -E 'memfd_create|socket|connect|sendmsg|openat|clone|futex' "$WORK/$name.children"; then
		fail "$name: a child that did nothing has more than a timer"
	fi
	calls=$((($(wc -w <"$WORK/$name.children") - plain) / 3))
	echo "$name: $calls system calls in a child"
	((calls <= MOST)) || fail "$name: $(<"$WORK/$name.children")"
	# This test would notice the profiler: the child has a timer.
	grep -q timer_settime "$WORK/$name.children" || fail "$name: no timer: $(<"$WORK/$name.children")"
}

cheap exec exec
cheap end end
cheap always end SPANPROF_PROFILE=always

# Children without a hooked call, even at their end, in the span of their parent. CPU time after a child's last sample
# cannot be known.
mkdir "$WORK/raw"
echo go | LD_PRELOAD=$SO SPANPROF_OUTPUT_DIR=$WORK/raw timeout 60 "$HOSTS/forks" 3 300 raw >"$WORK/raw.out" \
	2>"$WORK/raw.err" || [[ $? == 12 ]] || fail "raw: $(<"$WORK/raw.err")"
[[ ! -s $WORK/raw.err ]] || fail "raw: $(<"$WORK/raw.err")"
while read -r pid ns; do
	files=("$WORK/raw"/*-"$pid"-*.pb.gz)
	[[ -e ${files[0]} ]] || fail "raw: no profile of process $pid"
	build/spanprof-report --json "${files[@]}" >"$WORK/one.json"
	expect "$WORK/one.json" "$ns - 60e6 <= d['total']['ns'] <= $ns + 10e6"
	expect "$WORK/one.json" "[n['span_name'] for n in d['span_names'] if n['span_name'] != ''] == ['forking']"
	expect "$WORK/one.json" "d['labelled']['ns'] == d['total']['ns']"
done < <(awk '$1 == "child" { print $2, $3 }' "$WORK/raw.out")
