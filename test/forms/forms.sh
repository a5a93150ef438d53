#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One SDK inside programs and plugins, in all forms that linkers and compilers produce, with the stories of
# test/conformance. If the SDK cannot be hooked, it is left alone, and the user gets a message.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly RUNNER=$ROOT/build/spanprof-run
readonly FORMS=$TEST_LIBS/forms

# Forms without an installed linker or compiler were not built: their titles say what they need.
touch "$WORK/without"
for tool in gold=ld.gold lld=ld.lld clang=clang++; do
	command -v "${tool#*=}" >/dev/null ||
		awk '$1 == "mode"' "$ROOT/test/forms/forms.conf" | grep -w "${tool%=*}" >>"$WORK/without"
done
while read -r _ form _; do
	left_out "$form: its linker is not installed"
done <"$WORK/without"
grep -vxFf "$WORK/without" "$ROOT/test/forms/forms.conf" >"$WORK/forms.conf"
python3 test/conformance/matrix.py run "$SO" "$WORK/forms.json" "$WORK/forms.conf" build/test/forms

# linked FORM: whether it was built here
linked()
{
	grep "^mode $1 " "$WORK/forms.conf" >/dev/null
}

# says FORM SDK WORDS [STORY]: the profiler's only message by default, for a story with spans and scopes
says()
{
	local said form=$1 sdk=$2

	linked "$form" || return 0
	mkdir "$WORK/$form"
	run_under "$form" SPANPROF_FLUSH_TIMEOUT=0 SPANPROF_OUTPUT_DIR="$WORK/$form" CONFORMANCE_LABELS=unseen "$FORMS/$sdk/$form" \
		--story "${4:-ambient parent}" "$WORK/$form"
	expect_rc "$form" 7
	sed -n 's/^spanprof\[[0-9]*\]: //p' "$WORK/$form.err" >"$WORK/$form.said"
	said=$(cat "$WORK/$form.said")
	[[ $said == "$3" ]] || fail "$form: '$said', not '$3'"
}

# checks FORM SDK STATUS WORDS
checks()
{
	linked "$1" || return 0
	run "check.$1" "$RUNNER" --check "$FORMS/$2/$1"
	expect_rc "check.$1" "$3"
	grep -F "$4" "$WORK/check.$1.out" >/dev/null || fail "--check of $1: $(<"$WORK/check.$1.out")"
}

# preceded BYTE: makes a program with that byte before the name of its class of spans
preceded()
{
	python3 -c 'import sys
name = b"N13opentelemetry2v13sdk5trace4SpanE\0"
data = open(sys.argv[1], "rb").read()
assert data.count(b"\0" + name) == 1
open(sys.argv[3], "wb").write(data.replace(b"\0" + name, bytes([int(sys.argv[2])]) + name))' \
		"$FORMS/v1/plain" "$1" "$WORK/preceded"
	chmod +x "$WORK/preceded"
	run "preceded.$1" "$RUNNER" --check "$WORK/preceded"
}

says plain v1 ''
checks plain v1 0 'found by run-time type information'
# Linkers put constants directly behind each other.
preceded 255
expect_rc preceded.255 0
preceded 80
expect_rc preceded.80 1
# checked_as_libcxx PROGRAM STATUS: checks it as if it were built with that library
checked_as_libcxx()
{
	LC_ALL=C sed 's/NSt7__cxx11/NSt3__1xx11/g' "$1" >"$WORK/libcxx"
	chmod +x "$WORK/libcxx"
	run libcxx "$RUNNER" --check "$WORK/libcxx"
	expect_rc libcxx "$2"
}
checked_as_libcxx "$FORMS/v1/plain" 0
checked_as_libcxx "$TEST_LIBS/conformance/v1_stl17/static" 1
grep -q 'those of libc++ are not read' "$WORK/libcxx.out" || fail "--check: $(<"$WORK/libcxx.out")"
run stl "$RUNNER" --check "$TEST_LIBS/conformance/v1_stl17/static"
expect_rc stl 0
says nopie_archive v1 ''
for form in nopie_code lld_nopie_code; do
	says "$form" v2 ''
	checks "$form" v2 0 'found by run-time type information'
done
says relative v1 "opentelemetry-cpp, ABI v1: this release's class of spans is not understood: its spans are not profiled"
# The compiler knows the only class of storages, and calls it directly. A child without a given parent that has a
# trace nevertheless shows that a context was attached.
says clang_vtables v1 "opentelemetry-cpp, ABI v1: this release's context::RuntimeContextStorage is not understood: its scopes are not followed, spans label from start to end"
# Here only detach is called directly. A class that overrides attach alone cannot be told from such a program.
for form in clang_attach attach; do
	says "$form" v1 "opentelemetry-cpp, ABI v1: the program's own context storage is not understood: attach and detach do not show which span a thread works for, as when fibers switch or a compiler calls Detach directly, so scopes label no samples" 'attach and detach'
done
