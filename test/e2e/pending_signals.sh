#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Each timer takes an entry of RLIMIT_SIGPENDING, which belongs to the host. Under a tiny limit the host still gets
# all the timers and queued signals that it would get without us. A message says how many threads are not sampled, and
# why, and they are sampled as soon as there is room.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 unshare
# The limit counts all processes of a user, so this test needs a user of its own.
unshare --user --map-root-user true 2>/dev/null || skip "no user namespaces here"
[[ -r /proc/self/timers ]] || skip "this kernel does not list timers"

limited()
{
	local name=$1

	shift
	run_under "$name" "$@" unshare --user --map-root-user bash -c 'ulimit -S -i 40 && exec "$@"' limited \
		"$HOSTS/pending" ${WANTED:+"$WANTED"}
}

mkdir "$WORK/profiles"
run plain unshare --user --map-root-user bash -c 'ulimit -S -i 40 && exec "$@"' limited "$HOSTS/pending"
expect_rc plain 0
[[ $(result plain.out) == "8 timers, 10 signals queued, 10 taken"$'\n'"8 timers, 10 signals queued, 10 taken" ]] ||
	fail "without us: $(result plain.out)"
WANTED=$WORK/wanted limited under SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_UPLOAD_INTERVAL=300ms SPANPROF_FLUSH_TIMEOUT=30s \
	SPANPROF_STATUS_FILE="$WORK/status.json"
expect_same plain under out rc
diff - "$WORK/wanted" <<'END' || fail "not the timers that there must be"
at first 20
others ended 11
more 20
limit raised 41
END

# 11 of 31 threads had to wait at first, then 21 of the 30 new ones, or more if the host's own use was noticed; each
# of the 61 counts once.
expect "$WORK/status.json" '32 <= d["loss"]["threads_unarmed_limit"] <= 61'
expect "$WORK/status.json" 'd["loss"]["threads_unarmed_refused"] == d["loss"]["threads_without_block"] == 0'
grep -q '[0-9] threads\? had no timer: half of RLIMIT_SIGPENDING is in use' "$WORK/under.err" || fail "nobody told: $(result under.err)"
