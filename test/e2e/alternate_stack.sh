#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs with an alternate signal stack of any size, or with one that is gone by now, end as without us
# and are sampled: with all frames where our handler need not run there, and without where the stack has
# no room for a walk.
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
	# A thread that has no timer for want of room is told of.
	sed -i "/spanprof\[.*threads\? had no timer: .* stack is too small/d" "$WORK/$name.err"
	expect_same "$name.plain" "$name" out err rc
	build/spanprof-report --folded "$WORK/$name" >"$WORK/$name.folded"
	report "$WORK/$name" "$WORK/$name.json"
	# Three times 100 ms of work, sampled or at least accounted.
	expect "$WORK/$name.json" '280e6 < d["total"]["ns"] < 400e6'
}

# share NAME: of the sampled CPU time what is rooted at the start of the program.
share()
{
	awk '!/\[unsampled cpu\]/ { total += $NF } /^_start;/ { rooted += $NF } END { printf "%d\n", 100 * rooted / total }' \
		"$WORK/$1.folded"
}

# Nobody's handler runs there, and neither does ours.
for kind in unmapped readonly 2048 8192; do
	alternate "$kind" "$kind"
	expect "$WORK/$kind.json" 'd["labelled"]["ns"] > 250e6'
	(($(share "$kind") >= 95)) || fail "$kind: $(share "$kind") % of the samples are rooted"
done

# A handler of the program's own may: then the stack has to be large enough for what the kernel puts there
# and for a sample. The program's own signal needs some 1 to 3.5 KiB itself, by processor.
least=$(LD_SHOW_AUXV=1 /bin/true | awk '/AT_MINSIGSTKSZ/ { print $2 }')
least=${least:-2048}
for size in $((least + 256)) $((least + 1024)) $((least + 2048)) $((least + 4096)) $((least + 8192)); do
	alternate "handler.$size" "$size" handler
done
# What the program's own signal needs in truth may be much less; where even that does not fit it dies.
for size in 4096 4608 5120 6144; do
	run "small.$size" "$HOSTS/alternate" "$size" handler
	if [[ $(result "small.$size.rc") == 8 ]]; then
		alternate "handler.$size" "$size" handler
	fi
done

# A handler of faults says nothing about the stacks that are too small for others, so ours leaves the alternate ones to it
# where they have no room for a walk, and nobody lacks a timer. What fits is as large as Rust's, or larger.
for size in $((least > 8192 ? least : 8192)) $((least + 8192)) $((least + 16384)); do
	alternate "fault.$size" "$size" fault
	expect "$WORK/fault.$size.json" 'd["labelled"]["ns"] > 250e6'
	(($(share "fault.$size") >= 95)) || fail "fault.$size: $(share "fault.$size") % of the samples are rooted"
done
alternate roomy 65536 handler
(($(share roomy) >= 95)) || fail "roomy: $(share roomy) % of the samples are rooted"
