#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Runs in the emulated machine (boot.sh), as root: Yama's four settings, of which the kernel takes the last only once, and
# what asks the kernel most: signals, timers, users, memory limits, mappings of other processes. Not the tests that
# judge times or shares: an emulated processor is some ten times slower than this one. On aarch64 the conformance matrix
# as well, of which 30 pairs of SDK and way are drawn where the kernel's command line has no kernels.pairs=N, or all.
set -uo pipefail

readonly SCOPE=/proc/sys/kernel/yama/ptrace_scope
TESTS=(exporter_process hands_off hosts little_room pending_signals setuid setxid signal_taken vfork_mask)
# Not below valgrind, nor, on aarch64, in threads with stacks that its C library does not give.
export HOSTS_ROWS='[!tv]*'
# Where a start takes longer than 50 ms, or the exporter comes late, something is lost, and told as promised.
export HOSTS_TOLD='spans? started on .* not known|found the ring buffer full|for whose name the ring buffer had no room'
export MATRIX_TOLD='spans? started on .* not known'
export TEST_PATIENCE=10
# What has a limit in seconds, or wants one thread to keep up with others.
SLOW=" exporter_family hash_index ring run sampler thread_mask "
export SPANPROF_TEST_TRIES=1 YAMA_TURNS=40
failed=0

# The programs for this processor are in a folder of their own, which takes the place of the build.
if [[ $(uname -m) == aarch64 ]]; then
	ln -s . build/aarch64/aarch64
	mount --bind build/aarch64 build
	# What that processor and its C library do not have, with an emulator of system calls or without.
	export SPANPROF_TEST_SKIPS=/tmp/skips
	# There is no compiler and no valgrind in its root.
	SLOW+="symbolize "
	sed -n 's|^unit aarch64/\(.*: no small stacks here\)$|unit \1|p; s|^unit aarch64/\(.*: its contexts .*\)$|unit \1|p' \
		test/skips >"$SPANPROF_TEST_SKIPS"
	printf 'e2e test/e2e/%s\n' 'setxid, in part: * has no -fsanitize=*' 'exporter_process, in part: valgrind is not installed' \
		>>"$SPANPROF_TEST_SKIPS"
else
	HOSTS_ROWS='[!v]*'
	SLOW+="family_server unwind_snapshot "
fi
# Of the exporter's unit tests those that look at processes: no kernel decides how a file is read or a profile written, and
# most of the time would go into those.
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
