#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process ends promptly and with its own status, in every way of ending. If the profiler can make the process wait,
# its samples have arrived before it ends; otherwise the exporter sends them a little later.
# Runs alone: it judges durations.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly WORK_MS=1000 # what the host itself takes, on a busy machine

# arrived HOW: nearly all of the span's 200 ms have arrived
arrived()
{
	[[ -n $(profiles_in "$WORK/profiles.$1") ]] || return 1
	report "$WORK/profiles.$1" "$WORK/$1.json"
	[[ $(ask "$WORK/$1.json" 'any(n["span_name"] == "ending" and n["ns"] > 150e6 for n in d["span_names"])') == True ]]
}

# ending HOW STATUS arrives|later|lost [VARIABLE=VALUE]...
ending()
{
	local how=$1 status=$2 arrives=$3 limit=$((WORK_MS + 1000 * EXIT_LIMIT_S))

	shift 3
	mkdir -p "$WORK/profiles.$how"
	run "$how.plain" "$HOSTS/ending" "$how"
	expect_rc "$how.plain" "$status"
	run_under "$how" SPANPROF_OUTPUT_DIR="$WORK/profiles.$how" "$@" "$HOSTS/ending" "$how"
	expect_same "$how.plain" "$how" out err rc
	(($(result "$how.ms") <= $(result "$how.plain.ms") + limit)) ||
		fail "$how: took $(result "$how.ms") ms, $(result "$how.plain.ms") ms without us"
	case $arrives in
	arrives) arrived "$how" || fail "$how: not all of it is there" ;;
	later) poll_until 10 arrived "$how" || fail "$how: it is not delivered" ;;
	esac
}

ending return 40 arrives
ending exit 41 arrives
ending _exit 42 arrives
ending _Exit 43 arrives
ending quick_exit 44 arrives
ending thread_exit 45 arrives
ending handler_exit 46 arrives
ending open_span 40 arrives
ending main_thread_first 0 arrives
ending last_thread 0 arrives
# We get no control before these ends.
ending exit_group 47 later
ending abort 134 later
ending sigterm 143 later
ending exec 48 lost

# Without samples there is no wait: a missing server does not delay an exec.
run_under exec.quick SPANPROF_SERVER_ADDRESS=http://192.0.2.1:4040 "$HOSTS/replaced" execv
expect_rc exec.quick 0
(($(result exec.quick.ms) < 3000)) || fail "exec waited $(result exec.quick.ms) ms"

# A host can be set to end at once: no flush, and no wait for a server that does not answer.
double_start --fault blackhole=1,count=0
mkdir "$WORK/hurry"
run_under hurry SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_FLUSH_TIMEOUT=0 \
	"$HOSTS/ending" return
expect_rc hurry 40
run_under hurry.lost SPANPROF_SERVER_ADDRESS="http://127.0.0.1:$(refused_port)" SPANPROF_FLUSH_TIMEOUT=0 \
	SPANPROF_LOG_LEVEL=info SPANPROF_STATUS_FILE="$WORK/hurry.json" "$HOSTS/spend" 60
grep -q 'not waiting for the last push (SPANPROF_FLUSH_TIMEOUT=0)' "$WORK/hurry.lost.err" || fail "nobody tells"
(($(result hurry.ms) <= $(result return.plain.ms) + 1500)) || fail "FLUSH_TIMEOUT=0 waits"

# A host that we can hold up waits until the server has taken the last push.
double_start --ack-delay 1000
for how in return _exit _Exit quick_exit; do
	run_under "waits.$how" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" "$HOSTS/ending" "$how"
	(($(result "waits.$how.ms") >= 1000)) || fail "$how: does not wait"
done
