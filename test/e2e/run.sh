#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-run: the command gets its own arguments and the profiler's variables, errors are those of env(1), and
# --check says before the run how a program will be profiled.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly RUNNER=$ROOT/build/spanprof-run
readonly SANITIZED=$ROOT/build/test/install/spanprof-run-asan
readonly OTELCPP=$TEST_LIBS/otelcpp

# with NAME [ARGUMENT]...: the variables in the command's environment.
with()
{
	local name=$1

	shift
	run "$name" "$RUNNER" "$@" env
	expect_rc "$name" 0
}

has()
{
	grep -Fqx -e "$2" "$WORK/$1.out" || fail "$1: not in the environment: $2"
}

# says NAME STATUS TEXT COMMAND...: --check ends with that status, and one of its lines has the text.
says()
{
	local name=$1 status=$2 text=$3

	shift 3
	run "$name" "$RUNNER" --check "$@"
	expect_rc "$name" "$status"
	grep -Fq -e "$text" "$WORK/$name.out" || {
		cat "$WORK/$name.out" >&2
		fail "$name: --check does not say: $text"
	}
}

# The command gets its own arguments, and its output and status are passed on; our object is loaded.
run args "$RUNNER" -- "$HOSTS/entry" 'two words' '' '*' --version -- '$HOME'
expect_rc args 42
cat >"$WORK/args.wanted" <<-END
	preload $ROOT/build/libspanprof.so
	[two words]
	[]
	[*]
	[--version]
	[--]
	[\$HOME]
END
sed 1d "$WORK/args.out" | diff "$WORK/args.wanted" - >&2 || fail "not what was given"
[[ ! -s $WORK/args.err ]] || fail "$(<"$WORK/args.err")"

with options --service 'shop, front' --server http://127.0.0.1:1 --label zone=eu --label tier=1 --rate 50
has options 'SPANPROF_APPLICATION_NAME=shop, front'
has options SPANPROF_SERVER_ADDRESS=http://127.0.0.1:1
has options SPANPROF_LABELS=zone=eu,tier=1
has options SPANPROF_SAMPLE_RATE=50
PYROSCOPE_LABELS=a=b with labels --label zone=eu
has labels SPANPROF_LABELS=a=b,zone=eu
(
	cd "$WORK"
	with output --output profiles
	has output "SPANPROF_OUTPUT_DIR=$WORK/profiles"
)
env --chdir="$WORK" 'odd.name=kept' "$RUNNER" env >"$WORK/odd.out"
has odd odd.name=kept

# Our entry comes before existing ones, and only once.
LD_PRELOAD=libc.so.6 with chained
has chained "LD_PRELOAD=$ROOT/build/libspanprof.so:libc.so.6"
LD_PRELOAD=$ROOT/build/libspanprof.so with twice
has twice "LD_PRELOAD=$ROOT/build/libspanprof.so"
LD_PRELOAD="libc.so.6 /elsewhere/libspanprof.so" with elsewhere
has elsewhere 'LD_PRELOAD=libc.so.6 /elsewhere/libspanprof.so'
run nested "$RUNNER" "$RUNNER" "$RUNNER" "$HOSTS/entry"
has nested "preload $ROOT/build/libspanprof.so"
for off in SPANPROF_DISABLED=true OTEL_SDK_DISABLED=True PYROSCOPE_AGENT_ENABLED=false; do
	run off "$off" "$RUNNER" "$HOSTS/entry"
	has off 'preload -'
done

# The same errors as env(1).
for given in nonexistent ./nonexistent /etc/passwd/x "$WORK" /etc/passwd; do
	run env.error env "$given"
	run our.error "$RUNNER" "$given"
	expect_same env.error our.error rc
	[[ $(wc -l <"$WORK/our.error.err") == 1 ]] || fail "not one line for $given"
done
for wrong in '' --nonsense '--rate 0' '--rate x' '--label x' '--label =x' --service '--pid 0 --check'; do
	# shellcheck disable=SC2086
	run wrong "$RUNNER" $wrong
	expect_rc wrong 125
done
printf 'echo no first line; exit 3\n' >"$WORK/bare"
chmod +x "$WORK/bare"
run bare "$RUNNER" "$WORK/bare"
expect_rc bare 3

run version "$RUNNER" --version
grep -Eqx 'spanprof-run [0-9]+\.[0-9]+\.[0-9]+' "$WORK/version.out" || fail "$(<"$WORK/version.out")"
run help_env "$RUNNER" --help-env
while read -r variable; do
	grep -q "^$variable" "$WORK/help_env.out" || fail "--help-env lacks $variable"
