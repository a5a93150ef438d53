#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# Names of files, the environment and the memory of a process, and a server's answer may contain any bytes: our output
# never controls the reader's terminal. It shows no secret of an address.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly DOCTOR=$ROOT/scripts/spanprof-doctor
# Clears the screen as ASCII, as Latin-1 in UTF-8, and as bytes that are not UTF-8; and a bell.
readonly EVIL=$'a\e[2Jb\xc2\x9b2Jc\x9b2Jd\x07e\x7ff'
# The same for paths, which the configuration refuses with control characters.
readonly HIGH=$'b\xc2\x9b2Jc\x9b2Jd'

# expect_clean NAME: there is output, and all of it is printable.
expect_clean()
{
	local file

	[[ -s $WORK/$1.out || -s $WORK/$1.err ]] || fail "$1: said nothing"
	for file in "$WORK/$1".{out,err}; do
		python3 - "$file" <<'END' || { cat -v "$file" >&2; fail "$1: ${file##*.} has control characters"; }
import sys, unicodedata
text = open(sys.argv[1], "rb").read().decode()
sys.exit(any(unicodedata.category(c) == "Cc" and c != "\n" for c in text))
END
	done
}

# Programs and scripts with such names.
mkdir "$WORK/$EVIL"
cp "$(type -P sleep)" "$WORK/$EVIL/sleep"
printf '#!%s\n' "$WORK/$EVIL/none" >"$WORK/script"
chmod +x "$WORK/script"
run run.missing build/spanprof-run "$WORK/$EVIL/nothing"
run run.check build/spanprof-run --check "$WORK/$EVIL/sleep"
run run.script build/spanprof-run --check "$WORK/script"
run run.label build/spanprof-run --label "$EVIL" true
run run.pid build/spanprof-run --check --pid "$EVIL"
cp build/spanprof-run "$WORK/$EVIL/spanprof-run"
run run.object "$WORK/$EVIL/spanprof-run" true
cp build/spanprof-entrypoint "$WORK/$EVIL"
run entrypoint "$WORK/$EVIL/spanprof-entrypoint" true
run entrypoint.debug SPANPROF_DEBUG=true build/spanprof-entrypoint "$WORK/$EVIL/sleep" 0
run preload build/spanprof-preload --object "$WORK/$EVIL/$EVIL" enable
run preload.status build/spanprof-preload --root "$WORK/$EVIL" --object "/$EVIL/x" status
run report build/spanprof-report "$WORK/$EVIL/nothing"
run report.status build/spanprof-report --status "$WORK/$EVIL/nothing"
run doctor.missing "$DOCTOR" "$EVIL"
run doctor.command "$DOCTOR" -- "$WORK/$EVIL/sleep" 0
for name in run.{missing,check,script,label,pid,object} entrypoint{,.debug} preload{,.status} report{,.status} \
	doctor.{missing,command}; do
	expect_clean "$name"
done

# The profiler itself, in a program with such values.
run_under log SPANPROF_LOG_LEVEL="$EVIL" "SPANPROF_$EVIL=1" SPANPROF_SERVER_ADDRESS="http://$EVIL" \
	SPANPROF_OUTPUT_DIR="/nowhere/$HIGH" OTEL_SERVICE_NAME="$EVIL" "$HOSTS/spend" 50
grep '^spanprof\[' "$WORK/log.err" >"$WORK/said.err"
: >"$WORK/said.out"
expect_clean said

# A server with such an answer, which the doctor asks for a process with such an environment.
cat >"$WORK/server.py" <<'END'
import http.server, os, sys

class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = b"from http://user:s3cret@here:1/x?token=s3cret " + os.fsencode(sys.argv[2])
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
with open(sys.argv[1] + ".part", "w") as port:
    port.write(str(server.server_port))
os.rename(sys.argv[1] + ".part", sys.argv[1])
server.serve_forever()
END
python3 "$WORK/server.py" "$WORK/port" "$EVIL" &
STARTED+=("$!")
disown "$!"
poll_until 20 test -s "$WORK/port" || fail "the server does not start"
URL=http://user:s3cret@127.0.0.1:$(<"$WORK/port")
readonly URL

