# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Functions for the scripts of this folder, sourced from the top of the repository. Each script gets its own folder
# ($WORK), which is removed at the end, an environment without our variables except SPANPROF_ATTRIBUTES=always, and a
# time limit for every program that it runs.
set -euo pipefail

readonly ROOT=$PWD
# This variable selects the objects of another build, such as sanitized ones.
readonly TEST_BUILD=${TEST_BUILD:-$ROOT/build}
SO=${TEST_OBJECTS:-$TEST_BUILD}/libspanprof.so
# The program that the object starts, in its own folder.
readonly EXPORTER=${SO%/*}/spanprof-exporter
readonly HOSTS=$TEST_BUILD/test/hosts
readonly TEST_LIBS=$TEST_BUILD/test
readonly DOUBLE=$TEST_LIBS/pyroscope-double
readonly CHECK=$ROOT/test/e2e/check.py
readonly RUN_LIMIT_S=$((${TEST_RUN_LIMIT_S:-60} * ${TEST_PATIENCE:-1}))
# The default of SPANPROF_FLUSH_TIMEOUT plus a second, as README promises. On slow test machines the exporter has more
# time at the end of a program.
readonly FLUSH_LIMIT_S=$((2 * ${TEST_PATIENCE:-1}))
readonly EXIT_LIMIT_S=$((FLUSH_LIMIT_S + 1))

# shellcheck source=test/common/servers.bash
source test/common/servers.bash

# The caller's environment may have variables for other programs.
for variable in $(compgen -e); do
	case $variable in
	SPANPROF_* | PYROSCOPE_* | OTEL_* | OTELC_* | FIXTURE_* | LD_PRELOAD | *_proxy | *_PROXY)
		unset "$variable"
		;;
	esac
done
unset variable
[[ -z ${TEST_PATIENCE:-} ]] || export SPANPROF_FLUSH_TIMEOUT=${FLUSH_LIMIT_S}s
# The kernel executes the exporter, so an emulated object has a script in its place.
if [[ -n ${TEST_EMULATOR:-} ]]; then
	mkdir "$WORK/emulated"
	cp "${SO%/*}"/libspanprof*.so "$WORK/emulated"
	printf '#!/bin/sh\nexec %s "%s" "$@"\n' "$TEST_EMULATOR" "$EXPORTER" >"$WORK/emulated/spanprof-exporter"
	chmod 755 "$WORK/emulated" "$WORK/emulated/spanprof-exporter"
	SO=$WORK/emulated/libspanprof.so
fi
readonly SO
# With TEST_ALLOC=1 hosts get the second object as well, and their allocations are sampled.
PRELOAD=$SO
if [[ ${TEST_ALLOC:-} == 1 ]]; then
	PRELOAD+=:${SO%/*}/libspanprof-alloc.so
	export SPANPROF_ALLOC=true SPANPROF_ALLOC_INTERVAL=16384
fi
readonly PRELOAD
export LC_ALL=C TZ=UTC
# The attributes tell which spans a program had, including spans too short for a sample.
export SPANPROF_ATTRIBUTES=always
# A host without a file for its spans must not write files into the repository.
export OTELC_SPANS_FILE=/dev/null
# Variables name the service of hosts, or leave it without a name (test/sdk/README.md).
export OTELC_NAMELESS=true

skip()
{
	echo "$*"
	exit 77
}

# left_out WHAT: a part of the script cannot run here. The runner reports it as a separate skip.
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

# Programs can run as a user without rights: the caller is root, and the build is not in root's own folder.
has_nobody()
{
	((EUID == 0)) && command -v setpriv >/dev/null &&
		setpriv --reuid=65534 --regid=65534 --clear-groups test -r "$SO"
}

# object_with FOLDER PROGRAM: makes that folder, with an object that starts the program as its exporter. Prints the
# object's path.
object_with()
{
	mkdir -p "$1"
	cp "$SO" "$1/libspanprof.so"
	cp "$2" "$1/spanprof-exporter"
	echo "$1/libspanprof.so"
}

now_ms()
{
	echo $((${EPOCHREALTIME/./} / 1000))
}

# An emulator (see test/aarch64) takes the program's variables as options.
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

# Runs a program of the tests with the given variables.
LAUNCH=(env)
if [[ -n ${TEST_EMULATOR:-} ]]; then
	export -f emulate
	LAUNCH=(bash -c 'emulate "$@"' emulate)
fi
readonly -a LAUNCH

# run NAME [VARIABLE=VALUE]... COMMAND...: writes NAME.out, NAME.err, NAME.rc and NAME.ms into $WORK.
run()
{
	local name=$1 rc=0 began

	shift
	began=$(now_ms)
	# In a subshell, because the shell's remarks on hosts that abort are of no use.
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

# value NAME WORD: the host's output behind that word.
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

# expect_same A B KIND...: two runs have the same out, err or rc.
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

# stderr has no line of ours.
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

# report FOLDER FILE [OPTION]...: the report of spanprof-report about the folder's profiles, as JSON.
report()
{
	[[ -n $(profiles_in "$1") ]] || fail "no profile in $1"
	build/spanprof-report --json "${@:3}" "$1" >"$2"
}

# ask FILE EXPRESSION: prints the value of a Python expression over the JSON document d.
ask()
{
	python3 "$CHECK" ask "$@"
}

# expect FILE EXPRESSION: the expression must be true.
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

# Everything that the double accepted is stored, and it refused nothing.
expect_clean_double()
{
	double_get /double/stats "$WORK/stats.json" "$@"
	expect "$WORK/stats.json" 'd["accepted"]["profiles"] > 0'
	expect "$WORK/stats.json" 'd["rejected"] == {}'
	expect "$WORK/stats.json" 'd["silently_dropped"]["total"] == 0'
}

# A port without a listener: bound once, and free again.
refused_port()
{
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