done < <(build/print-config | sed -n 's/^| `\([A-Z_]*\)`.*/\1/p')

# The SDK that will be hooked, and the method.
says hooked 0 'ABI v1 in' "$HOSTS/spans"
says wrapper 0 'libopentelemetry-c-wrapper.so.9: will be hooked: its virtual methods, found by' \
	"$TEST_LIBS/conformance/haproxy33/lazy"
says otelc 0 'otap-labs/opentelemetry-c' "$TEST_LIBS/conformance/otelc/lazy"
says debian 0 'ABI v1 in' "$TEST_LIBS/conformance/debian/lazy"
says v2 0 'ABI v2 in' "$TEST_LIBS/conformance/v2_nostd/lazy"
says virtual 0 'its virtual methods, by name' "$TEST_LIBS/conformance/v1_stl17/lazy"
says bound 0 'its virtual methods, by name' "$TEST_LIBS/conformance/bsymbolic/lazy"
says foreign 1 'no library of it is a supported SDK' "$OTELCPP/stranger"
says plain 1 'can be loaded' "$HOSTS/plain"
SPANPROF_THREAD_CONTEXT=true says told 0 'its spans will be published for other profilers' "$HOSTS/spend"
says untold 0 'its spans will be seen' "$HOSTS/spend"
! grep -q '^context' "$WORK/untold.out" || fail "published without being asked: $(<"$WORK/untold.out")"
says program 0 'can publish its spans; samples are labelled with them' "$HOSTS/publisher"
says library 0 'libpublisher.so can publish its spans' "$HOSTS/publisher_linked"
says static 2 'statically linked' "$HOSTS/static"
says library 2 'a shared library' "$SO"
# For images with any C library, or none.
says itself 2 'statically linked' "$RUNNER"
printf '#!/bin/sh\nexec true\n' >"$WORK/script"
printf '#! /usr/bin/env sh\nexec true\n' >"$WORK/env_script"
chmod +x "$WORK/script" "$WORK/env_script"
says script 1 "$WORK/script, run by" "$WORK/script"
says env_script 1 'the script'\''s interpreter has no SDK' "$WORK/env_script"
grep -q '^program .*/sh$' "$WORK/env_script.out" || fail "#! env was not followed"
# The shell runs a text without "#!", as above; an interpreter that does not exist runs nothing.
says bare.script 1 "$WORK/bare, run by" "$WORK/bare"
grep -q '^program .*/sh$' "$WORK/bare.script.out" || fail "bare: $(<"$WORK/bare.script.out")"
printf '#!/no/such/interpreter\ntrue\n' >"$WORK/no_interpreter"
printf '#!/usr/bin/env no-such-interpreter\ntrue\n' >"$WORK/no_env"
printf '\0\1\2' >"$WORK/data"
chmod +x "$WORK/no_interpreter" "$WORK/no_env" "$WORK/data"
says no_interpreter 2 'interpreter /no/such/interpreter is not there' "$WORK/no_interpreter"
says no_env 2 'interpreter no-such-interpreter is not there' "$WORK/no_env"
says data 2 'it is not an ELF program' "$WORK/data"
# Through a link the loader finds the same libraries: $ORIGIN is the folder of the file.
ln -s "$HOSTS/spend" "$WORK/link"
says link 0 'will be hooked' "$WORK/link"
# Attaching to a running process is impossible, and gcc's AddressSanitizer insists on being first.
run attach "$RUNNER" --pid $$
expect_rc attach 125
grep -q 'cannot attach to a running process: .*spanprof-run -- COMMAND' "$WORK/attach.err" || fail "$(<"$WORK/attach.err")"
if echo 'int main(void) { return 0; }' | gcc -fsanitize=address -x c -o "$WORK/asan" - 2>/dev/null; then
	says asan 1 'AddressSanitizer does not start behind a preloaded object' "$WORK/asan"
	runtime=$(awk '/^note/ { for (i = 1; i <= NF; i++) if ($i ~ /libasan/) print $i }' "$WORK/asan.out")
	for variable in ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD="$runtime"; do
		run asan.advised "$variable" "$RUNNER" --check "$WORK/asan"
		! grep '^note' "$WORK/asan.advised.out" || fail "$variable: the advice is given again"
	done
fi

