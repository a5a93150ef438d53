#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A third program overwrites the memory that a host and its exporter share, at random, while both work. The host
# prints and ends as without us. The exporter, which runs with the address and undefined-behaviour sanitizers, reads
# and writes only its own memory and ends with its host. One round overwrites the whole memory: then the host's
# sampling or the exporter mostly stops soon. The other round overwrites only the records that the exporter has not
# read yet. In make soak a round takes ten minutes.
# Runs alone: on a busy machine less happens in its time.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
# Yama may forbid to write into another process's memory.
if ((EUID != 0)) && ! grep -qsx 0 /proc/sys/kernel/yama/ptrace_scope; then
	[[ ! -e /proc/sys/kernel/yama ]] || skip 'nobody but root may write into the memory of another process'
fi
readonly SECONDS_EACH=${SOAK_SECONDS:-3}
readonly WATCHED=$ROOT/build/asan/test/spanprof-exporter
export SPANPROF_SAMPLE_RATE=500 SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_FLUSH_TIMEOUT=2s SPANPROF_THREAD_NAME=true \
	SPANPROF_OFF_CPU=true

# The exporter gets only our variables, and its stderr leads nowhere.
cat >"$WORK/exporter" <<END
#!/bin/sh
echo \$\$ >>"$WORK/started"
export ASAN_OPTIONS=abort_on_error=0:detect_leaks=0:log_path=$WORK/found UBSAN_OPTIONS=print_stacktrace=1:log_path=$WORK/found
exec "$WATCHED"
END
chmod 755 "$WORK/exporter"
OBJECT=$(object_with "$WORK/object" "$WORK/exporter")
readonly OBJECT
mkfifo "$WORK/stdin"

has_begun()
{
	grep -q memfd:spanprof "/proc/$host/maps" && [[ -s $WORK/started && -s $WORK/status ]]
}

no_exporter()
{
	! xargs -r ps -o pid= -p <"$WORK/started" | grep -q .
}

# round SEED HOW
round()
{
	local rc=0 host

	rm -rf "$WORK/profiles" "$WORK/status"
	mkdir "$WORK/profiles"
	: >"$WORK/started"
	LD_PRELOAD=$OBJECT SPANPROF_STATUS_FILE=$WORK/status \
		SPANPROF_OUTPUT_DIR=$WORK/profiles "$HOSTS/busy" <"$WORK/stdin" >"$WORK/out" 2>"$WORK/err" &
	host=$!
	exec 9>"$WORK/stdin"
	poll_until 30 has_begun || fail "does not begin: $(<"$WORK/err")"
	written=$((written + $(python3 test/storm/scribble.py "$host" "$round_s" "$1" "$2")))
	exec 9>&-
	wait "$host" || rc=$?
	((rc == 23)) || fail "seed $1 $2: exit status $rc: $(<"$WORK/err")"
	[[ ! -s $WORK/out ]] || fail "seed $1 $2: $(<"$WORK/out")"
	poll_until 60 no_exporter || fail "seed $1 $2: an exporter is left"
	if grep -hs -A30 'ERROR: \|runtime error: ' "$WORK"/found*; then
		fail "seed $1 $2: an exporter did what it must not"
	fi
	exporters=$((exporters + $(wc -l <"$WORK/started")))
	profiles=$((profiles + $(profiles_in "$WORK/profiles" | wc -l)))
	if [[ $2 == spare ]]; then
		[[ $(wc -l <"$WORK/started") == 1 ]] || fail "seed $1 $2: more than one exporter: $(<"$WORK/err")"
		expect "$WORK/status" 'd["loss"]["ring_records_damaged"] > 0'
	fi
}

seed=${SCRIBBLE_SEED:-$((SECONDS_EACH > 60 ? EPOCHSECONDS : 1))}
for how in '' spare; do
	# With all kinds of damage, one of the two processes stops soon.
	round_s=${how:+3}
	round_s=${round_s:-1}
	written=0 exporters=0 profiles=0
	end=$((SECONDS + SECONDS_EACH))
	while ((SECONDS < end)); do
		round "$seed" "$how"
		seed=$((seed + 1))
	done
	echo "${how:-all}: $written words, $exporters exporters, $profiles profiles, last seed $((seed - 1))"
	((written > 1000 && profiles > 0)) || fail 'nothing happened'
done
