#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Generated plugins without a build id come and go at each other's addresses: each with its own path, each replacing
# the last one by rename, or each written into the same file. Six take the same time, so none may have more than a
# sixth of it under its name. Unknown code has the name of the file, and no stack mixes two plugins. Except for the
# first ones, each plugin stays mapped long enough to be read.
# Their machine code and the first page of their files differ only in names.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need gcc python3
readonly PLUGINS=6 ROUNDS=36 MS=50

chmod 755 "$WORK"
for ((i = 0; i < PLUGINS; i++)); do
	cat >"$WORK/plugin.c" <<END
#include "test/hosts/host.h"
__attribute__((noinline)) static void work_$i(int ms)
{
	host_burn_ms(ms);
	__asm__ volatile("" ::: "memory");
}
void kernel_$i(int ms)
{
	work_$i(ms);
	__asm__ volatile("" ::: "memory");
}
END
	gcc -O1 -I. -fPIC -shared -Wl,--build-id=none -o "$WORK/$i.so" "$WORK/plugin.c"
done

# check NAME LEAST: at least that share of the time has the name of a plugin's function.
check()
{
	build/spanprof-report --folded "$WORK/$1.d" >"$WORK/$1.folded"
	python3 - "$WORK/$1.folded" "$2" $((ROUNDS * MS / PLUGINS)) <<'END' || fail "$1: see above"
import re, sys
from collections import Counter

named, nameless, mixed = Counter(), 0, 0
for line in open(sys.argv[1]):
    stack, ns = line.rsplit(" ", 1)
    kernel = set(re.findall(r"\bkernel_(\d)\b(?!\.)", stack))
    work = set(re.findall(r"\bwork_(\d)\b", stack))
    if len(kernel | work) > 1 or (work and not kernel):
        mixed += int(ns) / 1e6
        print(line, end="", file=sys.stderr)
    elif kernel:
        named[kernel.pop()] += int(ns) / 1e6
    elif re.search(r"\b(kernel|\d)\.so", stack):
        nameless += int(ns) / 1e6
# At 1000 Hz the kernel's times are exact to some milliseconds in 300.
most = int(sys.argv[3]) * 1.15
print(dict(named), "nameless", nameless)
if mixed or any(ms > most for ms in named.values()):
    sys.exit(f"a plugin has another one's time: {dict(named)} of {most} at most, mixed {mixed}")
if sum(named.values()) < float(sys.argv[2]) * (sum(named.values()) + nameless):
    sys.exit(f"too little has a name: {dict(named)}, nameless {nameless}")
END
}

# profiled NAME HOW LEAST INTERVAL COMMAND...
profiled()
{
	local name=$1 how=$2 least=$3 interval=$4

	shift 4
	mkdir -m 777 "$WORK/$name" "$WORK/$name.d"
	cp "$WORK"/?.so "$WORK/$name"
	chmod 644 "$WORK/$name"/*
	run_under "$name" SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_UPLOAD_INTERVAL="$interval" \
		SPANPROF_OUTPUT_DIR="$WORK/$name.d" "$@" "$HOSTS/kernels" "$how" "$ROUNDS" "$MS" "$WORK/$name" "$PLUGINS"
	expect_rc "$name" 21
	check "$name" "$least"
}

profiled paths paths 0.6 10s
profiled paths.often paths 0.6 300ms
profiled rename rename 0.6 10s
profiled rename.often rename 0.6 300ms
profiled write write 0.6 10s
profiled write.often write 0.6 300ms
if has_nobody; then
	as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	profiled paths.nobody paths 0.6 1s "${as_nobody[@]}"
	profiled rename.nobody rename 0.6 1s "${as_nobody[@]}"
	profiled write.nobody write 0.6 1s "${as_nobody[@]}"
fi
echo "each plugin has its own time"
