#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-report and a folder of many days: --from and --to, also of a comparison, choose files by the time in their names,
# so that only those are opened that can have a profile of that time, and none is missed. Of memory in use those alone are
# opened that can be the last one of their process. The page of --serve reads each new file once.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 strace
readonly TIMES=$ROOT/test/e2e/report_times.py REPORT=$ROOT/build/spanprof-report
readonly OLD=20000

# opened CALLS: the number of opened profiles.
opened()
{
	grep -c 'openat(.*\.pb\.gz"' "$1" || true
}

mkdir "$WORK"/{ours,foreign,crowd}
python3 "$TIMES" make "$WORK/ours" "$WORK/foreign"
python3 "$TIMES" windows "$REPORT" "$WORK/ours" "$WORK/foreign" || fail "names choose other profiles"

python3 "$TIMES" crowd "$WORK/crowd" "$OLD"
for number in 1 2 3; do
	python3 "$TIMES" now "$WORK/crowd" "$number"
done
# A name without a time.
cp "$WORK/foreign/001.pb.gz" "$WORK/crowd"
run recent strace -f -e trace=openat -o "$WORK/calls" "$REPORT" --json --from -1m "$WORK/crowd"
expect_rc recent 0
expect_silent recent
expect "$WORK/recent.out" 'd["profiles"] == 3 and d["total"]["samples"] == 6'
[[ $(opened "$WORK/calls") == 4 ]] || fail "$(opened "$WORK/calls") of $OLD files are opened"
run early strace -f -e trace=openat -o "$WORK/calls" "$REPORT" --json --to -365d "$WORK/crowd"
expect_rc early 1
[[ $(opened "$WORK/calls") == 1 ]] || fail "$(opened "$WORK/calls") of $OLD files are opened"

# A comparison reads the files of both times, and with other spans, whose name has to be found first, twice.
python3 "$TIMES" before "$WORK/crowd" 4
run compared strace -f -e trace=openat -o "$WORK/calls" "$REPORT" --json --from -1m --baseline-from -5m --baseline-to -1m \
	"$WORK/crowd"
expect_rc compared 0
[[ $(opened "$WORK/calls") == 6 ]] || fail "compared: $(opened "$WORK/calls") of $OLD files are opened"
run diff strace -f -e trace=openat -o "$WORK/calls" "$REPORT" --json --from -5m --span 0000000000000003 --diff "$WORK/crowd"
expect_rc diff 0
[[ $(opened "$WORK/calls") == 10 ]] || fail "diff: $(opened "$WORK/calls") of $OLD files are opened"

# Memory in use: what is chosen by names is what a model finds; of two processes the last files are opened, each twice.
mkdir "$WORK"/{in_use,blocks}
python3 "$TIMES" in_use "$REPORT" "$WORK/in_use" || fail "names choose other profiles of memory in use"
python3 "$TIMES" blocks "$WORK/blocks" 3000
run blocks strace -f -e trace=openat -o "$WORK/calls" "$REPORT" --json --type inuse_space "$WORK/blocks"
expect_rc blocks 0
expect "$WORK/blocks.out" 'd["profiles"] == 2 and d["total"]["bytes"] == 3 << 20'
[[ $(opened "$WORK/calls") == 4 ]] || fail "$(opened "$WORK/calls") of 6000 files of memory in use are opened"

# The page, with new files coming, one that is damaged, and old ones going.
strace -f -e trace=openat -o "$WORK/serve.calls" "$REPORT" --serve 0 "$WORK/ours" >"$WORK/said" 2>&1 </dev/null &
STARTED+=("$!")
disown "$!"
poll_until 20 grep -q '^http://127.0.0.1:[0-9]*/' "$WORK/said" || fail "it does not start: $(<"$WORK/said")"
port=$(sed -nE 's|^http://127.0.0.1:([0-9]+)/.*|\1|p' "$WORK/said")
python3 "$TIMES" news "$port" "$WORK/ours" "$WORK/serve.calls" || fail "what was read is read again"
kill "$(pgrep -P "${STARTED[-1]}" || true)" 2>/dev/null || true