# A program with more rights than its caller: the caller gets a message; root gains nothing from root's programs.
if ((EUID == 0)); then
	chmod 755 "$WORK"
	cp "$SO" "$RUNNER" "$WORK"
	for kind in user group capable; do
		cp "$HOSTS/entry" "$WORK/$kind"
	done
	chown 65533:65533 "$WORK/user" "$WORK/group"
	chmod 4755 "$WORK/user"
	chmod 2755 "$WORK/group"
	as_nobody=(setpriv --reuid 65532 --regid 65532 --clear-groups)
	rights=(user:set-user-id group:set-group-id)
	if command -v setcap >/dev/null && setcap cap_net_bind_service+ep "$WORK/capable"; then
		rights+=('capable:file capabilities')
	else
		left_out "files get no capabilities here"
	fi
	for kind in "${rights[@]}"; do
		run secure "${as_nobody[@]}" "$WORK/spanprof-run" --check "$WORK/${kind%%:*}"
		expect_rc secure 2
		grep -q "^verdict .*${kind#*:}" "$WORK/secure.out" || fail "$(<"$WORK/secure.out")"
		run insecure "${as_nobody[@]}" --no-new-privs "$WORK/spanprof-run" --check "$WORK/${kind%%:*}"
		expect_rc insecure 1
	done
fi

# An SDK inside the program, with symbols and without.
host=("$TEST_LIBS"/conformance/{main,probe,second,stories,story}.o -lpthread -ldl)
objects=("$TEST_LIBS/conformance/v1_stl17/driver.o" "$OTELCPP/v1_stl17/mini_sdk.o" "${host[@]}")
g++ -o "$WORK/inside" "${objects[@]}"
strip -o "$WORK/stripped" "$WORK/inside"
for kind in inside stripped; do
	says "$kind" 0 'will be hooked: its virtual methods, found by run-time type information' "$WORK/$kind"
done
g++ -rdynamic -o "$WORK/exported" "${objects[@]}"
says exported 0 'found by run-time type information' "$WORK/exported"
# Reasons why an SDK is not found.
printf 'char *getenv(const char *name) { return name[0] ? 0 : 0; }\n' | gcc -x c -c -o "$WORK/getenv.o" -
g++ -rdynamic -o "$WORK/own_getenv" "$WORK/getenv.o" "${objects[@]}"
says own_getenv 1 'the program has a getenv of its own' "$WORK/own_getenv"
says nortti 1 'not hooked: it has no symbols, and no run-time type information (-fno-rtti)' \
	"$OTELCPP/static_nortti/stories"
# A tracer that only reads OpenTelemetry's variables (Envoy), or another part of the SDK (metrics, as in Ray).
echo '#include <stdlib.h>
int main(void) { return getenv("OTEL_RESOURCE_ATTRIBUTES") != 0; }' | gcc -x c -o "$WORK/own_tracer" -
says own_tracer 1 'reads variables of OpenTelemetry, as tracers of other makers do' "$WORK/own_tracer"
if grep -q rtti "$WORK/own_tracer.out"; then
	fail "$(<"$WORK/own_tracer.out")"
fi
g++ -o "$WORK/nortti" "$OTELCPP"/static_nortti/{driver,mini_sdk}.o "${host[@]}"
says nortti.symbols 1 'without the run-time type information (-fno-rtti)' "$WORK/nortti"
if g++ -no-pie -fuse-ld=gold -s -o "$WORK/one_segment" "$OTELCPP"/static_nopie/{driver,mini_sdk}.o \
	"${host[@]}"; then
	says one_segment 0 'found by run-time type information' "$WORK/one_segment"
fi

# The loader's search: each folder is tried, in the loader's order.
mkdir "$WORK/lib" "$WORK/deep" "$WORK/bin"
cp "$TEST_LIBS/libfixture-otelc.so" "$WORK/lib"
printf 'int middle(void) { return 1; }\n' |
	gcc -x c -shared -o "$WORK/deep/libmiddle.so" - -Wl,--no-as-needed -L"$WORK/lib" -lfixture-otelc
build_host()
{
	printf 'int main(void) { return 0; }\n' |
		gcc -x c -o "$WORK/bin/$1" - -Wl,--no-as-needed -L"$WORK/deep" -lmiddle \
			-Wl,--allow-shlib-undefined "${@:2}"
}
build_host rpath -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../deep:${ORIGIN}/../lib'
build_host runpath -Wl,--enable-new-dtags,-rpath,'$ORIGIN/../deep:$ORIGIN/../lib'
# The program's RPATH counts for the libraries of its libraries, its RUNPATH does not.
says rpath 0 "in $WORK/bin/../lib/libfixture-otelc.so" "$WORK/bin/rpath"
says runpath 1 'libfixture-otelc.so (the loader does not find it' "$WORK/bin/runpath"
export LD_LIBRARY_PATH="/nonexistent:$WORK/lib"
says library_path 0 "in $WORK/lib/libfixture-otelc.so" "$WORK/bin/runpath"
unset LD_LIBRARY_PATH
for host in "$WORK/bin/rpath" "$TEST_LIBS/conformance/debian/lazy" /bin/bash; do
	run ldd ldd "$host"
	missing=$(grep -c 'not found' "$WORK/ldd.out" || true)
	run check "$RUNNER" --check "$host"
	[[ $(grep -c '^missing' "$WORK/check.out" || true) == "$missing" ]] ||
		fail "ldd and --check disagree on $host"
