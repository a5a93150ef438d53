#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The status lists the objects whose functions have no names or no lines, with the reason and with their CPU time in
# the profiles: stripped ones, those whose debug information this libelf cannot read, files that may not be read,
# generated code. It lists no object that is complete. At most the twenty largest are listed.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 cc objcopy strip
chmod 755 "$WORK"
cat >"$WORK/host.c" <<'END'
/* host MS OBJECT...: runs work() of each for so long, or code that it has written; "denied:" lets
 * nobody read it any more, "blob:" is a file of code without headers, and "changed:" gets another byte
 * at CHANGED_AT in the end. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static int64_t cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	for (int i = 2; i < argc; i++) {
		const char *colon = strchr(argv[i], ':');
		const char *path = colon != NULL ? colon + 1 : argv[i];
		int is_blob = strncmp(argv[i], "blob:", 5) == 0;
		void *object = strcmp(argv[i], "generated") != 0 && !is_blob ? dlopen(path, RTLD_NOW) : NULL;
		void (*work)(long) = object != NULL ? (void (*)(long))dlsym(object, "work") : NULL;

		if (is_blob)
			work = (void (*)(long))(uintptr_t)mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE,
							       open(path, O_RDONLY), 0);
		if (object == NULL && !is_blob) {
			const char *made = getenv("MADE");
			size_t size = strtoul(getenv("MADE_BYTES"), NULL, 10);
			char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
					  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			for (size_t k = 0; k < size; k++)
				code[k] = (char)strtoul((char[]){made[2 * k], made[2 * k + 1], 0}, NULL, 16);
			__builtin___clear_cache(code, code + 4096);
			work = (void (*)(long))(uintptr_t)code;
		}
		if (work == NULL)
			return 3;
		if (strncmp(argv[i], "denied:", 7) == 0 && chmod(path, 0) != 0)
			return 5;
		for (int64_t end = cpu_ms() + atoi(argv[1]); cpu_ms() < end;)
			work(1000000);
		if (strncmp(argv[i], "changed:", 8) == 0 &&
		    pwrite(open(path, O_WRONLY), "\x5a", 1, atol(getenv("CHANGED_AT"))) != 1)
			return 6;
	}
	return 0;
}
END
cat >"$WORK/work.c" <<'END'
static volatile long sink;
__attribute__((noinline, noclone)) static void NAME(long n)
{
	while (n-- > 0)
		sink = n;
}
__attribute__((noinline)) void work(long n)
{
	NAME(n);
	sink = 0;
}
END
${CC:-cc} -O1 -g -o "$WORK/host" "$WORK/host.c" -ldl

# object NAME [FLAG]...: a library with the function work_NAME.
object()
{
	local name=$1

	shift
	(cd "$WORK" && ${CC:-cc} -O1 -g -gz=none -shared -fPIC -Wl,--build-id "-DNAME=work_$name" "$@" -o "$name.so" work.c)
}

AS_USER=()

# profiled NAME COMMAND...: writes its status and the report of its profiles.
profiled()
{
	local name=$1

	shift
	mkdir -m 777 "$WORK/$name.d"
	run "$name" "${AS_USER[@]}" env SPANPROF_PROFILE=always SPANPROF_OUTPUT_DIR="$WORK/$name.d" SPANPROF_STATUS_FILE="$WORK/$name.d/status" \
		LD_PRELOAD="$PRELOAD" "$@"
	expect_rc "$name" 0
	# An exporter writes the last status when its host has ended.
	poll_until 20 is_of_all "$name" || fail "$name: not the sum of the profiles: $(<"$WORK/$name.json")"
	expect "$WORK/$name.json" 'sum(o["cpu_ns"] for o in d["status"]["objects"]) + d["status"]["others_cpu_ns"] <= d["total"]'
	build/spanprof-report --status "$WORK/$name.d/status" >"$WORK/$name.words"
}

# is_of_all NAME: the status covers all that is in the profiles.
is_of_all()
{
	local name=$1

	[[ -n $(profiles_in "$WORK/$name.d") ]] || return 1
	report "$WORK/$name.d" "$WORK/$name.json"
	python3 - "$WORK/$name" <<'END'
import json, sys
status = json.load(open(sys.argv[1] + ".d/status"))["missing_names"]
report = json.load(open(sys.argv[1] + ".json"))
json.dump({"status": status, "object": {o["object"].split("/")[-1]: o for o in status["objects"]},
           "self": {f["function"]: f["self_ns"] for f in report["functions"]}, "total": report["total"]["ns"]},
          open(sys.argv[1] + ".json", "w"))
END
	[[ $(ask "$WORK/$name.json" 'd["status"]["cpu_ns"] == d["total"] > 0') == True ]]
}

# missing NAME OBJECT REASON UNNAMED: the profile's functions without names in that object agree with the status.
missing()
{
	expect "$WORK/$1.json" "d['object']['$2']['reason'] == '$3'"
	expect "$WORK/$1.json" "d['object']['$2']['has_unnamed_functions'] == $4"
	expect "$WORK/$1.json" "d['object']['$2']['unnamed_cpu_ns'] == sum(ns for f, ns in d['self'].items() if f == '$2' or f.startswith('$2+0x'))"
	expect "$WORK/$1.json" "d['object']['$2']['cpu_ns'] == d['object']['$2']['unnamed_cpu_ns'] + sum(ns for f, ns in d['self'].items() if f.split(' ')[0] in ('work_${2%.so}', 'work_${2%.so}@plt')) > 0"
}

object whole
object stripped
strip "$WORK/stripped.so"
object lines
strip --strip-debug "$WORK/lines.so"
object anonymous -Wl,--build-id=none
strip --strip-debug "$WORK/anonymous.so"
list=(whole.so stripped.so lines.so anonymous.so)
object zstd
if objcopy --compress-debug-sections=zstd "$WORK/zstd.so" 2>"$WORK/objcopy"; then
	list+=(zstd.so)
else
	left_out "objcopy cannot pack with zstd"
fi
profiled kinds "$WORK/host" 100 "${list[@]/#/$WORK/}"
missing kinds stripped.so debug_file_not_found True
missing kinds lines.so debug_file_not_found False
missing kinds anonymous.so no_debug_info False
expect "$WORK/kinds.json" '"whole.so" not in d["object"] and "host" not in d["object"]'
grep -q "^missing   [1-9][0-9.]* % of the CPU time is in $WORK/stripped.so, functions of which have no names: its debug" \
	"$WORK/kinds.words" || fail "not told: $(<"$WORK/kinds.words")"
grep -q "^missing   [1-9][0-9.]* % of the CPU time is in $WORK/lines.so, whose functions have no lines: its debug" \
	"$WORK/kinds.words" || fail "not told: $(<"$WORK/kinds.words")"
grep -q "^          helps: install its debug symbols" "$WORK/kinds.words" || fail "no remedy: $(<"$WORK/kinds.words")"
# A newer libelf reads it.
if [[ ${list[*]} == *zstd* && $(result kinds.err) == *"packed with zstd"* ]]; then
	missing kinds zstd.so zstd False
	grep -q "^WRONG     functions of $WORK/zstd.so have no lines" "$WORK/kinds.words" ||
		fail "no problem: $(<"$WORK/kinds.words")"
else
	expect "$WORK/kinds.json" '"zstd.so" not in d["object"]'
fi

# Packed debug information whose header claims too much, or that is no zlib stream.
# packed NAME OFFSET BYTES: writes these bytes into .debug_info.
packed()
{
	object "$1" -include stdlib.h -include unistd.h -fno-eliminate-unused-debug-types
	objcopy --compress-debug-sections=zlib "$WORK/$1.so"
	python3 - "$WORK/$1.so" "$2" "$3" <<'END'
import subprocess, sys

path, at, data = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
section = next(line.split("]", 1)[1].split() for line in subprocess.run(
    ["readelf", "-WS", path], capture_output=True, text=True, check=True).stdout.splitlines() if "] .debug_info " in line)
assert "C" in section[6], section
with open(path, "r+b") as file:
    file.seek(int(section[3], 16) + at)
    file.write(data)
END
}
packed huge 8 0000000000010000
packed garbage 24 ffffffffffffffffffff
profiled packed "$WORK/host" 100 "$WORK/huge.so" "$WORK/garbage.so"
missing packed huge.so over_limit False
missing packed garbage.so damaged False
grep -q "^missing   [1-9][0-9.]* % of the CPU time is in $WORK/huge.so, whose functions have no lines: .* unpacked too large" \
	"$WORK/packed.words" || fail "not told: $(<"$WORK/packed.words")"
grep -q "^missing   [1-9][0-9.]* % of the CPU time is in $WORK/garbage.so, whose functions have no lines: .* cannot be read" \
	"$WORK/packed.words" || fail "not told: $(<"$WORK/packed.words")"

# Another build is written into the file while it runs.
object changed
CHANGED_AT=$(($(readelf -WS "$WORK/changed.so" | sed -n 's/.*\.note\.gnu\.build-id *NOTE *[0-9a-f]* \([0-9a-f]*\) .*/0x\1/p') + 20)) \
	profiled changed "$WORK/host" 100 "changed:$WORK/changed.so"
