#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs in the emulated machine (boot.sh), as root: Yama's four settings, of which the kernel accepts the last only
# once, and the tests that use the kernel most: signals, timers, users, memory limits, mappings of other processes.
# Tests that judge times or shares are left out: an emulated processor is some ten times slower than a real one. On
# aarch64 the conformance matrix runs as well, with 30 random pairs of SDK and way, unless the kernel's command line
# has kernels.pairs=N, or all.
set -uo pipefail

readonly SCOPE=/proc/sys/kernel/yama/ptrace_scope
TESTS=(exporter_process hands_off hosts little_room pending_signals setuid setxid signal_taken vfork_mask)
# Not with valgrind, nor, on aarch64, in threads with stacks that its C library does not allow.
export HOSTS_ROWS='[!tv]*'
# If a start takes longer than 50 ms, or the exporter comes late, samples are lost, and there is a message.
export HOSTS_TOLD='spans? ha.* no samples: the table of threads|found no room in the ring buffer|for whose name the ring buffer had no room'
export MATRIX_TOLD='spans? ha.* no samples: the table of threads'
export TEST_PATIENCE=10
# Tests with a limit in seconds, or in which one thread has to be as fast as others.
SLOW=" exporter_family hash_index ring run sampler thread_mask "
export SPANPROF_TEST_TRIES=1 YAMA_TURNS=40
failed=0

# The programs for this processor are in a separate folder, which replaces the build.
if [[ $(uname -m) == aarch64 ]]; then
	ln -s . build/aarch64/aarch64
	mount --bind build/aarch64 build
	# That processor and its C library do not have these, with an emulator of system calls or without.
	export SPANPROF_TEST_SKIPS=/tmp/skips
	# Its root has no compiler and no valgrind.
	SLOW+="symbolize "
	sed -n 's|^unit aarch64/\(.*: no small stacks here\)$|unit \1|p; s|^unit aarch64/\(.*: its contexts .*\)$|unit \1|p' \
		test/skips >"$SPANPROF_TEST_SKIPS"
	printf 'e2e test/e2e/%s\n' 'setxid, in part: * has no -fsanitize=*' 'exporter_process, in part: valgrind is not installed' \
		>>"$SPANPROF_TEST_SKIPS"
else
	HOSTS_ROWS='[!v]*'
	SLOW+="family_server unwind_snapshot "
fi
# Of the exporter's unit tests only those about processes: the kernel does not matter for reading a file or writing a
# profile, and these take most of the time.
UNITS=(build/release/test/unit/{core,preload,sampler}/test_*
	build/release/test/unit/export/test_{host_objects,modules,symbolize,task,unwind_snapshot,wait_stack})
[[ $(uname -m) == aarch64 ]] || UNITS+=(build/release/test/unit/exporter/test_*)
echo "kernel: $(uname -r) on $(uname -m), $(nproc) processors"

# yama SETTING
yama()
{
	echo "$1" >"$SCOPE" || failed=1
	test/run.sh e2e=test/e2e/yama.sh || failed=1
	grep "^yama: scope $1," build/test/logs/e2e-test-e2e-yama.log || failed=1
}

yama 0
yama 1
items=()
for program in "${UNITS[@]}" build/release/test/stress/*; do
	name=${program##*/}
	[[ ! -x $program || -d $program || $SLOW == *" ${name#test_} "* ]] || items+=("$(cut -d / -f 4 <<<"$program")=$program")
done
for name in "${TESTS[@]}"; do
	items+=("e2e=test/e2e/$name.sh")
done
test/run.sh "${items[@]}" || failed=1
# Ways of linking and loading, which take longer than the rest.
MATRIX_PAIRS=$(sed -n 's/.*kernels\.pairs=\([^ ]*\).*/\1/p' /proc/cmdline)
export MATRIX_PAIRS=${MATRIX_PAIRS:-30}
[[ $(uname -m) != aarch64 ]] || bash test/conformance/matrix.sh || failed=1
yama 2
yama 3
exit "$failed"