done

# A preloaded library is examined like the others, and the loader's messages about it are passed on.
LD_PRELOAD="$WORK/lib/libfixture-otelc.so" says preloaded 0 "in $WORK/lib/libfixture-otelc.so" "$HOSTS/plain"
LD_PRELOAD=/nonexistent.so says unloaded 1 "object '/nonexistent.so' from LD_PRELOAD" "$HOSTS/plain"

# A program's own loader: its output is bounded, and it gets no variables of the profiler. A loader that other users
# could have put there is not started.
cat >"$WORK/own.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
	(void)argc;
	fprintf(stderr, "variables %s\n", getenv("SPANPROF_RATE") != NULL ? "many" : "few");
	for (int i = 0; strstr(argv[0], "endless") != NULL; i++)
		puts("\tlibx.so => not found");
	return puts("\tlibread.so => not found") < 0;
}
END
gcc -O2 -static -o "$WORK/bin/ld-linux-own.so.2" "$WORK/own.c"
cp "$WORK/bin/ld-linux-own.so.2" "$WORK/bin/ld-linux-endless.so.2"
mkdir -m 777 "$WORK/open"
cp "$WORK/bin/ld-linux-own.so.2" "$WORK/open"
for host in bin/own bin/endless open/own; do
	printf 'int main(void) { return 0; }\n' |
		gcc -x c -o "$WORK/$host" - -Wl,--dynamic-linker="$WORK/${host%/*}/ld-linux-${host#*/}.so.2"
done
SPANPROF_RATE=1 says own 1 'variables few' "$WORK/bin/own"
grep -q '^missing *libread.so' "$WORK/own.out" || fail "$(<"$WORK/own.out")"
says endless 1 'its answer has no end' "$WORK/bin/endless"
says open 1 'other users than root and you can replace it' "$WORK/open/own"

# A running process: the mapped objects, including later ones.
"$HOSTS/entry" wait >"$WORK/waiting" &
pid=$!
STARTED+=("$pid")
poll_until 10 test -s "$WORK/waiting" || fail "the host does not start"
run pid "$RUNNER" --check --pid "$pid"
expect_rc pid 1
kill "$pid"
wait "$pid" || true
run gone "$RUNNER" --check --pid "$pid"
expect_rc gone 125

# After an upgrade the paths of mapped objects lead to other files, or to none. The program itself is read through its
# /proc link.
mkdir "$WORK/upgraded"
cp "$SO" "$TEST_LIBS/libfixture-otelc.so" "$HOSTS/entry" "$WORK/upgraded"
LD_PRELOAD="$WORK/upgraded/libspanprof.so:$WORK/upgraded/libfixture-otelc.so" "$WORK/upgraded/entry" wait >"$WORK/upgrade" &
pid=$!
STARTED+=("$pid")
poll_until 10 test -s "$WORK/upgrade" || fail "the host does not start"
# upgraded STATUS ROW...: these rows besides those of the former program, and no row about the new files in the folder
upgraded()
{
	run upgraded "$RUNNER" --check --pid "$pid"
	expect_rc upgraded "$1"
	grep -F -e "$WORK/upgraded/lib" -e "$WORK/upgraded/entry:" "$WORK/upgraded.out" | diff - <(printf '%s\n' "${@:2}") ||
		fail "of what was mapped before: $(<"$WORK/upgraded.out")"
}
sdk="SDK       otap-labs/opentelemetry-c in $WORK/upgraded/libfixture-otelc.so: will be hooked: its functions, by name"
ours="loaded    $WORK/upgraded/libspanprof.so"
upgraded 0 "$ours" "$sdk"
for file in libspanprof.so libfixture-otelc.so entry; do
	cp "$WORK/upgraded/$file" "$WORK/upgraded/new"
	mv "$WORK/upgraded/new" "$WORK/upgraded/$file"
done
upgraded 0 "$ours" "note      replaced on disk since the program loaded it, and the program keeps the former file until it ends: $WORK/upgraded/libspanprof.so" "$sdk" \
	"note      replaced on disk since the program loaded them, so the new files were examined: $WORK/upgraded/libfixture-otelc.so"
