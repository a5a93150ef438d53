#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# Whoever asks spanprof-doctor as root about a process of somebody else gives that process nothing: what
# its environment names is opened with its own rights, in its own root, or not at all.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

((EUID == 0)) || skip 'only root has more rights to lose'
need python3 setpriv chroot busybox
readonly DOCTOR=$ROOT/scripts/spanprof-doctor
readonly NOBODY=65534
readonly SECRET=$WORK/secret OPEN=$WORK/open
readonly WORD=root-only-word
chmod 755 "$WORK"
printf '{"state": "%s", "X-Word": "%s"}' "$WORD" "$WORD" >"$SECRET"
# Of a group that the doctor is given: it has to lay aside that one, too.
readonly GROUP=65531
chown "0:$GROUP" "$SECRET"
chmod 640 "$SECRET"
printf '{"state": "anybodys-word", "X-Word": "anybodys-word"}' >"$OPEN"

# A server that keeps every byte and refuses nothing.
cat >"$WORK/recorder.py" <<'END'
import http.server, sys

class Recorder(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        with open(sys.argv[2], "ab") as out:
            out.write(f"{self.requestline}\n{self.headers}\n".encode() + body + b"\n")
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
with open(sys.argv[1] + ".part", "w") as port:
    port.write(str(server.server_port))
__import__("os").rename(sys.argv[1] + ".part", sys.argv[1])
server.serve_forever()
END
python3 "$WORK/recorder.py" "$WORK/port" "$WORK/received" &
STARTED+=("$!")
disown "$!"
poll_until 20 test -s "$WORK/port" || fail "the recorder does not start"
ADDRESS=PYROSCOPE_SERVER_ADDRESS=http://127.0.0.1:$(<"$WORK/port")
readonly ADDRESS

# target COMMAND...: a process to look at, which is about to become a program called sleep.
target()
{
	"$@" >/dev/null 2>&1 </dev/null &
	HOST_PID=$!
	STARTED+=("$HOST_PID")
	disown "$HOST_PID"
	poll_until 20 grep -q '^Name:.*\(sleep\|busybox\)' "/proc/$HOST_PID/status" || fail "no target"
}

# visit NAME: the doctor looks at it, and leaves what the server got in NAME.received.
visit()
{
	: >"$WORK/received"
	run "$1" setpriv --groups "0,$GROUP" "$DOCTOR" "$HOST_PID"
	kill "$HOST_PID"
	cp "$WORK/received" "$WORK/$1.received"
	[[ $(result "$1.rc") == [01] ]] || fail "$1: $(<"$WORK/$1.err")"
}

expect_hidden()
{
	# As basic authentication has it.
	sed -n 's/^Authorization: Basic //p' "$WORK/$1.received" | tr -d '\r' | base64 -d >"$WORK/$1.decoded"
	if grep -a "$WORD" "$WORK/$1".{out,err,received,decoded} >&2; then
		fail "$1: what only root may read was shown or sent"
	fi
}

nobody()
{
	target setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups env "$ADDRESS" "$@" sleep 300
}

# Its own files arrive, so that the rest of this means something.
nobody SPANPROF_AUTH_TOKEN_FILE="$OPEN" SPANPROF_STATUS_FILE="$OPEN"
visit own
grep -aq '^Authorization: Bearer .*anybodys-word' "$WORK/own.received" || fail "nothing was sent"
grep -q 'state: anybodys-word' "$WORK/own.out" || fail "the status file was not read"
nobody SPANPROF_BASIC_AUTH_USER=u SPANPROF_BASIC_AUTH_PASSWORD_FILE="$OPEN"
visit own.password
grep -aq '^Authorization: Basic ' "$WORK/own.password.received" || fail "no password was sent"
for variable in AUTH_TOKEN_FILE TENANT_ID_FILE BASIC_AUTH_USER_FILE BASIC_AUTH_PASSWORD_FILE \
	HTTP_HEADERS_FILE STATUS_FILE TLS_CA_FILE; do
	user=()
	[[ $variable != BASIC_AUTH_PASSWORD_FILE ]] || user=(SPANPROF_BASIC_AUTH_USER=u)
	nobody "${user[@]}" "SPANPROF_$variable=$SECRET"
	visit "$variable"
	expect_hidden "$variable"
	[[ -s $WORK/$variable.received ]] || fail "$variable: the server was not tried"
done
# A folder that root may write to is none for it.
nobody SPANPROF_OUTPUT_DIR="$WORK/profiles"
visit output
grep -q '^  WRONG .*cannot be written' "$WORK/output.out" || fail "$(<"$WORK/output.out")"
# A file that is waited for, and one without an end.
mkfifo -m 666 "$WORK/fifo"
for file in "$WORK/fifo" /dev/zero; do
	nobody SPANPROF_STATUS_FILE="$file" SPANPROF_AUTH_TOKEN_FILE="$file"
	visit endless
done

# In another root the same path is another file, also behind a link.
readonly JAIL=$WORK/jail
mkdir -p "$JAIL$WORK" "$JAIL/etc"
root_add "$JAIL" "$(type -P busybox)" /bin/sleep
printf 'word-of-the-jail' >"$JAIL/etc/token"
ln -s "$SECRET" "$JAIL/etc/link"
target env "$ADDRESS" SPANPROF_AUTH_TOKEN_FILE=/etc/token chroot "$JAIL" /bin/sleep 300
visit jail
grep -aq 'word-of-the-jail' "$WORK/jail.received" || fail "not the file that the process sees"
for path in /etc/link "$SECRET" "/../../../../../..$SECRET"; do
	target env "$ADDRESS" SPANPROF_AUTH_TOKEN_FILE="$path" SPANPROF_STATUS_FILE="$path" \
		chroot "$JAIL" /bin/sleep 300
	visit jail.out
	expect_hidden jail.out
	[[ -s $WORK/jail.out.received ]] || fail "the server was not tried"
done

# A network without a way to us: what its environment names is not reached from ours.
if unshare -n true 2>/dev/null; then
	target env "$ADDRESS" unshare -n sleep 300
	visit network
	[[ ! -s $WORK/network.received ]] || fail "the push came from another network than the process"
fi

# Of a program with more rights than its caller has, the environment is the caller's.
cp "$(type -P sleep)" "$WORK/sleep"
chmod 4755 "$WORK/sleep"
target setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups env "$ADDRESS" \
	SPANPROF_AUTH_TOKEN_FILE="$SECRET" SPANPROF_STATUS_FILE="$SECRET" "$WORK/sleep" 300
if grep -q '^Uid:.[0-9]*.0.' "/proc/$HOST_PID/status"; then
	visit secure
	expect_hidden secure
	[[ ! -s $WORK/secure.received ]] || fail "a program with more rights than its caller was believed"
	grep -q '^  WRONG .*more rights' "$WORK/secure.out" || fail "$(<"$WORK/secure.out")"
fi

# However much there is in the environment, the look at it ends.
mapfile -t many < <(seq -f 'V%.0f=1' 20000)
target env -i "${many[@]}" "$(type -P sleep)" 300
visit many
grep -q 'too large to be read' "$WORK/many.out" || fail "$(<"$WORK/many.out")"
