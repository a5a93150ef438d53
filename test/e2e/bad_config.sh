#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016
# A bad value of any variable, under any of its names, causes exactly one line, which names the variable. The host
# runs as usual, is profiled as if the variable were not set, and no secret is shown.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly SECRET=hunter2hunter2

run plain "$HOSTS/spend" 60
expect_rc plain 7

# A value that this type of variable cannot have. The control character makes any text bad, and so secrets.
bad_value()
{
	case $1 in
	bool) echo maybe ;;
	enum* | off*) echo sideways ;;
	integer*) echo "12 monkeys" ;;
	duration*) echo 15 ;;
	signal*) echo SIGKILL ;;
	*path*) echo relative/path ;;
	URL* | *URL*) echo "ftp://$SECRET@example.com/" ;;
	list*percent*) echo "service.name=a%zz" ;;
	list*) echo "no-equals-sign" ;;
	*secret*) printf '%s\001' "$SECRET" ;;
	*JSON*) printf '{"Authorization":"%s"' "$SECRET" ;;
	string*) printf 'bad\001text' ;;
	*) fail "no bad value for the type $1" ;;
	esac
}

# try NAME VALUE
try()
{
	local name=$1 value=$2 lines protocol=()

	mkdir -p "$WORK/profiles"
	# An OpenTelemetry variable counts only if its protocol is chosen.
	[[ $name != OTEL_EXPORTER_OTLP_* ]] || protocol=(SPANPROF_PROTOCOL=otlp)
	# The variable itself comes last: it may be SPANPROF_OUTPUT_DIR.
	run_under try SPANPROF_OUTPUT_DIR="$WORK/profiles" "${protocol[@]}" "$name=$value" "$HOSTS/spend" 60
	cmp -s "$WORK/plain.out" "$WORK/try.out" || fail "$name: other output"
	expect_rc try 7
	lines=$(grep -c 'spanprof\[' "$WORK/try.err" || true)
	if [[ $name == SPANPROF_OUTPUT_DIR ]]; then
		# Without a folder the exporter tries the default server, which does not exist here.
		lines=$(grep -c 'SPANPROF_OUTPUT_DIR' "$WORK/try.err" || true)
	fi
	if ((lines != 1)) || ! grep -Eq "spanprof\[[0-9]+\]: .*$name" "$WORK/try.err"; then
		cat -v "$WORK/try.err" >&2
		fail "$name='$value': not one line that names it"
	fi
	if grep -q "$SECRET" "$WORK/try.err"; then
		fail "$name: a secret on stderr"
	fi
	if [[ $name != SPANPROF_OUTPUT_DIR ]]; then
		[[ -n $(profiles_in "$WORK/profiles") ]] || fail "$name: not profiled any more"
	fi
	rm -r "$WORK/profiles"
}

tried=0
while IFS='|' read -r names type; do
	for name in $(grep -o '`[A-Z_]*`' <<<"$names" | tr -d '`'); do
		case $name in
		PYROSCOPE_PROFILING_INTERVAL) value=15 ;;
		SPANPROF_SPAN_LABELS) value=a,b,c,d,e ;;
		OTEL_PYROSCOPE_ROOT_SPAN_ONLY | OTEL_PYROSCOPE_ADD_SPAN_NAME) value=maybe ;;
		# Every value that is not a plain no switches the profiler off, before there could be a message.
		SPANPROF_DISABLED) continue ;;
		*) value=$(bad_value "$type") ;;
		esac
		try "$name" "$value"
		tried=$((tried + 1))
	done
done < <("$TEST_LIBS/print-config" | tail -n +3 | sed 's/\\|/,/g' |
	awk -F ' *\\| *' '{ print $2 "|" $3 }')
((tried >= 40)) || fail "only $tried names in the table"

run_under unsure SPANPROF_OUTPUT_DIR="$WORK/unsure" SPANPROF_DISABLED=maybe "$HOSTS/spend" 60
expect_same plain unsure out err rc
[[ ! -e $WORK/unsure ]] || fail "SPANPROF_DISABLED=maybe does not switch off"

# A name similar to one of ours is most likely a mistake.
run_under typo SPANPROF_OUTPUT_DIR="$WORK/typo" SPANPROF_SAMPLERATE=100 "$HOSTS/spend" 60
[[ $(grep -c 'spanprof\[.*SPANPROF_SAMPLERATE' "$WORK/typo.err") == 1 ]] || fail "a typo is not told"

# Valid secrets do not appear either, even if other settings are wrong.
run_under good SPANPROF_SERVER_ADDRESS="http://user:$SECRET@127.0.0.1:$(refused_port)" \
	SPANPROF_AUTH_TOKEN="$SECRET" SPANPROF_HTTP_HEADERS="{\"X-Key\":\"$SECRET\"}" \
	SPANPROF_LOG_LEVEL=debug "$HOSTS/spend" 60
grep -q 'spanprof\[' "$WORK/good.err" || fail "a server that is not there is not told"
if grep -q "$SECRET" "$WORK/good.err"; then
	fail "a secret on stderr"
fi
