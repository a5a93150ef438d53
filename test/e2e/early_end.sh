#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process that ends while the exporter is being started, or before: the first span is the last thing
# that it does, or comes when main is over, in a function registered with atexit. It ends as without us,
# says nothing, and waits no longer than it was told to. What it sampled is sent also if it was gone before
# the exporter could look at it.
# Runs alone: it judges how long things take.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

run late.plain "$HOSTS/leaves" late
expect_rc late.plain 0
for flush in 0 2s; do
	for round in 1 2 3; do
		run_under "late.$flush.$round" SPANPROF_OUTPUT_DIR="$WORK" SPANPROF_FLUSH_TIMEOUT="$flush" \
			"$HOSTS/leaves" late
		expect_same late.plain "late.$flush.$round" out err rc
		(($(result "late.$flush.$round.ms") <= $(result late.plain.ms) + 1000 * EXIT_LIMIT_S)) ||
			fail "late, $flush: took $(result "late.$flush.$round.ms") ms"
	done
done

# One span, and the end.
run short.plain "$HOSTS/spend" 30
for flush in 0 2s; do
	mkdir "$WORK/short.$flush.d"
	run_under "short.$flush" SPANPROF_OUTPUT_DIR="$WORK/short.$flush.d" SPANPROF_FLUSH_TIMEOUT="$flush" \
		"$HOSTS/spend" 30
	expect_same short.plain "short.$flush" out err rc
done
(($(result short.0.ms) <= $(result short.plain.ms) + 700)) || fail "FLUSH_TIMEOUT=0 waits: $(result short.0.ms) ms"
# Its exporter may be late, but it comes.
is_there()
{
	[[ -n $(profiles_in "$WORK/$1.d") ]]
}
for name in short.0 short.2s; do
	poll_until 10 is_there "$name" || fail "$name: no profile"
done

# One that becomes another program, and no hook sees it. That one lives until the profile is there, which is not as late
# as the next upload: as long as the exporter lives, the memory of the program before is held.
mkdir "$WORK/executes.d"
run_under executes SPANPROF_OUTPUT_DIR="$WORK/executes.d" SPANPROF_UPLOAD_INTERVAL=10m "$HOSTS/outside" execute \
	"until ls $WORK/executes.d/*.pb.gz; do sleep 0.01; done >/dev/null 2>&1"
expect_rc executes 0
expect_silent executes

# One that no hook sees the end of, with an exporter that begins when it is gone.
cat >"$WORK/late" <<END
#!/bin/bash
for ((i = 0; i < 6000; i++)); do
	[[ ! -e $WORK/over ]] || exec "$EXPORTER"
	sleep 0.01
done
END
chmod 755 "$WORK/late"
for how in last_exit kill_thread; do
	rm -f "$WORK/over"
	mkdir "$WORK/$how.d"
	run "$how.plain" "$HOSTS/outside" "$how"
	run_under "$how" SPANPROF_EXPORTER="$WORK/late" SPANPROF_OUTPUT_DIR="$WORK/$how.d" "$HOSTS/outside" "$how"
	touch "$WORK/over"
	expect_same "$how.plain" "$how" out err rc
	poll_until 10 is_there "$how" || fail "$how: no profile"
	report "$WORK/$how.d" "$WORK/$how.json"
	expect "$WORK/$how.json" 'names == {"outside"} and total > 0'
done
