#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2016
# A process that records no span makes no system call for us: strace sees only the loader mapping our one object, once
# per program. scripts/check-imports.sh proves that our object cannot allocate.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need strace
strace -o /dev/null true 2>/dev/null || skip "strace may not trace here"

# Commands, a substitution and a subshell, one after the other: five processes, four programs. Parallel commands would
# make the shell wait in different ways.
readonly SCRIPT='/bin/true; x=$(/bin/ls /); (exit 3); /bin/cat /dev/null; echo $x; exit 5'

# trace NAME VARIABLE=VALUE COMMAND...
trace()
{
	local name=$1 variable=$2

	shift 2
	strace -f -qq -o "$WORK/$name.trace" -E "$variable" "$@" >"$WORK/$name.out" || true
	# "pid call(args) = result"; a call that strace shows in two parts counts at its end, and a call that the
	# kernel restarts after the end of a child counts once.
	sed -E -e '/<unfinished \.\.\.>$/d' -e '/ERESTART/d' -e 's/^[0-9]+ +//' \
		-e '/^(\+\+\+|---)/d' -e 's/^<\.\.\. ([a-z0-9_]+) resumed>.*/\1/' "$WORK/$name.trace" |
		sed -E 's/\(.*//' | sort | uniq -c | awk '{ print $2, $1 }' >"$WORK/$name.calls"
}

# Prints "call more" for each call that occurs more often (or less) with the profiler.
difference()
{
	join -a1 -a2 -e0 -o 0,1.2,2.2 "$1" "$2" | awk '$2 != $3 { print $1, $3 - $2 }'
}

count_calls()
{
	grep -Ec "$1" "$2" || true
}

trace true SP_UNUSED=1 /bin/true
trace true.under LD_PRELOAD="$SO" /bin/true
difference "$WORK/true.calls" "$WORK/true.under.calls" >"$WORK/true.more"
cat "$WORK/true.more"

# The loader's calls for one more object; each at most that often.
declare -A ALLOWED=([openat]=1 [read]=1 [close]=1 [newfstatat]=1 [fstat]=1 [mmap]=5 [mprotect]=1
	[pread64]=1)
while read -r call more; do
	[[ -v ALLOWED[$call] ]] || fail "true makes $more more $call"
	((more > 0 && more <= ALLOWED[$call])) || fail "true makes $more more $call"
done <"$WORK/true.more"
[[ $(count_calls "openat\(.*libspanprof\.so" "$WORK/true.under.trace") == 1 ]] ||
	fail "our object is not opened exactly once"
[[ $(count_calls 'spanprof-exporter|memfd_create|libcurl' "$WORK/true.under.trace") == 0 ]] ||
	fail "more of us than one object is touched"

trace sh SP_UNUSED=1 /bin/sh -c "$SCRIPT"
trace sh.under LD_PRELOAD="$SO" /bin/sh -c "$SCRIPT"
cmp "$WORK/sh.out" "$WORK/sh.under.out" || fail "the script prints something else"
programs=$(awk '$1 == "execve" { print $2 }' "$WORK/sh.under.calls")
((programs == 4)) || fail "$programs programs in the script, not 4"
awk -v n="$programs" '{ print $1, $2 * n }' "$WORK/true.more" >"$WORK/sh.wanted"
difference "$WORK/sh.calls" "$WORK/sh.under.calls" >"$WORK/sh.more"
diff "$WORK/sh.wanted" "$WORK/sh.more" || fail "the script makes other calls than $programs programs"

# Switched off, the calls are the same.
strace -f -qq -o "$WORK/off.trace" -E LD_PRELOAD="$SO" -E SPANPROF_DISABLED=true /bin/true
awk '{ sub(/\(.*/, ""); print $2 }' "$WORK/off.trace" | sort >"$WORK/off.calls"
awk '{ sub(/\(.*/, ""); print $2 }' "$WORK/true.under.trace" | sort >"$WORK/on.calls"
diff "$WORK/on.calls" "$WORK/off.calls" || fail "the kill switch costs system calls"


# The first span asks the kernel once for the handler of each signal.
mkdir "$WORK/profiles"
timeout 60 strace -qq -o "$WORK/span.trace" -E LD_PRELOAD="$SO" -E SPANPROF_OUTPUT_DIR="$WORK/profiles" -E FIXTURE_SEED=1 \
	"$HOSTS/sandbox" births >"$WORK/span.out" 2>&1 || true
sed '/PR_SET_SECCOMP\|^seccomp/q' "$WORK/span.trace" >"$WORK/span.start"
grep -q memfd_create "$WORK/span.start" || fail "no span was profiled: $(<"$WORK/span.out")"
echo "calls of a first span: $(grep -c . "$WORK/span.start"), rt_sigaction: $(count_calls '^rt_sigaction' "$WORK/span.start")"
for signal in SIGUSR2 SIGTERM SIGRT_31; do
	[[ $(count_calls "^rt_sigaction\($signal, NULL" "$WORK/span.start") == 1 ]] ||
		fail "$signal: $(grep "^rt_sigaction($signal" "$WORK/span.start")"
done
