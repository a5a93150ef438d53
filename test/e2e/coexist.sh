#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# With other preloaded objects, in either order, and in programs with sanitizers, the program ends as without us and
# its profile is complete.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need gcc clang
LIBRARIES=$(dirname "$(ldd /bin/true | grep -oE '/[^ ]*/libc\.so\.6')")
readonly LIBRARIES
tried=()

# beside NAME [VARIABLE=VALUE]... COMMAND...
beside()
{
	local name=$1

	shift
	mkdir "$WORK/$name.d"
	run "$name" SPANPROF_OUTPUT_DIR="$WORK/$name.d" "$@"
	expect_rc "$name" 7
	expect_silent "$name"
	! grep 'ld\.so' "$WORK/$name.err" || fail "$name: not loaded"
	report "$WORK/$name.d" "$WORK/$name.json"
	expect "$WORK/$name.json" 'd["labelled"]["ns"] >= 0.7 * d["total"]["ns"] >= 100e6'
	tried+=("$name")
}

for object in libjemalloc.so.2 libtcmalloc.so.4 libtcmalloc_minimal.so.4 libprofiler.so.0 libeatmydata.so \
	faketime/libfaketime.so.1; do
	file=$LIBRARIES/$object
	[[ -e $file ]] || {
		left_out "$object is not installed"
		continue
	}
	name=${object##*/}
	beside "$name.after" LD_PRELOAD="$SO:$file" CPUPROFILE="$WORK/cpu.$name" FAKETIME=-1h "$HOSTS/spend" 200
	beside "$name.before" LD_PRELOAD="$file:$SO" CPUPROFILE="$WORK/cpu.$name" FAKETIME=-1h "$HOSTS/spend" 200
done
if [[ -e $LIBRARIES/libprofiler.so.0 ]]; then
	compgen -G "$WORK/cpu.libprofiler*" >/dev/null || fail "the other profiler did not profile"
fi

# A library in front of syscall() and similar functions sees the program's calls, and none of ours. The samples' label
# of the thread's name needs a system call in the handler, so a handler that came through the library would wait for
# the lock that its own thread holds.
run wrapper.plain LD_PRELOAD="$TEST_LIBS/libwrapper.so" "$HOSTS/calls" 300000
# through NAME OBJECTS [VARIABLE=VALUE]
through()
{
	local name=wrapper.$1

	mkdir "$WORK/$name.d"
	run "$name" LD_PRELOAD="$TEST_LIBS/libwrapper.so:$2" SPANPROF_OUTPUT_DIR="$WORK/$name.d" SPANPROF_THREAD_NAME=true \
		SPANPROF_THREAD_CONTEXT=true SPANPROF_SAMPLE_RATE=1000 "${@:3}" "$HOSTS/calls" 300000
	expect_same wrapper.plain "$name" out err rc
	report "$WORK/$name.d" "$WORK/$name.json" --type cpu
	expect "$WORK/$name.json" 'd["labelled"]["ns"] >= 0.7 * d["total"]["ns"] >= 20e6'
	tried+=("$name")
}
through cpu "$SO"
through alloc "$SO:${SO%/*}/libspanprof-alloc.so" SPANPROF_ALLOC=true

# sanitized NAME COMPILER OPTION [HOST]
sanitized()
{
	"$2" "-fsanitize=$3" -O1 -I. -o "$WORK/$1.host" "test/hosts/${4:-spend}.c" -L"$TEST_LIBS" -lfixture-otelc \
		-Wl,-rpath,"$TEST_LIBS" -lpthread 2>/dev/null && return
	left_out "$2 has no -fsanitize=$3"
	return 1
}
runtime=$(realpath "$(gcc -print-file-name=libasan.so)")
sanitized asan gcc address && beside asan LD_PRELOAD="$runtime:$SO" "$WORK/asan.host" 200 &&
	beside asan.unordered LD_PRELOAD="$SO" ASAN_OPTIONS=verify_asan_link_order=0 "$WORK/asan.host" 200
sanitized asan.static clang address && beside asan.static LD_PRELOAD="$SO" "$WORK/asan.static.host" 200
sanitized ubsan gcc undefined && beside ubsan LD_PRELOAD="$SO" "$WORK/ubsan.host" 200
# reports_nothing NAME COMPILER OPTION LIBRARY...: with threads, signals and a fork. A thread sanitizer replaces these
# functions, and would report unordered accesses of ours. Address randomization is off, because gcc 12's sanitizer
# cannot map its memory on machines with much of it.
reports_nothing()
{
	local name=$1 IFS=:

	sanitized "$name" "$2" "$3" race_free || return 0
	run "$name.plain" setarch -R "$WORK/$name.host"
	[[ $(result "$name.plain.rc") == 13 ]] || {
		left_out "$name: the sanitizer alone reports something"
		return 0
	}
	mkdir "$WORK/$name.d"
	run "$name" LD_PRELOAD="${*:4}" SPANPROF_OUTPUT_DIR="$WORK/$name.d" setarch -R "$WORK/$name.host"
	expect_same "$name.plain" "$name" rc out
	# Our own messages are no reports; a loaded machine may leave a thread without a timer.
	sed -i '/^spanprof\[/d' "$WORK/$name.err"
	expect_same "$name.plain" "$name" err
	report "$WORK/$name.d" "$WORK/$name.json"
	# The spans burn 520 ms. The sanitizer itself takes more time outside of them on some machines.
	expect "$WORK/$name.json" 'd["total"]["ns"] >= d["labelled"]["ns"] >= 300e6'
	tried+=("$name")
}
reports_nothing tsan gcc thread "$SO"
reports_nothing tsan.static clang thread "$SO"
reports_nothing asan.threads clang address "$SO"

# A second copy of our object: /etc/ld.so.preload may have the package's, and a program may be started with one of its
# own. The first one profiles, the other one does nothing.
mkdir "$WORK/other"
cp "$SO" "$EXPORTER" "$WORK/other"
readonly COPIES=$SO:$WORK/other/libspanprof.so

# twice NAME STATUS COMMAND...
twice()
{
	local name=$1 status=$2

	shift 2
	run "$name.plain" "$@"
	mkdir "$WORK/$name.d"
	run "$name" LD_PRELOAD="$COPIES" SPANPROF_OUTPUT_DIR="$WORK/$name.d" "$@"
	expect_rc "$name.plain" "$status"
	expect_rc "$name" "$status"
	expect_silent "$name"
	report "$WORK/$name.d" "$WORK/$name.json"
	tried+=("$name")
}
twice copies.spend 7 "$HOSTS/spend" 200
expect "$WORK/copies.spend.json" 'd["total"]["ns"] <= 300e6 and d["labelled"]["ns"] >= 0.7 * d["total"]["ns"]'
twice copies.spans 0 "$HOSTS/spans" 300
twice copies.labels 21 "$HOSTS/labels" spans
twice copies.prefork 12 "$HOSTS/prefork" before
((${#tried[@]} > 0)) || skip "none of the others is installed"
echo "beside: ${tried[*]}"
