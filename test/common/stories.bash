# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Programs that tell a story with an SDK's spans, and whether we followed it. Sourced after
# test/e2e/lib.bash.

readonly CHECK_STORY=$ROOT/test/otelcpp/check.py
export SPANPROF_SAMPLE_RATE=250

# tell_under NAME SCOPE [VARIABLE=VALUE]... COMMAND...: leaves what run() does, NAME.spans and the folder
# NAME with the profiles.
tell_under()
{
	local name=$1 scope=$2

	shift 2
	echo "$name"
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_SPAN_ID_SCOPE="$scope" \
		SPANPROF_SPAN_NAME_SCOPE="$scope" FIXTURE_SPANS="$WORK/$name.spans" \
		OTELC_SPANS_JSON="$WORK/$name.spans" "$@"
}

# expect_told NAME SCOPE: the spans are what the host says, and the CPU time is that of the right ones.
expect_told()
{
	python3 "$CHECK_STORY" spans "$WORK/$1.out" "$WORK/$1.spans" "$2"
	report "$WORK/$1" "$WORK/$1.json"
	python3 "$CHECK_STORY" cpu "$WORK/$1.out" "$WORK/$1.spans" "$WORK/$1.json" "$2"
}

# expect_unprofiled NAME RC [VARIABLE=VALUE]... COMMAND...: what is not recorded is passed through.
expect_unprofiled()
{
	local name=$1 rc=$2

	shift 2
	tell_under "$name" all "$@"
	expect_rc "$name" "$rc"
	expect_silent "$name"
	[[ -z $(profiles_in "$WORK/$name") ]] || fail "$name: a profile without a recorded span"
}

# calls NAME RUNNER [VARIABLE=VALUE]... COMMAND...: a story of a stand-in's; leaves NAME.calls, what that
# was asked.
calls()
{
	local name=$1 runner=$2

	shift 2
	rm -f "$WORK/$name.calls"
	"$runner" "$name" FIXTURE_CALLS="$WORK/$name.calls" "$@"
	expect_rc "$name" 7
}

# calls_of_host NAME: without those that we made.
calls_of_host()
{
	grep -v '^ours ' "$WORK/$1.calls" || true
}

# count_ours NAME PATTERN
count_ours()
{
	grep -cE "^ours $2" "$WORK/$1.calls" || true
}

# said NAME: by the host, without the time it took.
said()
{
	grep -v '^cpu ' "$WORK/$1.out"
}

# same_calls NAME ALLOWED [VARIABLE=VALUE]... COMMAND...: the runs plain and under, without and with us, are
# the same to the host and to the SDK, but for calls of ours that match what is allowed.
same_calls()
{
	local name=$1 allowed=$2

	shift 2
	calls plain run "$@"
	calls under run_under "$@"
	[[ -s $WORK/plain.calls ]] || fail "$name: the host calls nothing"
	[[ $(count_ours plain '') == 0 ]] || fail "$name: calls of nobody"
	diff <(said plain) <(said under) || fail "$name: the host sees another result"
	diff <(calls_of_host plain) <(calls_of_host under) || fail "$name: other calls than the host's"
	if grep '^ours ' "$WORK/under.calls" | grep -Ev "$allowed"; then
		fail "$name: a call that nobody asked for"
	fi
}
