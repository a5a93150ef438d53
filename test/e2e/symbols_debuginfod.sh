#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# debuginfod servers are asked when DEBUGINFOD_URLS is set, and never otherwise; a server that does not
# answer delays neither the samples nor the end of the process.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 go gcc objcopy strip readelf
ldconfig -p | grep 'libdebuginfod\.so\.1' >/dev/null || skip "libdebuginfod.so.1 is not installed"
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off PPROF_TMPDIR=$WORK

# A program whose debug file only the server has.
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

# Nor is another library of that name loaded, which the program's search path would find first.
mkdir "$WORK/path"
gcc -shared -fPIC -Wl,-soname,libdebuginfod.so.1 -o "$WORK/path/libdebuginfod.so.1" -x c - <<END_OF_SOURCE
#include <fcntl.h>
__attribute__((constructor)) static void loaded(void) { (void)!open("$WORK/loaded", O_CREAT | O_WRONLY, 0600); }
END_OF_SOURCE

# Longer than the first interval, whose end is not in a hurry.
profile with 1600 DEBUGINFOD_URLS="$SERVER" LD_LIBRARY_PATH="$WORK/path:$TEST_LIBS"
[[ ! -e $WORK/loaded ]] || fail "a library of the search path was loaded"
grep -q "^/buildid/$id/debuginfo\$" "$WORK/asked" || fail "the server was not asked"
[[ $(grep -c "/$id/" "$WORK/asked") == 1 ]] || fail "asked more than once"
# Go's newer pprof prints a column after the line.
grep -Eq ' work_checkout .*/test/hosts/spans.c:[1-9][0-9]*[: ]' "$WORK/with.raw" ||
	fail "no line from the server's file"

# A folder that the library cannot make is told once, and that a server is away.
profile homeless 1600 DEBUGINFOD_URLS="$SERVER" HOME=/proc/none
profile away 1600 DEBUGINFOD_URLS=http://127.0.0.1:9
for said in homeless:'no folder .*set DEBUGINFOD_CACHE_PATH' away:'DEBUGINFOD_URLS gave no answer '; do
	[[ $(grep -c "${said#*:}" "$WORK/${said%%:*}.err") == 1 ]] || fail "$said: $(<"$WORK/${said%%:*}.err")"
done
[[ ! -s $WORK/with.err ]] || fail "with: $(<"$WORK/with.err")"

# Nothing is asked when there is nothing to symbolize.
rm "$WORK/asked"
profile off 100 DEBUGINFOD_URLS="$SERVER" SPANPROF_SYMBOLIZE=off
[[ ! -e $WORK/asked ]] || fail "a server was asked with SPANPROF_SYMBOLIZE=off"

# Silence: the end of the process breaks the question off.
serve -
profile silent 500 DEBUGINFOD_URLS="$SERVER"
run plain LD_LIBRARY_PATH="$TEST_LIBS" OTELC_SPANS_JSON="$WORK/spans" "$WORK/hosts/spans" 500
(($(result silent.ms) < $(result plain.ms) * 3 + EXIT_LIMIT_S * 1000 + 3000)) ||
	fail "waited for a silent server: $(result silent.ms) ms instead of $(result plain.ms)"
grep -q 'spans+0x' "$WORK/silent.raw" || fail "no samples"
