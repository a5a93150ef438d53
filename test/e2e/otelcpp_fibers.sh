#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs with their own context storage. If the storage belongs to fibers, attach and detach on a thread do not say
# which span runs there: hardly any sample has the span of another fiber, and one message says that scopes label
# nothing. If the storage belongs to threads, scopes label samples as usual.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
[[ -x $TEST_LIBS/otelcpp/debian/fibers ]] || skip "Boost.Context is not installed"
export SPANPROF_SAMPLE_RATE=250 SPANPROF_FLUSH_TIMEOUT=30s
readonly MS=1000

# fibers BUILD HOW THREADS [VARIABLE=VALUE]...: writes NAME.shares, "RIGHT WRONG NONE" of the work's CPU time.
fibers()
{
	local build=$1 how=$2 threads=$3

	shift 3
	NAME=$build.$how.$threads
	mkdir "$WORK/$NAME"
	run_under "$NAME" SPANPROF_OUTPUT_DIR="$WORK/$NAME" SPANPROF_STATUS_FILE="$WORK/$NAME.status" "$@" \
		"$TEST_LIBS/otelcpp/$build/fibers" "$how" "$threads" "$MS"
	expect_rc "$NAME" 0
	build/spanprof-report --folded --by span "$WORK/$NAME" >"$WORK/$NAME.folded"
	# Each worker burns its time in its own function; the last one has no spans.
	python3 - "$WORK/$NAME.folded" "$MS" >"$WORK/$NAME.shares" <<'END' || fail "$NAME: $(<"$WORK/$NAME.folded")"
import re, sys
right = wrong = none = unlabelled = 0
for line in open(sys.argv[1]):
    stack, ns = line.rsplit(" ", 1)
    at = re.search(r";leaf_(\d)", stack)
    label = re.match(r"worker_(\d);", stack)
    if at is None:
        continue
    if label is None and at.group(1) == "7":
        unlabelled += int(ns)
    elif label is None:
        none += int(ns)
    elif label.group(1) == at.group(1):
        right += int(ns)
    else:
        wrong += int(ns)
total = right + wrong + none + unlabelled
if total < 0.3e6 * int(sys.argv[2]):
    sys.exit(1)
print("%.4f %.4f %.4f" % tuple(ns / total for ns in (right, wrong, none)))
END
	echo "$NAME: right, wrong, without a label: $(<"$WORK/$NAME.shares")"
}

# share WORDS: an expression over the three shares
share()
{
	read -r right wrong none <"$WORK/$NAME.shares"
	python3 -c "import sys; right, wrong, none = map(float, sys.argv[2:]); sys.exit(not ($1))" \
		"$1" "$right" "$wrong" "$none" || fail "$NAME: not so: $1"
}

readonly FACT="the program's own context storage"
for how in 'pinned 1' 'pinned 4' 'migrating 1' 'migrating 4'; do
	# shellcheck disable=SC2086
	fibers debian $how
	share 'wrong <= 0.01'
	[[ $(grep -c 'spanprof\[' "$WORK/$NAME.err") == 1 ]] || fail "$NAME: $(<"$WORK/$NAME.err")"
	grep -F "opentelemetry-cpp, ABI v1: $FACT is not understood: " "$WORK/$NAME.err" >/dev/null ||
		fail "$NAME: $(<"$WORK/$NAME.err")"
	expect "$WORK/$NAME.status" \
		"[u['fact'] for s in d['sdks'] for u in s['not_understood']] == [\"$FACT\"]"
done
fibers static_v1 migrating 4
share 'wrong <= 0.01'

for build in debian static_v1; do
	fibers "$build" threads 8
	expect_silent "$NAME"
	share 'wrong == 0 and none <= 0.03 and right >= 0.7'
	expect "$WORK/$NAME.status" "[s['not_understood'] for s in d['sdks']] == [[]]"
done
