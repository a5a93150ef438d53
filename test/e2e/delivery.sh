#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# Every way to a server: TLS with an own authority and with client certificates, a Unix socket, the older /ingest, a
# folder beside it; and secrets in files that are replaced while the host runs.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash
# shellcheck source=test/e2e/tls.bash
source test/e2e/tls.bash

need curl
# A busy machine may need longer than eight intervals for a push.
export SPANPROF_UPLOAD_INTERVAL=300ms SPANPROF_PUSH_QUEUE_CAPACITY=128

# push NAME ADDRESS [VARIABLE=VALUE]...: all samples arrive, without a message.
push()
{
	local name=$1 address=$2

	shift 2
	run_under "$name" SPANPROF_SERVER_ADDRESS="$address" "$@" "$HOSTS/spend" 600
	expect_rc "$name" 7
	expect_silent "$name"
	expect_clean_double
	double_get /double/spans "$WORK/spans.json"
	expect "$WORK/spans.json" 'd["span_names"] == ["spend"] or "spend" in d["span_names"]'
}

true_of()
{
	[[ -s $1 && $(ask "$1" "bool($2)" 2>/dev/null) == True ]]
}

certificate good 'DNS:localhost'
certificate us 'DNS:us'
double_start --ack-delay 0
front_start --cert "$WORK/good.pem"
push tls "$FRONT_URL" SPANPROF_TLS_CA_FILE="$CA"
double_start --ack-delay 0
front_start --cert "$WORK/good.pem"
push tls.common "$FRONT_URL" SSL_CERT_FILE="$CA"

# SSLKEYLOGFILE in the host must not reveal our secrets, neither those of TLS 1.3 nor those of 1.2: the exporter does
# not get the variable.
for version in 1.3 1.2; do
	double_start --ack-delay 0
	front_start --cert "$WORK/good.pem" --version "$version"
	push "keylog.$version" "$FRONT_URL" SPANPROF_TLS_CA_FILE="$CA" SSLKEYLOGFILE="$WORK/keys.$version"
	[[ ! -e $WORK/keys.$version ]] || fail "TLS $version: $(wc -l <"$WORK/keys.$version") secrets of ours"
	# libcurl would write them like this.
	SSLKEYLOGFILE=$WORK/keys.plain curl -s -o /dev/null --cacert "$CA" "$FRONT_URL" || true
	[[ -s $WORK/keys.plain ]] || fail "this libcurl writes no secrets, so nothing was tested"
	rm "$WORK/keys.plain"
done

double_start --ack-delay 0
front_start --cert "$WORK/good.pem" --client-ca "$CA"
push mutual "$FRONT_URL" SPANPROF_TLS_CA_FILE="$CA" SPANPROF_TLS_CERT_FILE="$WORK/us.crt" \
	SPANPROF_TLS_KEY_FILE="$WORK/us.key"
push mutual.one "$FRONT_URL" SPANPROF_TLS_CA_FILE="$CA" SPANPROF_TLS_CERT_FILE="$WORK/us.pem"
# With TLS 1.3 the server refuses a client certificate after the request was sent. It has not read the request, so a
# second attempt loses nothing.
for version in 1.2 1.3; do
	front_start --cert "$WORK/good.pem" --client-ca "$CA" --version "$version"
	run_under "anonymous.$version" SPANPROF_SERVER_ADDRESS="$FRONT_URL" SPANPROF_TLS_CA_FILE="$CA" \
		SPANPROF_STATUS_FILE="$WORK/anonymous.$version.json" "$HOSTS/spend" 900
	expect_rc "anonymous.$version" 7
	grep -q 'spanprof\[.*push failed' "$WORK/anonymous.$version.err" || fail "TLS $version: accepted without a certificate"
	expect "$WORK/anonymous.$version.json" 'd["push"]["attempts"] > 0 and d["loss"]["batches_unanswered"] == 0'
done

# If the path is no file, the exporter does not wait for it, and its message names the variable; it trusts no other
# authorities instead. A file that replaces it is used at the next upload.
double_start --ack-delay 0
front_start --cert "$WORK/good.pem"
mkfifo "$WORK/authority"
env LD_PRELOAD="$SO" SPANPROF_SERVER_ADDRESS="$FRONT_URL" SPANPROF_TLS_CA_FILE="$WORK/authority" \
	SPANPROF_TLS_CERT_FILE="$WORK/us.crt" SPANPROF_TLS_KEY_FILE="$WORK/us.key" "$HOSTS/requests" 20000 \
	>"$WORK/replaced.out" 2>"$WORK/replaced.err" &
host=$!
STARTED+=("$host")
poll_until 20 grep -q 'SPANPROF_TLS_CA_FILE .*cannot be used: it is not a regular file' "$WORK/replaced.err" ||
	fail "a FIFO for a certificate is not told: $(<"$WORK/replaced.err")"
cp "$CA" "$WORK/authority.new"
mv "$WORK/authority.new" "$WORK/authority"
accepted()
{
	double_get /double/stats "$WORK/stats.json" && [[ $(ask "$WORK/stats.json" 'd["accepted"]["profiles"] > 0') == True ]]
}
poll_until 20 accepted || fail "the new file was not seen: $(<"$WORK/replaced.err")"
kill "$host"
wait "$host" 2>/dev/null || true

# The certificate is unverified only if the user says so, and there is a message about it.
double_start --ack-delay 0
front_start --cert "$WORK/good.pem"
run_under insecure SPANPROF_SERVER_ADDRESS="$FRONT_URL" SPANPROF_TLS_INSECURE_SKIP_VERIFY=true \
	"$HOSTS/spend" 300
expect_rc insecure 7
grep -q 'SPANPROF_TLS_INSECURE_SKIP_VERIFY: anybody' "$WORK/insecure.err" || fail "no warning"
expect_clean_double

