#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# The status file of each process is true: it agrees with what the double received.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
export SPANPROF_UPLOAD_INTERVAL=300ms SPANPROF_SAMPLE_RATE=250

mkdir "$WORK/status"
double_start --ack-delay 0
run_under host SPANPROF_SERVER_ADDRESS="${DOUBLE_URL/\/\////user:s3cret@}" \
	SPANPROF_STATUS_FILE="$WORK/status/host.json" OTEL_SERVICE_NAME=shop "$HOSTS/spans" 600
expect_rc host 0
expect_silent host
expect_clean_double
double_get /double/spans "$WORK/spans.json"
status=$WORK/status/host.json
expect "$status" 'd["service"] == "shop" and d["state"] == "ending"'
expect "$status" '[s["name"] for s in d["sdks"]] == ["opentelemetry-cpp, ABI v1"]'
expect "$status" 'd["sdks"][0]["spans_started"] == d["spans"]["started"] > 0'
expect "$status" 'd["spans"]["ended"] == d["spans"]["started"] and d["spans"]["open"] == 0'
expect "$status" 'd["samples"]["put"] == d["samples"]["drained"] > 0'
expect "$status" "d['samples']['with_span'] == $(ask "$WORK/spans.json" 'd["with_span"]["samples"]')"
expect "$status" "d['samples']['without_span'] == $(ask "$WORK/spans.json" 'd["without_span"]["samples"]')"
expect "$status" 'set(d["loss"].values()) == {0}'
expect "$status" "d['push']['address'] == '$DOUBLE_URL' and d['push']['last_status'] == 200"
expect "$status" "d['push']['attempts'] == $(ask "$WORK/stats.json" 'd["requests"]["200"]')"
expect "$status" 'd["push"]["last_error"] == "" and abs(d["push"]["server_time_skew_ms"]) < 60000'
[[ -z $(find "$WORK/status" -name '*.tmp') ]] || fail "a part of a file is left"
if grep -q s3cret "$status"; then
	fail "a secret in the status file"
fi
build/spanprof-report --status "$status" >"$WORK/words"
grep -q '^lost      nothing$' "$WORK/words" || fail "$(<"$WORK/words")"

# A path that is no file stays unchanged, and no process waits for a reader of it.
mkfifo "$WORK/fifo"
run_under fifo SPANPROF_OUTPUT_DIR="$WORK/fifo.out" SPANPROF_STATUS_FILE="$WORK/fifo" "$HOSTS/spans" 300
expect_rc fifo 0
[[ -p $WORK/fifo ]] || fail "the FIFO was replaced"
[[ $(grep -c "cannot write the status file $WORK/fifo: it is not a regular file" "$WORK/fifo.err") == 1 ]] ||
	fail "not told once: $(result fifo.err)"

# Each forked child has its own status.
run_under prefork SPANPROF_OUTPUT_DIR="$WORK/out" SPANPROF_STATUS_FILE="$WORK/status/fork.%p" \
	"$HOSTS/prefork" before
expect_rc prefork 12
while read -r _ pid; do
	expect "$WORK/status/fork.$pid" "d['pid'] == $pid and d['samples']['with_span'] > 0"
	expect "$WORK/status/fork.$pid" 'd["push"] is None'
done <"$WORK/prefork.out"

# If half of its children's CPU time is in a program without the profiler, the parent's status names that program. The
# test compares with the parent's getrusage().
cat >"$WORK/parent.py" <<-'END'
	import os, resource, subprocess, sys
	bare = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
	burn = "import time\nwhile time.process_time() < 0.4: pass\nprint(flush=True)\ninput()"
	children = [subprocess.Popen([sys.executable, "-c", burn], env=bare, stdin=subprocess.PIPE,
	                             stdout=subprocess.PIPE) for _ in range(4)]
	for child in children:
	    child.stdout.readline()
	for child in children[:2]:
	    child.communicate(b"\n")
	used = resource.getrusage(resource.RUSAGE_CHILDREN)
	print(used.ru_utime + used.ru_stime, flush=True)
END
python=$(python3 -c 'import os, sys; print(os.path.realpath(sys.executable))')
run_under parent SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/parent.profiles" \
	SPANPROF_STATUS_FILE="$WORK/status/parent" "$python" "$WORK/parent.py"
expect_rc parent 0
parent=$WORK/status/parent
waited=$(<"$WORK/parent.out")
expect "$parent" "abs(d['cpu_time']['children_ns'] / 1e9 - $waited) < 0.03"
expect "$parent" 'len(d["cpu_time"]["without_profiler"]) == 1'
expect "$parent" 'd["cpu_time"]["without_profiler"][0]["program"].startswith("python3")'
expect "$parent" 'd["cpu_time"]["without_profiler"][0]["why"] == "environment"'
expect "$parent" 'd["cpu_time"]["without_profiler"][0]["processes"] == 4'
expect "$parent" "d['cpu_time']['without_profiler'][0]['cpu_ns'] + d['cpu_time']['children_unseen_ns'] > ($waited + 0.75) * 1e9"
expect "$parent" 'any("4 processes of \"python3" in p["text"] for p in d["problems"])'