missing changed changed.so file_changed True

# A file with code that is not ELF.
if [[ $(uname -m) == x86_64 ]]; then
	printf '\x48\xff\xcf\x7f\xfb\xc3' >"$WORK/blob.bin"
	profiled blob "$WORK/host" 100 "blob:$WORK/blob.bin"
	missing blob blob.bin file_gone True
fi

# Generated code for which the program has no names: a loop of at most 200 million turns.
if [[ $(uname -m) == x86_64 ]]; then
	# work: dec %rdi; jg work; ret
	MADE=48ffcf7ffbc3 MADE_BYTES=6 profiled generated "$WORK/host" 100 generated
	expect "$WORK/generated.json" 'd["object"]["[anon]"]["reason"] == "generated_code"'
	expect "$WORK/generated.json" 'd["object"]["[anon]"]["cpu_ns"] == d["self"]["[anon]"] > 0'
fi

# A file's owner can remove his own right to read it.
if has_nobody; then
	object denied
	mkdir -m 777 "$WORK/nobody"
	chmod 777 "$WORK/nobody"
	AS_USER=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	"${AS_USER[@]}" cp "$WORK/denied.so" "$WORK/nobody/"
	profiled nobody "$WORK/host" 100 "denied:$WORK/nobody/denied.so"
	missing nobody denied.so no_rights True
	AS_USER=()
fi

# Thirty objects: only the sum of the smallest ones is listed.
list=()
for i in {10..39}; do
	object "many$i"
	strip "$WORK/many$i.so"
	list+=("$WORK/many$i.so")
done
profiled many "$WORK/host" 40 "${list[@]}"
expect "$WORK/many.json" 'len(d["status"]["objects"]) == 20 and d["status"]["others"] >= 10'
expect "$WORK/many.json" 'sum(o["unnamed_cpu_ns"] for o in d["status"]["objects"]) + d["status"]["others_cpu_ns"] >= sum(ns for f, ns in d["self"].items() if ".so+0x" in f)'
expect "$WORK/many.json" '(lambda t: t == sorted(t, reverse=True))([o["cpu_ns"] for o in d["status"]["objects"]])'
grep -q '^missing   [0-9.]* % of the CPU time is in other such objects$' "$WORK/many.words" ||
	fail "no sum: $(<"$WORK/many.words")"