# examine NAME VARIABLE=VALUE...: the doctor examines a program with these variables.
examine()
{
	local name=$1 pid

	shift
	env "$@" "$WORK/$EVIL/sleep" 100 </dev/null >/dev/null 2>&1 &
	pid=$!
	STARTED+=("$pid")
	disown "$pid"
	poll_until 20 grep -q '^Name:.sleep' "/proc/$pid/status" || fail "no process"
	run "$name" "$DOCTOR" "$pid"
	kill "$pid"
	expect_clean "$name"
	if grep s3cret "$WORK/$name".{out,err} >&2; then
		fail "$name: a secret"
	fi
}

examine doctor "PYROSCOPE_SERVER_ADDRESS=$URL" OTEL_SERVICE_NAME="$HIGH" LD_PRELOAD="/$EVIL/libspanprof.so" \
	"SPANPROF_$EVIL=1" OTEL_TRACES_SAMPLER="$EVIL"
examine doctor.other "PYROSCOPE_SERVER_ADDRESS=$URL" OTEL_SERVICE_NAME="$EVIL" LD_PRELOAD="$EVIL"

# answered NAME VARIABLE=VALUE...: the doctor examines a command that sends its profiles to that server.
answered()
{
	local name=$1

	shift
	run "$name" OTEL_SERVICE_NAME="$HIGH" OTEL_TRACES_SAMPLER="$EVIL" "SPANPROF_$EVIL=1" "$@" "$DOCTOR" -- "$HOSTS/spend" 50
	expect_clean "$name"
	if grep s3cret "$WORK/$name".{out,err} >&2; then
		fail "$name: a secret"
	fi
}

answered answer "PYROSCOPE_SERVER_ADDRESS=$URL"
grep -q '^  WRONG .*failed: status 403: from http://here:1/x ' "$WORK/answer.out" || fail "$(<"$WORK/answer.out")"
# A query in an address is refused, and not shown.
answered query "PYROSCOPE_SERVER_ADDRESS=$URL/x?token=s3cret"
grep -q '^  WRONG .*PYROSCOPE_SERVER_ADDRESS' "$WORK/query.out" || fail "$(<"$WORK/query.out")"
# Text that somebody wrote into a status file.
printf '{"samples": {}, "state": "\\u001b[2J\\u009b2J", "loss": {"\\u001b[2J": 3},
	"problems": [{"text": "\\u001b[2J\\n", "remedy": "\\u009b2J"}]}' >"$WORK/status"
run report.evil build/spanprof-report --status "$WORK/status"
expect_clean report.evil
grep -q '^WRONG ' "$WORK/report.evil.out" || fail "$(<"$WORK/report.evil.out")"
# A proxy's password, which libcurl quotes.
answered proxy.doctor PYROSCOPE_SERVER_ADDRESS=http://pyroscope.invalid:4040 \
	http_proxy=http://user:s3cret@127.0.0.1:port
run_under proxy PYROSCOPE_SERVER_ADDRESS=http://pyroscope.invalid:4040 OTEL_SERVICE_NAME=shop \
	http_proxy=http://user:s3cret@127.0.0.1:port SPANPROF_STATUS_FILE="$WORK/proxy.status" "$HOSTS/spend" 50
grep -q '^spanprof\[.*push\|^spanprof\[.*upload\|^spanprof\[.*lost' "$WORK/proxy.err" || fail "$(<"$WORK/proxy.err")"
if grep s3cret "$WORK/proxy.err" "$WORK/proxy.status" >&2; then
	fail "the password of the proxy"
fi
# Lines of a command that look like our messages.
cat >"$WORK/liar" <<'END'
#!/bin/sh
printf 'spanprof[1]: took signal \033[2J \302\2332J \2332J\n' >&2
END
chmod +x "$WORK/liar"
run liar OTEL_SERVICE_NAME=shop "PYROSCOPE_SERVER_ADDRESS=$URL" "$DOCTOR" -- "$WORK/liar"
expect_clean liar
