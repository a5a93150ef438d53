# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Certificates, and a TLS server in front of the double; sourced after lib.bash.

need openssl python3
readonly EC=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes)
readonly CA=$WORK/ca.pem

openssl req -x509 "${EC[@]}" -keyout "$WORK/ca.key" -out "$CA" -subj /CN=test-authority -days 2 \
	2>/dev/null

# certificate NAME SUBJECT_ALTERNATIVE_NAME [DAYS]: $WORK/NAME.pem with its key, signed by the CA.
certificate()
{
	local name=$1 san=$2 days=${3:-2}

	openssl req "${EC[@]}" -keyout "$WORK/$name.key" -out "$WORK/$name.csr" -subj "/CN=$name" \
		2>/dev/null
	openssl x509 -req -in "$WORK/$name.csr" -CA "$CA" -CAkey "$WORK/ca.key" -CAcreateserial \
		-days "$days" -extfile <(echo "subjectAltName=$san") -out "$WORK/$name.crt" 2>/dev/null
	cat "$WORK/$name.crt" "$WORK/$name.key" >"$WORK/$name.pem"
}

# front_start [OPTION VALUE]...: starts it in front of the running double; sets FRONT_URL, which is https with --cert.
front_start()
{
	local port_file

	port_file=$(mktemp -u "$WORK/front.XXXXXX")
	python3 test/e2e/front.py "$port_file" "${DOUBLE_URL##*:}" "$@" 2>"$port_file.err" &
	STARTED+=("$!")
	disown "$!"
	poll_until 20 test -s "$port_file" || fail "the front does not start: $(cat "$port_file.err")"
	FRONT_URL=http://localhost:$(<"$port_file")
	[[ " $* " != *' --cert '* ]] || FRONT_URL=https://${FRONT_URL#*://}
}
