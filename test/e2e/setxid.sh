#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A worker gives up its privileges after a fork: the C library sends a signal to every thread of the process to do the
# same, and waits for all of them; and the exporter follows.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR=$WORK
readonly WORKER='import os
def work(): sum(range(2000000))
def drop():
    os.setgid(os.getgid())
    os.setuid(os.getuid())
work(); drop()
if os.fork() == 0:
    work(); drop(); work()
    os._exit(7)
print(os.waitstatus_to_exitcode(os.wait()[1]))'

run_under worker python3 -S -c "$WORKER"
expect_rc worker 0
[[ $(result worker.out) == 7 ]] || fail "the worker ended with $(result worker.out)"
# python3 may be a script that starts the real one.
[[ $(profiles_in "$WORK" | grep -c service_python) == 2 ]] || fail "not both processes were profiled"

# The same tests as in hosts.table, in programs with sanitizers, which stand between the C library and the kernel and
# change signals and threads. The program prints and ends as without us, and sampling goes on.
tried=()
# sanitized COMPILER OPTION PRELOADED
sanitized()
{
	local name=$1.$2

	"$1" "-fsanitize=$2" -O1 -I. -o "$WORK/$name" test/hosts/setxid.c -L"$TEST_LIBS" -lfixture-otelc \
		-Wl,-rpath,"$TEST_LIBS" -lpthread 2>/dev/null || {
		left_out "$1 has no -fsanitize=$2"
		return 0
	}
	# Without address randomization, because the thread sanitizer of gcc 12 cannot map its memory on machines with
	# much of it.
	run "$name.plain" setarch -R "$WORK/$name"
	[[ $(result "$name.plain.rc") == 12 ]] || {
		left_out "$name: the sanitizer alone reports something"
		return 0
	}
	mkdir "$WORK/$name.d"
	run "$name.under" LD_PRELOAD="$3" SPANPROF_OUTPUT_DIR="$WORK/$name.d" SPANPROF_SAMPLE_RATE=1000 \
		setarch -R "$WORK/$name"
	expect_same "$name.plain" "$name.under" rc out
	# Our own messages are no reports.
	sed -i '/^spanprof\[/d' "$WORK/$name.under.err"
	expect_same "$name.plain" "$name.under" err
	report "$WORK/$name.d" "$WORK/$name.json"
	expect "$WORK/$name.json" 'd["labelled"]["ns"] > 200e6'
	tried+=("$name")
}
sanitized gcc address "$(realpath "$(gcc -print-file-name=libasan.so)"):$SO"
sanitized gcc thread "$SO"
sanitized clang address "$SO"
sanitized clang thread "$SO"
echo "with sanitizers: ${tried[*]:-none installed}"
