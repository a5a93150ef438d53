#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A server that hangs delays only the requests to it: each profile begins where the last one ended and lasts an upload
# interval.
# Runs alone: it judges durations.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly INTERVAL_MS=400
double_start --fault blackhole=1,count=0
mkdir "$WORK/profiles"
run_under host SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_OUTPUT_DIR="$WORK/profiles" \
	SPANPROF_UPLOAD_INTERVAL="${INTERVAL_MS}ms" SPANPROF_PUSH_TIMEOUT=20s SPANPROF_FLUSH_TIMEOUT=1500ms \
	"$HOSTS/requests" $((INTERVAL_MS * 6))
expect_rc host 19
# One request while the process runs, and at its end all waiting profiles in parallel.
all_have_come()
{
	double_get /double/stats "$WORK/stats.json"
	[[ $(ask "$WORK/stats.json" '2 <= d["faults"]["served"] <= 7') == True ]]
}
poll_until 10 all_have_come || fail "not all at the end: $(<"$WORK/stats.json")"
PYTHONPATH=$ROOT/test/common python3 - "$INTERVAL_MS" "$WORK/profiles"/*.pb.gz <<'END' || fail "profiles are not in time"
import gzip, sys
from pb import fields


def times(path):
    """time_nanos and duration_nanos of a pprof"""
    found = dict(fields(gzip.open(path).read()))
    return found[9], found[10]


interval = int(sys.argv[1]) * 1000000
all_times = sorted(times(path) for path in sys.argv[2:])
for begin, duration in all_times:
    print("begin %.3f s, lasts %.3f s" % ((begin - all_times[0][0]) / 1e9, duration / 1e9))
assert len(all_times) >= 5
# The last profiles come from flushes, and must not overlap either.
assert all(duration < 2 * interval for _, duration in all_times)
for (begin, duration), (following, _) in zip(all_times, all_times[1:]):
    assert abs(following - begin - duration) < 20000000, "a gap"
END
