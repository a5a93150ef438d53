#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SPANPROF_HOOK_DLSYM: spans that reach the SDK by a pointer from dlsym() are seen only with this switch, and those of
# a second copy of the SDK never. The loader answers the host as without us. Plugins that are opened with
# RTLD_DEEPBIND get the same answers, and their spans are not seen.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export FIXTURE_SEED=9 SPANPROF_SAMPLE_RATE=250

# names NAME: the span names in the profiles of a folder. Both copies of the fixture's SDK count ids from one seed, so
# two spans may have the same id.
names()
{
	if [[ -n $(profiles_in "$WORK/$1") ]]; then
		report "$WORK/$1" "$WORK/$1.json"
		ask "$WORK/$1.json" '" ".join(sorted({s["span_name"].replace(" ", "-") for s in d["span_names"] if s["span_name"]}))'
	fi
}

of_host()
{
	grep -E '^([ab] )?(init|start|end)' "$WORK/$1.calls"
}

# try NAME WANTED_NAMES [VARIABLE=VALUE]... -- COMMAND...: output and status are the same with and without us.
try()
{
	local name=$1 wanted=$2 settings=() seen

	shift 2
	while [[ $1 != -- ]]; do
		settings+=("$1")
		shift
	done
	shift
	mkdir "$WORK/$name"
	run "$name.plain" FIXTURE_CALLS="$WORK/$name.plain.calls" "$@"
	run_under "$name.under" FIXTURE_CALLS="$WORK/$name.under.calls" \
		SPANPROF_OUTPUT_DIR="$WORK/$name" "${settings[@]}" "$@"
	# there are two copies in the program
	sed -i '/^spanprof.*: another copy of libopentelemetry_c_api.so /d' "$WORK/$name.under.err"
	expect_same "$name.plain" "$name.under" out err rc
	[[ $(result "$name.under.rc") == 2[23] ]] || fail "$name: $(result "$name.under.err")"
	diff <(of_host "$name.plain") <(of_host "$name.under") || fail "$name: other calls"
	seen=$(names "$name")
	[[ $seen == "$wanted" ]] || fail "$name: spans '$seen', not '$wanted'"
	echo "$name: ${seen:-none}"
}

readonly HOST=$HOSTS/loading

try dlsym.off 'by-plugin' -- "$HOST"
try dlsym.on 'by-plugin by-pointer' SPANPROF_HOOK_DLSYM=true -- "$HOST"
try dlsym.now 'by-plugin by-pointer' SPANPROF_HOOK_DLSYM=true LD_BIND_NOW=1 -- "$HOST"
try dlsym.disabled '' SPANPROF_HOOK_DLSYM=true SPANPROF_DISABLED=true -- "$HOST"
try deepbind.off '' -- "$HOST" deepbind
try deepbind.on 'by-pointer' SPANPROF_HOOK_DLSYM=true -- "$HOST" deepbind

# A language that calls C functions through pointers.
cat >"$WORK/spans.py" <<'P'
import ctypes
import sys
import time


class View(ctypes.Structure):
    _fields_ = [("ptr", ctypes.c_char_p), ("len", ctypes.c_size_t)]


sdk = ctypes.CDLL(sys.argv[1])
sdk.otel_tracer_start_span.restype = ctypes.c_void_p
name = b"of python"
span = sdk.otel_tracer_start_span(None, View(name, len(name)), None)
end = time.process_time() + 0.1
while time.process_time() < end:
    pass
sdk.otel_span_end(ctypes.c_void_p(span))
sys.exit(23)
P
try python.off '' -- python3 "$WORK/spans.py" "$TEST_LIBS/libfixture-otelc.so"
try python.on 'of-python' SPANPROF_HOOK_DLSYM=true \
	-- python3 "$WORK/spans.py" "$TEST_LIBS/libfixture-otelc.so"