double_start --ack-delay 0
front_start --unix "$WORK/socket"
push socket "unix://$WORK/socket" http_proxy=http://127.0.0.1:1

# A layer 4 forwarder without a server behind it accepts and closes: nothing was taken, and another attempt costs
# nothing.
double_start --ack-delay 0
touch "$WORK/away"
front_start --away "$WORK/away"
status=$WORK/forwarded.json
env LD_PRELOAD="$SO" SPANPROF_SERVER_ADDRESS="$FRONT_URL" SPANPROF_STATUS_FILE="$status" \
	"$HOSTS/requests" 30000 >"$WORK/forwarded.out" 2>"$WORK/forwarded.err" &
host=$!
STARTED+=("$host")
poll_until 30 true_of "$status" 'd["push"]["attempts"] >= 4' || fail "no tries: $(<"$WORK/forwarded.err")"
rm "$WORK/away"
poll_until 30 true_of "$status" 'd["push"]["last_success_unix_ms"]' || fail "not sent: $(<"$WORK/forwarded.err")"
kill "$host"
wait "$host" 2>/dev/null || true
grep -q 'spanprof\[.*pushes succeed again' "$WORK/forwarded.err" || fail "not told: $(<"$WORK/forwarded.err")"
# On a busy machine the forwarder may need longer than 20 ms to close the connection.
expect "$status" 'd["loss"]["batches_unanswered"] <= 1'

# A sign-in page answers everything with 200: the message has its title, and the profiles are kept and not counted as
# sent.
front_start --page 'Sign in to Example'
run_under page SPANPROF_SERVER_ADDRESS="$FRONT_URL" SPANPROF_STATUS_FILE="$WORK/page.json" "$HOSTS/spend" 900
expect_rc page 7
grep -q 'spanprof\[.*push failed.*status 200: Sign in to Example; no Pyroscope server answers so: check SPANPROF_SERVER_ADDRESS' \
	"$WORK/page.err" || fail "not told: $(<"$WORK/page.err")"
expect "$WORK/page.json" 'd["samples"]["sent"] == 0 and d["push"]["last_success_unix_ms"] is None'

# Children that end faster than the server answers: one push takes all waiting profiles.
double_start --ack-delay 450
rc=0
echo | env LD_PRELOAD="$SO" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=15s \
	"$HOSTS/forks" 150 12 end >"$WORK/children.out" 2>"$WORK/children.err" || rc=$?
echo "$rc" >"$WORK/children.rc"
expect_rc children 12
! grep -E 'profiles? lost|last profiles?|push failed' "$WORK/children.err" || fail "children: profiles did not arrive"
expect_clean_double
double_get /double/spans "$WORK/spans.json"
expect "$WORK/spans.json" 'd["profiles"] >= 140 and len(d["pids"]) == 32'
[[ $(grep -c 'more than 32 processes have profiles within an hour' "$WORK/children.err") == 1 ]] ||
	fail "children: not told once: $(<"$WORK/children.err")"

# A slow server, like the real one.
double_start --ack-delay 300-1000
push late "$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=2s SPANPROF_FLUSH_TIMEOUT=5s

# /ingest has no escaping: such a name must be accepted, and must not break the labels.
double_start --ack-delay 0
mkdir "$WORK/beside"
push ingest "$DOUBLE_URL" SPANPROF_PROTOCOL=ingest SPANPROF_APPLICATION_NAME='a.b,c}d e/ä' \
	SPANPROF_LABELS='region=eu} x=1' SPANPROF_OUTPUT_DIR="$WORK/beside"
expect "$WORK/spans.json" 'list(d["services"]) == ["a.b_c_d e/ä"]'
report "$WORK/beside" "$WORK/beside.json"
expect "$WORK/beside.json" "d['labelled']['samples'] == $(ask "$WORK/spans.json" 'd["with_span"]["samples"]')"

# A token that is replaced while the host runs; neither of the two ever appears in a message.
double_start --ack-delay 0 --token the-new-token --log "$WORK/requests"
echo the-old-token >"$WORK/token"
env LD_PRELOAD="$SO" SPANPROF_SERVER_ADDRESS="$DOUBLE_URL" SPANPROF_AUTH_TOKEN_FILE="$WORK/token" \
	SPANPROF_STATUS_FILE="$WORK/status" "$HOSTS/requests" 20000 >"$WORK/rotate.out" \
	2>"$WORK/rotate.err" &
host=$!
STARTED+=("$host")
poll_until 20 grep -q ' 401 ' "$WORK/requests" || fail "the old token was not sent"
echo the-new-token >"$WORK/token.new"
mv "$WORK/token.new" "$WORK/token"
poll_until 20 grep -q ' 200 ' "$WORK/requests" || fail "the new token was not sent: $(<"$WORK/rotate.err")"
rm "$WORK/token"
poll_until 20 grep -q 'SPANPROF_AUTH_TOKEN_FILE: the file cannot be used' "$WORK/rotate.err" ||
	fail "nobody was told that the file is gone"
# Between uploads the exporter has no regular file open, and the host has no socket.
exporter=$(exporter_of "$host") || fail "no exporter"
has_none()
{
	[[ -z $(find "/proc/$exporter/fd" -lname "*$WORK/t*" -printf '%l\n' 2>/dev/null) ]] &&
		! find "/proc/$host/fd" \( -lname "*$WORK/t*" -o -lname 'socket:*' \) -printf '%l\n' \
			2>/dev/null | grep -q .
}
poll_until 20 has_none || fail "a descriptor stays open"
kill "$host"
wait "$host" 2>/dev/null || true
if grep -E 'the-(old|new)-token' "$WORK/rotate.err" "$WORK/status"; then
	fail "a secret was shown"
fi
