#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Samples have their callers even in objects whose call frame information no table in memory leads to: .eh_frame
# without .eh_frame_hdr, and .debug_frame alone, also packed; in programs and libraries, as root and as nobody. The
# callers are those that gdb shows. If an object has no such information at all, the stack is marked as incomplete;
# and a process in which all objects have tables stops copying stacks.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 gcc gdb strip
chmod 755 "$WORK"

# Frames of unknown size, with many saved registers, and with a call that never returns at the end of a function.
cat >"$WORK/work.c" <<'END'
#include <stdlib.h>
#include <string.h>
#include "test/hosts/host.h"
void work(int ms);
static volatile int sink;
__attribute__((noipa)) static void leaf(int ms)
{
	for (int64_t end = host_cpu_ns() + ms * INT64_C(1000000); host_cpu_ns() < end;)
		for (int i = 0; i < 200000; i++)
			sink += i;
}
__attribute__((noipa)) static int level_c(int a, int b, int c, int d, int ms)
{
	int e = sink + a, f = sink + b, g = sink + c, h = sink + d;

	leaf(ms);
	return a * e + b * f + c * g + d * h;
}
__attribute__((noipa)) static int level_b(int n, int ms)
{
	char *room = __builtin_alloca((size_t)n);

	memset(room, n, (size_t)n);
	return level_c(n, 2, 3, 4, ms) + room[n - 1];
}
__attribute__((noipa, noreturn)) static void level_a(int ms)
{
	char room[500];

	memset(room, ms, sizeof(room));
	exit(level_b(100 + sink % 3, ms) == 1234567 ? room[5] : 7);
}
void work(int ms)
{
	level_a(ms);
}
#ifdef PROGRAM
int main(int argc, char **argv)
{
	work(argc > 1 ? atoi(argv[1]) : 0);
	return 0;
}
#endif
END
cat >"$WORK/main.c" <<'END'
#include <stdlib.h>
void work(int ms);
int main(int argc, char **argv)
{
	work(argc > 1 ? atoi(argv[1]) : 0);
	return 0;
}
END
chmod 644 "$WORK"/*.c
readonly NO_TABLES=(-fno-asynchronous-unwind-tables -fno-unwind-tables -g)
readonly MS=200

# program NAME OPTION...
program()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	gcc -O2 -fomit-frame-pointer -I. -DPROGRAM "$@" -o "$WORK/$name/program" "$WORK/work.c"
}

# library NAME OPTION...: a library, for a program with a table.
library()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	gcc -O2 -fomit-frame-pointer -I. -fPIC -shared "$@" -o "$WORK/$name/libwork.so" "$WORK/work.c"
	gcc -O2 -o "$WORK/$name/program" "$WORK/main.c" "-L$WORK/$name" -lwork "-Wl,-rpath,$WORK/$name"
}

# callers_by_gdb NAME: the functions from main() to leaf(), as the report would print them.
callers_by_gdb()
{
	gdb -nx -batch -iex 'set debuginfod enabled off' -ex 'set breakpoint pending on' -ex 'break leaf' \
		-ex "run 1" -ex backtrace "$WORK/$1/program" 2>"$WORK/$1.gdb.err" >"$WORK/$1.gdb" </dev/null || true
	sed -nE 's/^#[0-9]+ +(0x[0-9a-f]+ in )?([a-z_]+) \(.*/\2/p' "$WORK/$1.gdb" | tac | paste -sd ';'
}

# profiled NAME [COMMAND]...
profiled()
{
	local name=$1

	shift
	rm -rf "$WORK/$name.d"
	mkdir -m 777 "$WORK/$name.d"
	run "$name" "$@" env SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=500 SPANPROF_OUTPUT_DIR="$WORK/$name.d" \
		SPANPROF_STATUS_FILE="$WORK/$name.d/status" LD_PRELOAD="$PRELOAD" "$WORK/$name/program" "$MS"
	expect_rc "$name" 7
	[[ -n $(profiles_in "$WORK/$name.d") ]] || fail "$name: no profile"
	build/spanprof-report --folded "$WORK/$name.d" >"$WORK/$name.folded"
}

# shares NAME CHAIN: the percentage of samples in leaf() with exactly these callers, and of those that are marked as
# incomplete.
shares()
{
	python3 - "$WORK/$1.folded" "$2" <<'END'
import sys

total = with_callers = incomplete = 0
for line in open(sys.argv[1]):
    stack, _, n = line.rstrip().rpartition(" ")
    if "leaf" in stack.split(";"):
        total += int(n)
        with_callers += int(n) * (";" + sys.argv[2] + ";" in ";" + stack + ";")
        incomplete += int(n) * stack.startswith("[incomplete]")
print(100 * with_callers // max(total, 1), 100 * incomplete // max(total, 1) if total else 100)
END
}

# walked NAME [COMMAND]...
walked()
{
	local name=$1 chain

	chain=$(callers_by_gdb "$name")
	[[ $chain == 'main;work;level_a;level_b;level_c;leaf' || $chain == 'main;level_a;level_b;level_c;leaf' ]] ||
		fail "$name: gdb shows '$chain': $(<"$WORK/$name.gdb")"
	profiled "$@"
	[[ $(shares "$name" "$chain") == '100 0' ]] ||
		fail "$name: not all samples have the callers $chain, or not all are complete: $(shares "$name" "$chain"): $(<"$WORK/$name.folded")"
}

program plain
walked plain
program headerless -Wl,--no-eh-frame-hdr
walked headerless
library headerless.so -Wl,--no-eh-frame-hdr
walked headerless.so
library anonymous.so -Wl,--no-eh-frame-hdr -Wl,--build-id=none
walked anonymous.so
for version in 3 4 5; do
	program "debug_frame.$version" "${NO_TABLES[@]}" "-gdwarf-$version"
	walked "debug_frame.$version"
done
program packed "${NO_TABLES[@]}" -gz=zlib
walked packed
library debug_frame.so "${NO_TABLES[@]}"
walked debug_frame.so
library debug_frame_headerless.so "${NO_TABLES[@]}" -Wl,--no-eh-frame-hdr
walked debug_frame_headerless.so
if has_nobody; then
	chmod -R a+rX "$WORK"/headerless.so "$WORK"/debug_frame.so
	walked headerless.so setpriv --reuid=65534 --regid=65534 --clear-groups
	walked debug_frame.so setpriv --reuid=65534 --regid=65534 --clear-groups
fi

# No table describes it.
program bare "${NO_TABLES[@]}"
strip "$WORK/bare/program"
profiled bare
python3 - "$WORK/bare.folded" <<'END' || fail "bare: a stack says that it is complete: $(<"$WORK/bare.folded")"
import sys

complete = total = 0
for line in open(sys.argv[1]):
    stack, _, n = line.rstrip().rpartition(" ")
    if "program+" in stack.split(";")[-1]:
        total += int(n)
        complete += int(n) * (not stack.startswith("[incomplete]"))
sys.exit(total == 0 or complete != 0)
END
echo "samples have their callers where no table leads to call frame information"
