# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# What the scripts of this folder share; sourced from the top of the repository. Gives each script a
# folder of its own that is removed at the end ($WORK), an environment without our variables but
# SPANPROF_ATTRIBUTES=always, and every program it runs a time limit.
set -euo pipefail

readonly ROOT=$PWD
# Another build's objects, such as sanitized ones, are tried with this variable.
readonly TEST_BUILD=${TEST_BUILD:-$ROOT/build}
readonly SO=${TEST_OBJECTS:-$TEST_BUILD}/libspanprof.so
# The program that the object starts, from its own folder.
readonly EXPORTER=${SO%/*}/spanprof-exporter
readonly HOSTS=$TEST_BUILD/test/hosts
readonly TEST_LIBS=$TEST_BUILD/test
readonly DOUBLE=$TEST_LIBS/pyroscope-double
readonly CHECK=$ROOT/test/e2e/check.py
readonly RUN_LIMIT_S=$((${TEST_RUN_LIMIT_S:-60} * ${TEST_PATIENCE:-1}))
# The default of SPANPROF_FLUSH_TIMEOUT and a second, as README promises. Where all is slower, the exporter at the end of a
# program is too, and has more time.
readonly FLUSH_LIMIT_S=$((2 * ${TEST_PATIENCE:-1}))
readonly EXIT_LIMIT_S=$((FLUSH_LIMIT_S + 1))

# shellcheck source=test/common/servers.bash
source test/common/servers.bash

# Whoever runs the tests may have set some for other programs.
for variable in $(compgen -e); do
	case $variable in
	SPANPROF_* | PYROSCOPE_* | OTEL_* | OTELC_* | FIXTURE_* | LD_PRELOAD | *_proxy | *_PROXY)
		unset "$variable"
		;;
	esac
done
unset variable
[[ -z ${TEST_PATIENCE:-} ]] || export SPANPROF_FLUSH_TIMEOUT=${FLUSH_LIMIT_S}s
# With TEST_ALLOC=1 hosts have the second object as well, and their allocations are sampled.
PRELOAD=$SO
if [[ ${TEST_ALLOC:-} == 1 ]]; then
	PRELOAD+=:${SO%/*}/libspanprof-alloc.so
	export SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL=16384
fi
readonly PRELOAD
export LC_ALL=C TZ=UTC
# Stories tell by its attributes which spans a program had, also of spans that are too short for a sample.
export SPANPROF_ATTRIBUTES=always
# A host that says nothing about its spans must not leave files in the repository.
export OTELC_SPANS_FILE=/dev/null
# Hosts name their service by variables, or leave it without a name (test/sdk/README.md).
export OTELC_NAMELESS=true

skip()
{
	echo "$*"
	exit 77
}

# left_out WHAT: a part of the script that cannot be run here. The runner reports it as a skip of its own.
left_out()
{
	echo "$*" >>"${TEST_LEFT_OUT:-/dev/null}"
}

fail()
{
	echo "FAIL: $*" >&2
	exit 1
}

need()
{
	local program

	for program in "$@"; do
		command -v "$program" >/dev/null || skip "$program is not installed"
	done
}

# Programs can be run as a user without rights: it is root who asks, and the build is not in root's own folder.
has_nobody()
{
	((EUID == 0)) && command -v setpriv >/dev/null &&
		setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$SO"
}

now_ms()
{
	echo $((${EPOCHREALTIME/./} / 1000))
}

# An emulator (see test/aarch64) takes the variables of the program as options.
emulate()
{
	local -a command=()

	read -ra command <<<"$TEST_EMULATOR"
	while [[ ${1%%=*} =~ ^[A-Za-z_][A-Za-z0-9_]*$ && $1 == *=* ]]; do
		command+=(-E "$1")
		shift
	done
	exec "${command[@]}" "$@"
}

# Runs a program of the tests with the variables before it.
LAUNCH=(env)
if [[ -n ${TEST_EMULATOR:-} ]]; then
	export -f emulate
	LAUNCH=(bash -c 'emulate "$@"' emulate)
	# What the program executes, the kernel executes.
	printf '#!/bin/sh\nexec %s "%s"\n' "$TEST_EMULATOR" "$EXPORTER" >"$WORK/spanprof-exporter"
	chmod 755 "$WORK/spanprof-exporter"
	export SPANPROF_EXPORTER=$WORK/spanprof-exporter
fi
readonly -a LAUNCH

# run NAME [VARIABLE=VALUE]... COMMAND...: leaves NAME.out, NAME.err, NAME.rc and NAME.ms in $WORK.
run()
{
	local name=$1 rc=0 began

	shift
	began=$(now_ms)
	# In a subshell, whose remarks on hosts that abort nobody wants to read.
	(timeout --kill-after=5 "$RUN_LIMIT_S" "${LAUNCH[@]}" "$@" >"$WORK/$name.out" \
		2>"$WORK/$name.err" </dev/null; exit $?) 2>/dev/null || rc=$?
	echo $(($(now_ms) - began)) >"$WORK/$name.ms"
	echo "$rc" >"$WORK/$name.rc"
	((rc != 124 && rc != 137)) || fail "$name: did not end within $RUN_LIMIT_S s"
}

# The same with the profiler.
run_under()
{
	local name=$1

	shift
	run "$name" LD_PRELOAD="$PRELOAD" "$@"
}

result()
{
	cat "$WORK/$1"
}

# value NAME WORD: what the host printed behind that word.
value()
{
	awk -v name="$2" '$1 == name { print $2 }' "$WORK/$1.out"
}

expect_rc()
{
	[[ $(result "$1.rc") == "$2" ]] || {
		cat "$WORK/$1.err" >&2
		fail "$1: exit status $(result "$1.rc"), not $2"
	}
}

# expect_same A B KIND...: two runs left the same out, err or rc.
expect_same()
{
	local a=$1 b=$2 kind

	shift 2
	for kind in "$@"; do
		cmp -s "$WORK/$a.$kind" "$WORK/$b.$kind" || {
			diff "$WORK/$a.$kind" "$WORK/$b.$kind" | head -40 >&2 || true
			fail "$b.$kind is not what $a.$kind is"
		}
	done
}

# Nothing of ours on stderr.
expect_silent()
{
	if grep 'spanprof\[' "$WORK/$1.err" >&2; then
		fail "$1: messages on stderr"
	fi
}

profiles_in()
{
	find "$1" -maxdepth 1 -name '*.pb.gz' | sort
}

# report FOLDER FILE [OPTION]...: what spanprof-report says of the folder's profiles, as JSON.
report()
{
	[[ -n $(profiles_in "$1") ]] || fail "no profile in $1"
	build/spanprof-report --json "${@:3}" "$1" >"$2"
}

# ask FILE EXPRESSION: a Python expression over the JSON document d.
ask()
{
	python3 "$CHECK" ask "$@"
}

# expect FILE EXPRESSION: it must be true.
expect()
{
	[[ $(ask "$1" "$2") == True ]] || {
		head -c 4000 "$1" >&2
		fail "not so: $2"
	}
}

# double_get PATH FILE [CURL OPTION]...
double_get()
{
	local path=$1 file=$2

	shift 2
	curl -sS --fail --max-time 10 -o "$file" "$@" "$DOUBLE_URL$path"
}

# double_query CALL BODY FILE [CURL OPTION]...
double_query()
{
	local call=$1 body=$2 file=$3

	shift 3
	double_get "/querier.v1.QuerierService/$call" "$file" -H 'Content-Type: application/json' \
		--data "$body" "$@"
}

# All that was accepted is there, nothing was refused, and nothing was accepted only to be dropped.
expect_clean_double()
{
	double_get /double/stats "$WORK/stats.json" "$@"
	expect "$WORK/stats.json" 'd["accepted"]["profiles"] > 0'
	expect "$WORK/stats.json" 'd["rejected"] == {}'
	expect "$WORK/stats.json" 'd["silently_dropped"]["total"] == 0'
}

# A port that nobody listens on: bound once, and free again.
refused_port()
{
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
