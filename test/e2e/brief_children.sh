#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Forked children that use a few milliseconds have no sample or one. All profiles together have the CPU time that the
# kernel counted for the program and its children, of a host and of a shell's subshells. No time counts twice, also
# if exec fails or a child has a sample.
# Runs alone: it compares CPU time with clocks.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_PROFILE=always

# expect_share NAME USED_NS LEAST: the share of that time that is in the profiles
expect_share()
{
	report "$WORK/$1" "$WORK/$1.json"
	echo "$1: $(ask "$WORK/$1.json" "d['total']['ns'] / $2")"
	expect "$WORK/$1.json" "$3 < d['total']['ns'] / $2 < 1.03"
}

# brief MS HOW LEAST
brief()
{
	mkdir "$WORK/$2.$1"
	run_under "$2.$1" SPANPROF_OUTPUT_DIR="$WORK/$2.$1" SPANPROF_STATUS_FILE="$WORK/$2.$1.%p.status" "$HOSTS/brief_children" 200 "$1" "$2"
	expect_rc "$2.$1" 0
	expect_silent "$2.$1"
	expect_share "$2.$1" "$(value "$2.$1" cpu)" "$3"
}

brief 2 _exit 0.92
brief 5 _exit 0.95
brief 5 exit 0.95
brief 15 exit 0.95
# The executed program has no sample, and its loader takes any time. Each child has used 5 ms before.
brief 5 exec 0
expect "$WORK/exec.5.json" "d['total']['ns'] > 0.95 * 200 * 5000000"

# What the status calls unseen is in no profile.
parent=$(grep -l '"children_ns": [1-9]' "$WORK"/_exit.5.*.status)
expect "$parent" 'd["cpu_time"]["children_unseen_ns"] < 0.2 * d["cpu_time"]["children_ns"]'

# A shell, judged by its parent's clock of children.
mkdir "$WORK/shell"
cat >"$WORK/shell.py" <<'END'
import os, resource, subprocess, sys

loop = "for i in {1..200}; do (for j in {1..4000}; do :; done); done"
subprocess.run(["/bin/bash", "-c", loop], env=dict(os.environ, LD_PRELOAD=sys.argv[1]), check=True)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(int((used.ru_utime + used.ru_stime) * 1e9))
END
run shell SPANPROF_OUTPUT_DIR="$WORK/shell" SPANPROF_FLUSH_TIMEOUT=30s python3 "$WORK/shell.py" "$SO"
expect_rc shell 0
expect_share shell "$(<"$WORK/shell.out")" 0.87
