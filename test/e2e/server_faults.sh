#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# Whatever is wrong with the server, the network or the disk, the host's requests are as fast as ever, its end is not
# delayed, and its memory does not grow. A few lines report the losses. Everything that can still be sent is sent, and
# nothing that may have arrived is sent twice. Prints the table of faults. Usage: server_faults.sh [push|otlp].
# Without an argument both run in parallel, because most of the time they wait.
if (($# == 0)); then
	rc=0
	shown=$(mktemp)
	bash "$0" otlp >"$shown" 2>&1 &
	bash "$0" push || rc=$?
	wait $! || rc=$?
	cat "$shown"
	rm "$shown"
	exit "$rc"
fi
readonly protocol=$1
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/e2e/tls.bash
source test/e2e/tls.bash

need python3 curl
readonly HOST_MS=600
# A busy machine may need seconds to send the rest.
export SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_FLUSH_TIMEOUT=10s SPANPROF_PUSH_TIMEOUT=2s SPANPROF_PUSH_QUEUE_CAPACITY=128
export SPANPROF_PROTOCOL=$protocol
# The stand-in for a bad day: retries while the host runs.
export SPANPROF_SAMPLE_RATE=100

status_of()
{
	ask "$WORK/$1.json" "$2"
}

# Records of CPU time between two samples are drained as well, but are no samples.
readonly TAKEN='d["samples"]["with_span"] + d["samples"]["without_span"]'
readonly ROW='%-26s %8s %6s %6s %7s %7s  %s\n'
row()
{
	# shellcheck disable=SC2059
	printf "$ROW" "$1" "$(value "$1" handled)" "$(value "$1" waited_ms)" "$(result "$1.ms")" \
		"$(status_of "$1" "$TAKEN")" \
		"$(status_of "$1" 'd["loss"]["samples_in_lost_batches"]')" "$2"
}

# ends_within NAME MS: the end of the host took at most this long, apart from its start and the allowance for any
# program.
ends_within()
{
	(($(result "$1.ms") - $(value "$1" worked_ms) <= $2 + 1000 * EXIT_LIMIT_S)) ||
		fail "$1: ended after $(result "$1.ms") ms, with $(value "$1" worked_ms) ms of work"
}

# The function for which the next host waits before it ends; its argument is the host's name. A busy machine may need
# longer than HOST_MS.
UNTIL=()

# fault FAULT: starts a double with a temporary fault; afterwards it must take a profile.
fault()
{
	double_start --ack-delay 0 --fault "$1"
	UNTIL=(is_over "${1##*count=}")
}

is_over()
{
	[[ -e $WORK/$2.json ]] &&
		awk -v faults="$1" '/"attempts":/ { n = $2 + 0 } /"last_status": 200,/ { taken = 1 } END { exit !(taken && n > faults) }' \
			"$WORK/$2.json"
}

has_failed()
{
	grep -qs '"last_error": "[^"]' "$WORK/$1.json"
}

# try_failing NAME ADDRESS [VARIABLE=VALUE]...: as try, but a push has to fail.
try_failing()
{
	UNTIL=(has_failed)
	try "$@"
}

# try NAME ADDRESS [VARIABLE=VALUE]...: runs the host and checks what must always hold.
try()
{
	local name=$1 address=$2

	shift 2
	if ((${#UNTIL[@]} > 0)); then
		{ poll_until 30 "${UNTIL[@]}" "$name" && touch "$WORK/$name.over"; } &
		UNTIL=()
	else
		touch "$WORK/$name.over"
	fi
	run_under "$name" SPANPROF_STATUS_FILE="$WORK/$name.json" \
		SPANPROF_SERVER_ADDRESS="$address" "$@" "$HOSTS/requests" "$HOST_MS" 100000 "$WORK/$name.over"
	expect_rc "$name" 19
	# Far less than a push may take. Time that requests wait for a processor on a busy machine is not counted.
	(($(value "$name" waited_ms) <= 300)) || fail "$name: requests waited for $(value "$name" waited_ms) ms"
	(($(value "$name" extra_ms) <= 100)) || fail "$name: requests took $(value "$name" extra_ms) ms of CPU time more"
	ends_within "$name" 10000
	(($(value "$name" peak_kib) <= $(value well peak_kib) + 16384)) ||
		fail "$name: $(value "$name" peak_kib) KiB, $(value well peak_kib) KiB when all is well"
}

# told NAME TEXT: a few lines on stderr, not one per upload, and one of them has the text.
told()
{
	local lines

	lines=$(grep -c 'spanprof\[' "$WORK/$1.err" || true)
	((lines >= 1 && lines <= 12)) || {
		cat "$WORK/$1.err" >&2
		fail "$1: $lines messages"
	}
	grep -Eq "^spanprof\[[0-9]+\]: .*$2" "$WORK/$1.err" || {
		cat "$WORK/$1.err" >&2
		fail "$1: no line says $2"
	}
}

# lost NAME COUNTER TEXT: a sentence on stderr reports the loss with its reason.
lost()
{
	local -A because=(
		[batches_unanswered]='(it was|they were) sent, but no answer came \(the server may have (it|them)\)'
		[batches_rejected_by_server]='the server refused (it|them) \([0-9]+\)'
	)

	told "$1" "[0-9]+ profiles? lost: ${because[$2]}, [0-9]+ samples?"
	told "$1" "$3"
	expect "$WORK/$1.json" "d['loss']['$2'] > 0 and d['loss']['samples_in_lost_batches'] > 0"
	row "$1" "lost, told: $2"
}

# left NAME TEXT: the host did not wait; profiles that its exporter could not send later either are counted.
LEFT=()
left()
{
	told "$1" 'the process ends before the server has taken the last profiles? \(samples: [0-9]+\)'
	told "$1" "$2"
	ends_within "$1" 2000
	LEFT+=("$1")
}

all_lost()
{
	[[ $(ask "$WORK/$1.json" "d['loss']['batches_unsent_at_exit'] > 0") == True ]]
}

# OTLP has no number of samples for a sample, only a value in periods, so the double cannot count them.
expect_all()
{
	if [[ $protocol == otlp ]]; then
		expect "$WORK/$1.json" "d['samples']['sent'] == $TAKEN"
		expect "$WORK/spans.json" 'd["profiles"] > 0'
	else
		expect "$WORK/$1.json" "$TAKEN == $(ask "$WORK/spans.json" 'd["total"]["samples"]')"
	fi
}

# arrived NAME: the double has every sample exactly once.
arrived()
{
	double_get /double/stats "$WORK/stats.json"
	double_get /double/spans "$WORK/spans.json"
	expect "$WORK/stats.json" 'd["silently_dropped"]["total"] == 0'
	expect "$WORK/stats.json" 'd["faults"]["served"] > 0'
	expect "$WORK/$1.json" "$TAKEN > 0 and set(d['loss'].values()) == {0}"
	expect_all "$1"
	row "$1" "all arrived, once"
}

run plain "$HOSTS/requests" "$HOST_MS"
double_start --ack-delay 0
try well "$DOUBLE_URL"
expect_silent well
expect_clean_double
# shellcheck disable=SC2059
printf "$ROW" fault requests waited ms samples lost 'what became of it'

try_failing refused "http://127.0.0.1:$(refused_port)"
left refused 'push failed.*onnect'

try_failing no_such_host http://nowhere.invalid:4040
left no_such_host 'push failed.*resolve.*nowhere.invalid'

double_start --ack-delay 0 --fault blackhole=1,count=0
try_failing blackhole "$DOUBLE_URL"
lost blackhole batches_unanswered 'push failed.*timed out'

fault reset=1,count=1
try reset "$DOUBLE_URL"
lost reset batches_unanswered 'push failed'
expect "$WORK/reset.json" 'd["loss"]["batches_unanswered"] == 1 and d["loss"]["batches_unsent_at_exit"] == 0'

fault reset_early=1,count=1
# The whole request was sent here too, and it is unknown how much was read.
try reset_mid_body "$DOUBLE_URL"
lost reset_mid_body batches_unanswered 'push failed'
expect "$WORK/reset_mid_body.json" 'd["loss"]["batches_unanswered"] == 1 and d["loss"]["batches_unsent_at_exit"] == 0'

# The exporter cannot know that the server took the profile. It counts as lost, and the server has it once.
fault stored_reset=1,count=1
try stored_unheard "$DOUBLE_URL"
# The double counts an answer after sending it, and the host may have ended by then.
all_are_counted()
{
	double_get /double/stats "$WORK/stats.json"
	(expect "$WORK/stats.json" 'd["accepted"]["requests"] == d["requests"]["200"] + 1') >/dev/null 2>&1
}
poll_until 10 all_are_counted || fail "what was taken is not what was answered: $(<"$WORK/stats.json")"
double_get /double/spans "$WORK/spans.json"
expect "$WORK/stored_unheard.json" "d['loss']['batches_unanswered'] == 1"
[[ $protocol == otlp ]] || expect_all stored_unheard
row stored_unheard "all arrived once, one profile told lost"

fault close_mid_response=1,count=1
try closed_mid_answer "$DOUBLE_URL"
arrived closed_mid_answer

fault slow_drip=1,bytes=4000,interval_ms=20,count=2
try slow_loris "$DOUBLE_URL"
arrived slow_loris

fault huge_body=1,bytes=4294967295,count=2
try four_gib_answer "$DOUBLE_URL"
arrived four_gib_answer

fault bomb=1,count=2
try gzip_bomb "$DOUBLE_URL"
arrived gzip_bomb

fault garbage=1,count=1
try garbage "$DOUBLE_URL"
arrived garbage

certificate wrong 'DNS:another.example'
certificate expired 'DNS:localhost' -1
double_start --ack-delay 0
front_start --cert "$WORK/wrong.pem"
try_failing wrong_tls_name "$FRONT_URL" SPANPROF_TLS_CA_FILE="$CA" SPANPROF_AUTH_TOKEN=s3cret
left wrong_tls_name 'push failed.*SSL: no alternative certificate subject name'
front_start --cert "$WORK/expired.pem"
try_failing expired_certificate "$FRONT_URL" SPANPROF_TLS_CA_FILE="$CA"
left expired_certificate 'push failed.*certificate has expired'
front_start --cert "$WORK/wrong.pem"
try_failing unknown_authority "$FRONT_URL"
left unknown_authority 'push failed.*certificate'
double_get /double/stats "$WORK/stats.json"
expect "$WORK/stats.json" 'd["accepted"]["profiles"] == 0'

# A redirect is not followed, wherever it points.
elsewhere=$DOUBLE_URL
double_start --ack-delay 0 --fault "redirect=$elsewhere/push.v1.PusherService/Push,status=301,count=0"
try_failing redirect "$DOUBLE_URL" SPANPROF_AUTH_TOKEN=s3cret
lost redirect batches_rejected_by_server "status 301: redirects are not followed, this one names $elsewhere"
curl -sS --max-time 10 "$elsewhere/double/stats" >"$WORK/stats.json"
expect "$WORK/stats.json" 'd["accepted"]["profiles"] == 0 and d["rejected"] == {}'

fault status=429,retry_after=1,count=1
try too_many "$DOUBLE_URL"
arrived too_many
# It waited as told: never two requests within a second.
expect "$WORK/stats.json" 'd["requests"]["429"] == 1'

if [[ $protocol == otlp ]]; then
	# OTLP/HTTP allows no other request to be repeated.
	once=(502 504)
	never=(400 401 404 408 500)
	fault rejected=1,count=1
	try rejected "$DOUBLE_URL"
	lost rejected batches_rejected_by_server 'status 200: this profile is one too much'
	expect "$WORK/rejected.json" "d['loss']['batches_rejected_by_server'] == 1"
else
	# A token that is being replaced, a proxy that is in a hurry, an ingress during a rollout.
	once=(500 401 403 404 408)
	never=(400)
fi
for status in "${once[@]}"; do
	fault "status=$status,count=1"
	try "for_now_$status" "$DOUBLE_URL"
	told "for_now_$status" "push failed, will try again: status $status"
	arrived "for_now_$status"
	expect "$WORK/stats.json" "d['requests']['$status'] == 1"
done
for status in "${never[@]}"; do
	fault "status=$status,count=1"
	try "refused_$status" "$DOUBLE_URL"
	lost "refused_$status" batches_rejected_by_server "status $status: .*a fault that the test asked for"
	expect "$WORK/refused_$status.json" "d['loss']['batches_rejected_by_server'] == 1"
done

# The only push of a job that ends.
double_start --ack-delay 0 --fault status=503,count=1
try broken_at_the_end "$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=15s
arrived broken_at_the_end
expect "$WORK/stats.json" 'd["requests"]["503"] == 1'

# Folder and server at the same time: a full disk and a forbidden folder lose nothing at the server.
mkdir "$WORK/full"
cat >"$WORK/on_full_disk" <<END
#!/bin/bash
mount -t tmpfs -o size=16k none '$WORK/full' && head -c 16384 /dev/zero >'$WORK/full/fill' && exec "\$@"
END
chmod +x "$WORK/on_full_disk"
if unshare -rm "$WORK/on_full_disk" true 2>/dev/null; then
	double_start --ack-delay 0 --fault status=503,count=1
	try full_disk "$DOUBLE_URL" SPANPROF_OUTPUT_DIR="$WORK/full" unshare -rm "$WORK/on_full_disk"
	told full_disk "cannot write a profile into $WORK/full: No space left on device"
	expect "$WORK/full_disk.json" 'd["loss"]["files_failed"] > 0 and d["loss"]["samples_in_lost_batches"] == 0'
	double_get /double/spans "$WORK/spans.json"
	expect_all full_disk
	row full_disk "files lost, told; all pushed"
else
	echo 'full_disk                  not tried: a file system of our own cannot be mounted here'
fi

double_start --ack-delay 0
try read_only_folder "$DOUBLE_URL" SPANPROF_OUTPUT_DIR=/proc/sys/kernel
told read_only_folder 'cannot write a profile into /proc/sys/kernel: '
expect "$WORK/read_only_folder.json" 'd["loss"]["files_failed"] > 0'
expect_clean_double
row read_only_folder "files lost, told; all pushed"

for name in "${LEFT[@]}"; do
	poll_until 30 all_lost "$name" || fail "$name: nothing is counted as lost"
	expect "$WORK/$name.json" "$TAKEN == d['loss']['samples_in_lost_batches']"
	row "$name" "left to the exporter, counted: batches_unsent_at_exit"
done