rm "$WORK"/upgraded/*
upgraded 1 "$ours" "note      removed from disk since the program loaded it, and the program keeps the former file until it ends: $WORK/upgraded/libspanprof.so" \
	"note      removed from disk since the program loaded them, and not examined: $WORK/upgraded/libfixture-otelc.so"
kill "$pid"
wait "$pid" || true

# Opening a device may have an effect. A script, or the mappings of a process, may lead to a device: it is only
# examined.
printf '#!%s\n' "$WORK/device" >"$WORK/leads"
chmod +x "$WORK/leads"
python3 - "$RUNNER" "$WORK" <<'END' || fail "it opens what is no regular file"
import ctypes, mmap, os, subprocess, sys
runner, work = sys.argv[1:]
mapped = f"{work}/mapped"
with open(mapped, "wb") as f:
    f.write(bytes(4096))
with open(mapped, "rb") as f:
    code = mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
os.unlink(mapped)
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
# The second device has the name that the kernel shows for a deleted file.
devices = f"{work}/device", f"{mapped} (deleted)"
for device in devices:
    os.mkfifo(device)
    os.chmod(device, 0o755)
    assert libc.inotify_add_watch(watch, device.encode(), 0x20) >= 0  # IN_OPEN
assert f"{devices[1]}\n" in open("/proc/self/maps").read()

def opened():
    try:
        return os.read(watch, 4096) != b""
    except BlockingIOError:
        return False

for asked in [f"{work}/leads"], ["--pid", str(os.getpid())]:
    subprocess.run([runner, "--check"] + asked, stdout=subprocess.DEVNULL)
    assert not opened(), asked
for device in devices:
    os.close(os.open(device, os.O_RDONLY | os.O_NONBLOCK))
    assert opened()
END

# A process maps an empty file of 64 GiB; by its headers all of it is a table of symbols.
python3 - "$RUNNER" "$WORK/sparse" <<'END' || fail "a file without contents is read without end"
import mmap, os, struct, subprocess, sys
runner, sparse = sys.argv[1:]
size = 64 << 30
with open(sparse, "wb") as f:
    f.write(struct.pack("<16s2HI3QI6H", b"\x7fELF\2\1\1", 3, 62, 1, 0, 64, 120, 0, 64, 56, 1, 64, 3, 0))
    f.write(bytes(56 + 64))
    f.write(struct.pack("<2I4Q2I2Q", 0, 3, 0, 0, 0, 64, 0, 0, 1, 0))
    f.write(struct.pack("<2I4Q2I2Q", 0, 2, 0, 0, 4096, size - 4096, 1, 0, 8, 24))
    f.truncate(size)
with open(sparse, "rb") as f:
    code = mmap.mmap(f.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)

def read_by_children():
    return int(open("/proc/self/io").readline().split()[1])

before = read_by_children()
said = subprocess.run([runner, "--check", "--pid", str(os.getpid())], stdout=subprocess.PIPE, text=True).stdout
assert "its files are too large: " in said, said
assert (4 << 30) < read_by_children() - before < (9 << 30), read_by_children() - before
END
rm "$WORK/sparse"

# Hostile files: cut, and with damaged headers. No crash, and no long reading.
mkdir "$WORK/odd"
python3 - "$OTELCPP/bsymbolic/libmini.so" "$HOSTS/entry" "$WORK/odd" <<'END'
import random, struct, sys
random.seed(7)
for which, path in enumerate(sys.argv[1:3]):
    whole = open(path, "rb").read()
    for n in range(40):
        data = bytearray(whole)
        if n < 8:
            data = data[:(0, 3, 4, 20, 63, 64, 500, len(data) // 2)[n]]
        else:
            # the headers, the dynamic section, the section headers
            areas = [(0, 64 + 13 * 56), (struct.unpack_from("<Q", data, 40)[0], len(data))]
            low, high = areas[n % 2]
            for _ in range(1 + n % 7):
                at = random.randrange(low + (4 if low == 0 else 0), high)
                data[at] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
        with open(f"{sys.argv[3]}/{which}.{n}", "wb") as f:
            f.write(data)
END
chmod +x "$WORK"/odd/*
tried=0
for file in "$WORK"/odd/*; do
	run odd "$SANITIZED" --check "$file"
	(($(result odd.rc) <= 2)) || {
		cat "$WORK/odd.err" >&2
		cp "$file" "$TEST_LIBS/odd.elf"
		fail "status $(result odd.rc) for build/test/odd.elf"
	}
	tried=$((tried + 1))
done
((tried == 80)) || fail "only $tried odd files"
mkfifo "$WORK/fifo"
chmod +x "$WORK/fifo"
run fifo "$RUNNER" --check "$WORK/fifo"
expect_rc fifo 126
