#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Objects without a file: libraries that are unpacked into a folder for temporary files, loaded and unlinked at once,
# or loaded from memory (memfd_create()), and a program that is replaced while it runs. A privileged exporter finds
# their files through the kernel. Without privileges, exported functions get their names from the process's memory,
# and a function that is not exported has one name. Random parts of a file's name are in no frame.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need gcc python3
readonly MS=300

chmod 755 "$WORK"
mkdir -m 777 "$WORK/tmp"
cat >"$WORK/library.c" <<'END'
#include "test/hosts/host.h"
__attribute__((noinline)) static void hidden_work(int ms)
{
	host_burn_ms(ms);
	__asm__ volatile("" ::: "memory");
}
__attribute__((visibility("default"))) void exported_work(int ms)
{
	hidden_work(ms);
	__asm__ volatile("" ::: "memory");
}
END
# library NAME OPTION...
library()
{
	gcc -O1 -I. -fPIC -fvisibility=hidden -shared -o "$WORK/$1.so" "$WORK/library.c" "${@:2}"
	chmod 644 "$WORK/$1.so"
}
library soname -Wl,-soname,libunpacked.so.1
library nameless
library nameless.id -Wl,--build-id=none
library sysv -Wl,--hash-style=sysv

# frames_of NAME LIBRARY: the frames below main(), each once, over all profiles of that name, without those of the C
# library and of the host's functions that copy, load and look for files. A function of the library without a name,
# which nm finds at its address, is NAME+[hidden_work].
frames_of()
{
	local folder

	for folder in "$WORK/$1".[0-9].d; do
		build/spanprof-report --folded "$folder"
	done >"$WORK/$1.folded"
	nm "$2" >"$WORK/$1.nm"
	nm -D "$(gcc -print-file-name=libc.so.6)" >"$WORK/libc.nm"
	python3 - "$WORK/$1.folded" "$WORK/$1.nm" "$WORK/libc.nm" <<'END'
import re, sys

functions = {int(address, 16): name for address, kind, name in
             (line.split() for line in open(sys.argv[2]) if line[0] != " ") if kind in "tT"}
libc = {line.split()[-1].split("@")[0] for line in open(sys.argv[3])}
below = set()
for line in open(sys.argv[1]):
    stack = line.rsplit(" ", 1)[0].split(";")
    for f in stack[stack.index("main") + 1:] if "main" in stack else []:
        if f in ("copy", "work_in", "has_a_file"):
            continue
        f = re.sub(r"\+0x([0-9a-f]+)$", lambda m: f"+[{functions.get(int(m[1], 16), '?' + m[1])}]", f)
        # Functions of the C library call further ones of it, which it does not export.
        if re.match(r"host_|.*\+\[host_|__|_dl|dl|clock_gettime|\[vdso|main$|libc|ld-linux|.*@plt$", f) or f in libc:
            break
        below.add(f)
print(" ".join(sorted(below)))
END
}

# works NAME HOW FILE UNPACKED EXPECTED COMMAND...: runs it in two processes, and checks the frames of both.
works()
{
	local name=$1 how=$2 file=$3 unpacked=$4 expected=$5 i frames

	shift 5
	for i in 1 2; do
		mkdir -m 777 "$WORK/$name.$i.d"
		run_under "$name.$i" SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=500 SPANPROF_UPLOAD_INTERVAL=200ms \
			SPANPROF_OUTPUT_DIR="$WORK/$name.$i.d" "$@" "$HOSTS/fileless" "$how" "$MS" "$WORK/$file" "$WORK/tmp" "$unpacked"
		expect_rc "$name.$i" 21
	done
	frames=$(frames_of "$name" "$WORK/$file")
	# An exporter that is quick finds the file before the program unlinks it.
	[[ $how != unlink || $frames != *"+[hidden_work]"* ]] || frames=${frames/ hidden_work / }
	[[ $frames == "$expected" ]] || fail "$name: the frames are not '$expected' but '$frames'"
}

# replaced NAME HOW RC COMMAND...: runs the program, whose file another one replaces. COMMAND has no profile, because the
# program waits for its own.
replaced()
{
	local name=$1 how=$2 rc=$3 frames

	shift 3
	mkdir -m 777 "$WORK/$name.1.d"
	cp "$HOSTS/fileless" "$WORK/tmp/fileless"
	cp "$HOSTS/plain" "$WORK/tmp/next"
	chmod 755 "$WORK"/tmp/*
	run_under "$name" SPANPROF_SAMPLE_RATE=500 SPANPROF_UPLOAD_INTERVAL=200ms SPANPROF_OUTPUT_DIR="$WORK/$name.1.d" \
		"$@" env SPANPROF_PROFILE=always "$WORK/tmp/fileless" "$how" "$MS" "$WORK/tmp/next" "$WORK/tmp" \
		"$WORK/$name.1.d"
	expect_rc "$name" "$rc"
	frames=$(frames_of "$name" "$HOSTS/fileless")
	[[ $frames == work_of_program ]] || fail "$name: the frames are '$frames'"
}

works root unlink soname.so 'libunpacked-1.5.5-%s.so' 'exported_work hidden_work'
works root.id unlink nameless.id.so 'libunpacked-1.5.5-%s.so' 'exported_work hidden_work'
works root.memfd memfd soname.so '' 'exported_work hidden_work'
replaced root.program program 21
if has_nobody; then
	as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	works soname unlink soname.so 'libunpacked-1.5.5-%s.so' 'exported_work libunpacked.so.1+[hidden_work]' "${as_nobody[@]}"
	works nameless unlink nameless.so 'libunpacked-1.5.5-%s.so' 'exported_work libunpacked-1.5.5-*.so+[hidden_work]' \
		"${as_nobody[@]}"
	works jna unlink nameless.id.so 'libjna%s.tmp.so' 'exported_work libjna*.tmp.so+[hidden_work]' "${as_nobody[@]}"
	works sysv unlink sysv.so 'libunpacked-1.5.5-%s.so' 'exported_work libunpacked-1.5.5-*.so+[hidden_work]' \
		"${as_nobody[@]}"
	works memfd memfd soname.so '' 'exported_work libunpacked.so.1+[hidden_work]' "${as_nobody[@]}"
	replaced program program 21 "${as_nobody[@]}"
	replaced killed killed 143 "${as_nobody[@]}"
else
	left_out 'no other user can run programs here'
fi
echo "objects without a file have names"
