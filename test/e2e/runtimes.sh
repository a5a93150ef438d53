#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Stacks of generated code, of each installed runtime: without frame pointers they are marked as incomplete, and with
# the options in LIMITATIONS of the manual they have their callers.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3

# profiled NAME RC COMMAND...
profiled()
{
	local name=$1 rc=$2

	shift 2
	mkdir "$WORK/$name.d"
	run_under "$name" SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=200 SPANPROF_OUTPUT_DIR="$WORK/$name.d" "$@"
	expect_rc "$name" "$rc"
	poll_until 10 has_profile "$name" || fail "$name: no profile"
	build/spanprof-report --folded "$WORK/$name.d" >"$WORK/$name.folded"
}

has_profile()
{
	[[ -n $(profiles_in "$WORK/$1.d") ]]
}

# stacks NAME EXPRESSION: the percentage of the time in stacks, each from its root, for which the expression is true.
stacks()
{
	python3 - "$WORK/$1.folded" "$2" <<'END'
import sys

total = true = 0
for line in open(sys.argv[1]):
    stack, _, n = line.rstrip().rpartition(" ")
    s = stack.split(";")
    if s[0] != "[unsampled cpu]":
        total += int(n)
        true += int(n) * bool(eval(sys.argv[2]))
print(100 * true // max(total, 1) if total else -1)
END
}

# share NAME EXPRESSION LOWEST HIGHEST
share()
{
	local got

	got=$(stacks "$1" "$2")
	((got >= $3 && got <= $4)) || fail "$1: $got %, not $3 to $4 %, of the time has stacks with $2: $(head -c 3000 "$WORK/$1.folded")"
}

# If the outermost function of a stack is generated code, the stack is marked as incomplete.
readonly LIE='s[0] in ("[anon]", "[unknown]") or s[0].startswith("$")'
tried=0

if command -v javac >/dev/null && command -v java >/dev/null; then
	cat >"$WORK/Load.java" <<'END'
public class Load {
	static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
	static double sum(int n) {
		double s = 0;
		for (int i = 0; i < n; i++)
			s += Math.sqrt(i) * fib(i % 12);
		return s;
	}
	public static void main(String[] args) {
		long end = System.currentTimeMillis() + 1000;
		double s = 0;
		while (System.currentTimeMillis() < end)
			s += sum(10000);
		System.exit(s > 0 ? 7 : 8);
	}
}
END
	(cd "$WORK" && javac Load.java)
	profiled java 7 java -cp "$WORK" Load
	share java "$LIE" 0 0
	profiled java.fp 7 java -XX:+PreserveFramePointer -cp "$WORK" Load
	share java.fp "$LIE" 0 0
	share java.fp 's[0] == "[incomplete]"' 0 10
	share java.fp 's[-1] == "[anon]" and s[0] != "[incomplete]"' 20 100
	tried=1
else
	left_out 'no java'
fi

if command -v erlc >/dev/null && command -v erl >/dev/null; then
	cat >"$WORK/load.erl" <<'END'
-module(load).
-export([main/0]).
fib(N) when N < 2 -> N;
fib(N) -> fib(N - 1) + fib(N - 2).
loop(0) -> ok;
loop(N) -> fib(27), loop(N - 1).
main() ->
    io:format("~s~n", [os:getpid()]),
    loop(100),
    halt(3).
END
	(cd "$WORK" && erlc load.erl)
	profiled erl 3 erl -noshell -pa "$WORK" -s load main
	share erl "$LIE" 0 0
	profiled erl.fp 3 erl +JPperf true -noshell -pa "$WORK" -s load main
	rm -f "/tmp/perf-$(head -n 1 "$WORK/erl.fp.out").map"
	share erl.fp "$LIE" 0 0
	# Each call of fib() is in the stack, down to the start of the process.
	share erl.fp 's[-1] == "$load:fib/1" and len(s) > 6 and "$load:main/0" in s' \
		"$(($(stacks erl.fp 's[-1] == "$load:fib/1"') * 9 / 10))" 100
	share erl.fp 's[-1] == "$load:fib/1"' 20 100
	tried=1
else
	left_out 'no erlang'
fi
((tried)) || skip 'neither java nor erlang is installed'
echo "stacks of generated code have callers, or say that they are incomplete"
