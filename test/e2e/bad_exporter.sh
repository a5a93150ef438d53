#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With something else in the exporter's place the program runs as without us, and one line says why
# there are no profiles: an exporter of another version, as left by half an update, or no exporter.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

# with NAME FILE REASON
with()
{
	mkdir "$WORK/$1"
	cp "$SO" "$WORK/$1/libspanprof.so"
	cp "$2" "$WORK/$1/libspanprof-export.so"
	# It stays until there is something on its stderr.
	run "ran.$1" LD_PRELOAD="$WORK/$1/libspanprof.so" "$HOSTS/leaves" "$WORK/ran.$1.err"
	expect_rc "ran.$1" 0
	grep 'spanprof\[' "$WORK/ran.$1.err" >"$WORK/$1.lines" || true
	[[ $(wc -l <"$WORK/$1.lines") == 1 && $(<"$WORK/$1.lines") == *": cannot $3: not profiling this process" ]] || {
		cat "$WORK/ran.$1.err" >&2
		fail "$1: not the one line"
	}
}

with version "$TEST_LIBS/libslow_exporter.so" 'start the exporter (it is of another version than libspanprof.so)'
with other "$TEST_LIBS/libburn.so" "load the exporter: no sp_export_run in $WORK/other/libspanprof-export.so"
