#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Six programs that others wrote end and print as without the profiler, with all profiles on too, and their CPU time is in
# their profiles, as the kernel's cgroups count it. "make programs" does the same with sixty, in roots of their own.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 unshare busybox go node gcc xz bwrap
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || skip 'needs Python 3.11'
python3 test/programs/programs_test.py 2>"$WORK/judge.err" || fail "$(<"$WORK/judge.err")"
((EUID == 0)) || skip 'needs root for cgroups, process events and namespaces'
mkdir -p "$WORK/cgroup"
unshare --mount mount -t cgroup2 none "$WORK/cgroup" 2>/dev/null || skip 'no cgroups of version 2 here'
unshare --user true 2>/dev/null || skip 'no user namespaces here'
rc=0
python3 test/programs/programs.py --here --rounds 1 --modes plain,100,1000-all >"$WORK/lane.out" 2>&1 || rc=$?
cat "$WORK/lane.out"
((rc != 77)) || skip "$(<"$WORK/lane.out")"
((rc == 0)) || fail 'see above'
grep -qx '6 rows, 0 bad' "$WORK/lane.out" || fail 'not all six'
