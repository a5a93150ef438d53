#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The exporter asks debuginfod servers if DEBUGINFOD_URLS is set, and never otherwise; a server that does not answer
# delays neither the samples nor the end of the process.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 go gcc objcopy strip readelf
ldconfig -p | grep 'libdebuginfod\.so\.1' >/dev/null || skip "libdebuginfod.so.1 is not installed"
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off PPROF_TMPDIR=$WORK

# A program whose debug file is only on the server.
mkdir "$WORK/files" "$WORK/hosts"
cp "$HOSTS/spans" "$WORK/hosts/spans"
id=$(readelf -n "$HOSTS/spans" | awk '/Build ID:/ { print $3 }')
objcopy --only-keep-debug "$HOSTS/spans" "$WORK/files/$id"
strip --strip-all "$WORK/hosts/spans"

# serve FOLDER: sets SERVER.
serve()
{
	python3 test/symbols/debuginfod.py "$1" "$WORK/port" "$WORK/asked" 2>"$WORK/server.err" &
	STARTED+=("$!")
	disown "$!"
	poll_until 10 test -s "$WORK/port" || fail "the server does not start"
	SERVER=http://127.0.0.1:$(<"$WORK/port")
	rm "$WORK/port"
}

# profile NAME MS [VARIABLE=VALUE]...
profile()
{
	local name=$1 ms=$2 file

	shift 2
	mkdir "$WORK/$name" "$WORK/$name.home"
	run_under "$name" LD_LIBRARY_PATH="$TEST_LIBS" HOME="$WORK/$name.home" \
		SPANPROF_OUTPUT_DIR="$WORK/$name" SPANPROF_UPLOAD_INTERVAL=1s \
		SPANPROF_SAMPLE_RATE=250 OTELC_SPANS_JSON="$WORK/spans" "$@" \
		"$WORK/hosts/spans" "$ms"
	expect_rc "$name" 0
	for file in $(profiles_in "$WORK/$name"); do
		timeout 60 go tool pprof -raw -symbolize=none "$file" >>"$WORK/$name.raw"
	done
}

serve "$WORK/files"
profile without 200
grep -q 'spans+0x' "$WORK/without.raw" || fail "the stripped program has names"
[[ ! -e $WORK/asked ]] || fail "a server was asked without being configured"

# Another library of that name, which the program's search path would find first, is not loaded.
mkdir "$WORK/path"
gcc -shared -fPIC -Wl,-soname,libdebuginfod.so.1 -o "$WORK/path/libdebuginfod.so.1" -x c - <<END_OF_SOURCE
#include <fcntl.h>
__attribute__((constructor)) static void loaded(void) { (void)!open("$WORK/loaded", O_CREAT | O_WRONLY, 0600); }
END_OF_SOURCE

# The process runs longer than the first upload interval, because looking up lines may take more time in that
# interval.
profile with 1600 DEBUGINFOD_URLS="$SERVER" LD_LIBRARY_PATH="$WORK/path:$TEST_LIBS"
[[ ! -e $WORK/loaded ]] || fail "a library of the search path was loaded"
grep -q "^/buildid/$id/debuginfo\$" "$WORK/asked" || fail "the server was not asked"
[[ $(grep -c "/$id/" "$WORK/asked") == 1 ]] || fail "asked more than once"
# Newer versions of Go's pprof print a column after the line.
grep -Eq ' work_checkout .*/test/hosts/spans.c:[1-9][0-9]*[: ]' "$WORK/with.raw" ||
	fail "no line from the server's file"

# One message if the library cannot make its folder, and one if a server is away.
profile homeless 1600 DEBUGINFOD_URLS="$SERVER" HOME=/proc/none
profile away 1600 DEBUGINFOD_URLS=http://127.0.0.1:9
for said in homeless:'no folder .*set DEBUGINFOD_CACHE_PATH' away:'DEBUGINFOD_URLS gave no answer '; do
	[[ $(grep -c "${said#*:}" "$WORK/${said%%:*}.err") == 1 ]] || fail "$said: $(<"$WORK/${said%%:*}.err")"
done
[[ ! -s $WORK/with.err ]] || fail "with: $(<"$WORK/with.err")"

# cached NAME: the size of the largest file that libdebuginfod keeps.
cached()
{
	find "$WORK/$1.home" -type f -printf '%s\n' | sort -n | tail -1
}

# The library's own limits hold.
(($(cached with) > 1000)) || fail "the file of the server is small: $(cached with)"
profile limited 1600 DEBUGINFOD_URLS="$SERVER" DEBUGINFOD_MAXSIZE=1000
[[ -e $WORK/asked ]] || fail "limited: no server was asked"
(($(cached limited) <= 1000)) || fail "limited: $(cached limited) bytes were taken"

# If the user sets no limit, ours holds: a file that claims to have 1.5 GiB is not downloaded.
cat >"$WORK/endless.py" <<'END'
import http.server, sys
class Endless(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', str(3 << 29))
        self.end_headers()
        sent = 0
        try:
            while sent < 3 << 29:
                self.wfile.write(bytes(1 << 20))
                sent += 1 << 20
        except OSError:
            pass
        with open(sys.argv[1], 'w') as file:
            print(sent, file=file)
server = http.server.HTTPServer(('127.0.0.1', 0), Endless)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 "$WORK/endless.py" "$WORK/sent" >"$WORK/endless.port" 2>/dev/null &
STARTED+=("$!")
disown "$!"
poll_until 10 test -s "$WORK/endless.port" || fail "the endless server does not start"
profile endless 1600 DEBUGINFOD_URLS="http://127.0.0.1:$(<"$WORK/endless.port")"
poll_until 20 test -s "$WORK/sent" || fail "the endless server is still heard"
(($(<"$WORK/sent") < 100 << 20)) || fail "$(<"$WORK/sent") bytes of an endless file were taken"

# No server is asked if there is nothing to symbolize.
rm "$WORK/asked"
profile off 100 DEBUGINFOD_URLS="$SERVER" SPANPROF_SYMBOLIZE=off
[[ ! -e $WORK/asked ]] || fail "a server was asked with SPANPROF_SYMBOLIZE=off"

# A server that is silent: the end of the process cancels the question.
serve -
profile silent 500 DEBUGINFOD_URLS="$SERVER"
run plain LD_LIBRARY_PATH="$TEST_LIBS" OTELC_SPANS_JSON="$WORK/spans" "$WORK/hosts/spans" 500
(($(result silent.ms) < $(result plain.ms) * 3 + EXIT_LIMIT_S * 1000 + 3000)) ||
	fail "waited for a silent server: $(result silent.ms) ms instead of $(result plain.ms)"
grep -q 'spans+0x' "$WORK/silent.raw" || fail "no samples"
