#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A process that ends while the exporter is being started, or before: its first span is the last thing that it does,
# or comes after main(), in an atexit() function. It ends as without us, prints nothing, and waits no longer than
# configured. Its samples are sent even if it was gone before the exporter could read its mappings.
# Runs alone: it judges durations.
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

# One span, and then the end.
run short.plain "$HOSTS/spend" 30
for flush in 0 2s; do
	mkdir "$WORK/short.$flush.d"
	run_under "short.$flush" SPANPROF_OUTPUT_DIR="$WORK/short.$flush.d" SPANPROF_FLUSH_TIMEOUT="$flush" \
		"$HOSTS/spend" 30
	expect_same short.plain "short.$flush" out err rc
done
(($(result short.0.ms) <= $(result short.plain.ms) + 700)) || fail "FLUSH_TIMEOUT=0 waits: $(result short.0.ms) ms"
# The exporter may come late, but it comes.
is_there()
{
	[[ -n $(profiles_in "$WORK/$1.d") ]]
}
for name in short.0 short.2s; do
	poll_until 10 is_there "$name" || fail "$name: no profile"
done

# A process that executes another program unnoticed by our hooks. The new program runs until the profile is there,
# which is earlier than the next upload: while the exporter runs, the memory of the old program is held.
mkdir "$WORK/executes.d"
run_under executes SPANPROF_OUTPUT_DIR="$WORK/executes.d" SPANPROF_UPLOAD_INTERVAL=10m "$HOSTS/outside" execute \
	"until ls $WORK/executes.d/*.pb.gz; do sleep 0.01; done >/dev/null 2>&1"
expect_rc executes 0
expect_silent executes

# A process whose end no hook notices, with an exporter that begins when it is gone.
cat >"$WORK/late" <<END
#!/bin/bash
for ((i = 0; i < 6000; i++)); do
	[[ ! -e $WORK/over ]] || exec "$EXPORTER"
	sleep 0.01
done
END
chmod 755 "$WORK/late"
LATE=$(object_with "$WORK/late.object" "$WORK/late")
readonly LATE
for how in last_exit kill_thread; do
	rm -f "$WORK/over"
	mkdir "$WORK/$how.d"
	run "$how.plain" "$HOSTS/outside" "$how"
	run "$how" LD_PRELOAD="$LATE" SPANPROF_OUTPUT_DIR="$WORK/$how.d" "$HOSTS/outside" "$how"
	touch "$WORK/over"
	expect_same "$how.plain" "$how" out err rc
	poll_until 10 is_there "$how" || fail "$how: no profile"
	report "$WORK/$how.d" "$WORK/$how.json"
	expect "$WORK/$how.json" 'names == {"outside"} and total > 0'
done