# The status has all CPU time in the profiles, even if the process was killed after its clock was last read.
run_under killed SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/killed.profiles" \
	SPANPROF_STATUS_FILE="$WORK/status/killed" "$python" -c 'import os, time
while time.process_time() < 1.9: pass
os.kill(os.getpid(), 15)'
expect_rc killed 143
all_taken()
{
	[[ $(ask "$WORK/status/killed" 'd["cpu_time"]["profiled_ns"] > 1.7e9') == True ]]
}
poll_until 20 all_taken || fail "what it used is not profiled: $(<"$WORK/status/killed")"
expect "$WORK/status/killed" 'd["cpu_time"]["process_ns"] >= d["cpu_time"]["profiled_ns"]'

# The master of a daemon uses almost no time itself, but its status has the time of the processes for which it has
# waited.
cat >"$WORK/master.py" <<-'END'
	import os, subprocess, sys
	master = os.fork()
	if master == 0:
	    bare = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
	    subprocess.run([sys.executable, "-c", "import time\nwhile time.process_time() < 0.4: pass"], env=bare, check=True)
	    sys.exit(0)
	os.waitpid(master, 0)
	print(master)
END
run_under master SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=10 SPANPROF_OUTPUT_DIR="$WORK/master.profiles" \
	SPANPROF_STATUS_FILE="$WORK/status/master.%p" "$python" "$WORK/master.py"
expect_rc master 0
expect "$WORK/status/master.$(<"$WORK/master.out")" '0.37e9 < d["cpu_time"]["children_unseen_ns"] < 0.7e9'
expect "$WORK/status/master.$(<"$WORK/master.out")" 'any("processes that it has started used 0." in p["text"] for p in d["problems"])'

# There is no server: the exporter goes on trying without the host, and then counts the loss.
all_lost()
{
	[[ $(ask "$status" 'd["loss"]["batches_unsent_at_exit"] > 0') == True ]]
}
run_under away SPANPROF_SERVER_ADDRESS="http://127.0.0.1:$(refused_port)" \
	SPANPROF_STATUS_FILE="$status" "$HOSTS/spend" 200
expect "$status" 'd["push"]["last_status"] == 0 and d["push"]["last_error"] != ""'
poll_until 20 all_lost || fail "nothing is counted as lost: $(<"$status")"
expect "$status" 'd["push"]["last_success_unix_ms"] is None'
expect "$status" 'd["loss"]["samples_in_lost_batches"] == d["samples"]["with_span"] + d["samples"]["without_span"]'
# A folder that cannot be written to causes one line, and the profiles go on.
double_start --ack-delay 0
run_under denied SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_STATUS_FILE=/proc/nowhere/status \
	"$HOSTS/spend" 700
expect_rc denied 7
[[ $(grep -c 'cannot write the status file /proc/nowhere/status: ' "$WORK/denied.err") == 1 ]] ||
	fail "not one line: $(<"$WORK/denied.err")"
expect_clean_double

# Samples are lost in several ways at once, and others are refused. The sum of the numbers of samples behind "lost" is
# the number of samples that were taken, or found no room, and were not sent.
double_start --fault status=400,count=0
run losses LD_PRELOAD="$SO ${SO%/*}/libspanprof-alloc.so" SPANPROF_PROFILE=always SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL=1024 \
	SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_STATUS_FILE="$WORK/status/losses" OTEL_SERVICE_NAME=shop \
	"$HOSTS/allocs" full 4
expect_rc losses 0
build/spanprof-report --status "$WORK/status/losses" >"$WORK/words"
sum=$(awk '/^lost .*samples? / { n += $2 } END { print n + 0 }' "$WORK/words")
expect "$WORK/status/losses" 'd["samples"]["put"] == d["samples"]["drained"]'
expect "$WORK/status/losses" 'all(d["loss"][k] > 0 for k in ("dropped_ring_full", "dropped_ring_full_for_allocations",
	"batches_rejected_by_server", "samples_in_lost_batches"))'
# CPU time between samples is in records of its own.
readonly LOST='d["samples"]["put"] - d["samples"]["unsampled"] - d["samples"]["sent"] + d["loss"]["dropped_ring_full"]'
[[ $(ask "$WORK/status/losses" "$LOST") == "$sum" ]] || fail "$sum samples are told as lost: $(<"$WORK/words")"
