# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Common parts of the bench: paths, and answers with their targets.

readonly OBJECT=$PWD/build/libspanprof.so
readonly BENCH=build/test/bench
readonly DOUBLE=build/test/pyroscope-double
# shellcheck source=test/common/servers.bash
source test/common/servers.bash

# answer QUESTION FIGURE UNIT TARGET [FROM TO]: says whether the target is met, and adds a row to the table at the end
# of a full run. If the figure is only known to be between FROM and TO, and the target is between them too, the answer
# is open.
answer()
{
	local verdict

	verdict=$(awk -v figure="$2" -v target="$4" -v from="${5:-$2}" -v to="${6:-$2}" 'BEGIN {
		if (from + 0 <= target + 0 && target + 0 < to + 0)
			print "too noisy to say"
		else
			print (figure + 0 <= target + 0 ? "met" : "not met")
	}')
	[[ -z ${BENCH_ANSWERS-} ]] || echo "| $1 | $2 $3 | $4 $3 | $verdict |" >>"$BENCH_ANSWERS"
	echo "$verdict: at most $4 $3"
}
