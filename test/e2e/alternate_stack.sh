#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs with an alternate signal stack of any size, or with one that is unmapped, end as without us and are
# sampled: with all frames if our handler need not run there, and without frames if the stack has no room for a walk.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=30s

# alternate NAME ARGUMENT...: leaves the status file and, if there are samples, NAME.folded.
alternate()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	run "$name.plain" "$HOSTS/alternate" "$@"
	expect_rc "$name.plain" 8
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_STATUS_FILE="$WORK/$name.status" \
		"$HOSTS/alternate" "$@"
	# There may be a message about a thread without a timer, because its stack is too small.
	sed -i "/spanprof\[.*threads\? had no timer: .* stack is too small/d" "$WORK/$name.err"
	expect_same "$name.plain" "$name" out err rc
	build/spanprof-report --folded "$WORK/$name" >"$WORK/$name.folded"
	report "$WORK/$name" "$WORK/$name.json"
	# Three times 100 ms of work, sampled or at least counted.
	expect "$WORK/$name.json" '280e6 < d["total"]["ns"] < 400e6'
}

# share NAME: the part of the sampled CPU time whose stacks reach the start of the program.
share()
{
	awk '!/\[unsampled cpu\]/ { total += $NF } /^_start;/ { rooted += $NF } END { printf "%d\n", 100 * rooted / total }' \
		"$WORK/$1.folded"
}

# No handler of the program runs there, so ours does not either.
for kind in unmapped readonly 2048 8192; do
	alternate "$kind" "$kind"
	expect "$WORK/$kind.json" 'd["labelled"]["ns"] > 250e6'
	(($(share "$kind") >= 95)) || fail "$kind: $(share "$kind") % of the samples are rooted"
done

# A handler of the program may run there. Then the stack must have room for the kernel's frame and for a sample. The
# program's own signal needs some 1 to 3.5 KiB, depending on the processor.
least=$(LD_SHOW_AUXV=1 /bin/true | awk '/AT_MINSIGSTKSZ/ { print $2 }')
least=${least:-2048}
((least >= 2048)) || least=2048 # sigaltstack() refuses less
for size in $((least + 256)) $((least + 1024)) $((least + 2048)) $((least + 4096)) $((least + 8192)); do
	alternate "handler.$size" "$size" handler
done
# The program's own signal may need less than that. If the stack is too small even for that signal, the program dies.
for size in 4096 4608 5120 6144; do
	run "small.$size" "$HOSTS/alternate" "$size" handler
	if [[ $(result "small.$size.rc") == 8 ]]; then
		alternate "fitting.$size" "$size" handler
	fi
done

# A handler of faults does not mean that other signals may use the alternate stacks. So ours does not use alternate
# stacks that are too small for a walk, and no thread lacks a timer. A stack with enough room is as large as Rust's,
# or larger.
for size in $((least > 8192 ? least : 8192)) $((least + 8192)) $((least + 16384)); do
	alternate "fault.$size" "$size" fault
	expect "$WORK/fault.$size.json" 'd["labelled"]["ns"] > 250e6'
	(($(share "fault.$size") >= 95)) || fail "fault.$size: $(share "fault.$size") % of the samples are rooted"
done
alternate roomy 65536 handler
(($(share roomy) >= 95)) || fail "roomy: $(share roomy) % of the samples are rooted"
