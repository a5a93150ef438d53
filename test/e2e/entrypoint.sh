#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-entrypoint, in each shell that images have: the command gets exactly what it was given,
# our object is in front of what was preloaded already, and where it would be of no use the command
# runs as ever with one line on stderr.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need strace
readonly ENTRY=$ROOT/scripts/spanprof-entrypoint
# As installed: programs in bin, objects in lib.
readonly PLACE=$WORK/opt
mkdir -p "$PLACE/bin" "$PLACE/lib/spanprof"
cp "$ENTRY" "$PLACE/bin"
cp "$SO" "$PLACE/lib/spanprof"
chmod 755 "$WORK" "$PLACE" "$PLACE/bin" "$PLACE/lib" "$PLACE/lib/spanprof"
readonly OURS=$PLACE/lib/spanprof/libspanprof.so

# enter NAME [VARIABLE=VALUE]... -- COMMAND...
enter()
{
	local name=$1 settings=()

	shift
	while [[ $1 != -- ]]; do
		settings+=("$1")
		shift
	done
	shift
	run "$name" "${settings[@]}" "${SHELL_WORDS[@]}" "$PLACE/bin/spanprof-entrypoint" "$@"
}

has()
{
	grep -Fqx -e "$2" "$WORK/$1.out" || {
		cat "$WORK/$1.out" "$WORK/$1.err" >&2
		fail "${SHELL_WORDS[*]}, $1: no line $2"
	}
}

quiet()
{
	[[ ! -s $WORK/$1.err ]] || fail "${SHELL_WORDS[*]}, $1: $(<"$WORK/$1.err")"
}

# aside NAME TEXT: not preloaded, and the only line on stderr says why.
aside()
{
	[[ $(grep -c '^spanprof-entrypoint: ' "$WORK/$1.err") == 1 ]] ||
		fail "${SHELL_WORDS[*]}, $1: not one line: $(<"$WORK/$1.err")"
	grep -q "^spanprof-entrypoint: .*$2" "$WORK/$1.err" ||
		fail "${SHELL_WORDS[*]}, $1: not \"$2\": $(<"$WORK/$1.err")"
	has "$1" 'preload -'
}

# The machine of an ELF file is at byte 18.
other_machine()
{
	cp "$HOSTS/entry" "$2"
	printf '%b' "$1" | dd of="$2" bs=1 seek=18 conv=notrunc status=none
}

check_handing_on()
{
	enter args -- "$HOSTS/entry" 'two words' '' '*' -x -- '$HOME' $'a\nb'
	expect_rc args 42
	quiet args
	printf '%s\n' "preload $OURS" '[two words]' '[]' '[*]' '[-x]' '[--]' '[$HOME]' '[a' 'b]' |
		diff - <(sed 1d "$WORK/args.out") >&2 || fail "${SHELL_WORDS[*]}: not what was given"
	# Names that the script uses itself stay the command's.
	enter env file=1 line=2 object=3 rest=4 here=5 problem=6 machine=7 count=8 place=9 \
		LC_ALL=C.UTF-8 CDPATH=/ -- env
	for kept in file=1 line=2 object=3 rest=4 here=5 problem=6 machine=7 count=8 place=9 \
		LC_ALL=C.UTF-8 CDPATH=/; do
		has env "$kept"
	done
	run bare file=1 LC_ALL=C.UTF-8 "${SHELL_WORDS[@]}" -c 'exec "$@"' sh env
	enter same file=1 LC_ALL=C.UTF-8 -- env
	diff <(grep -v '^_=' "$WORK/bare.out" | sort) \
		<(grep -v -e '^LD_PRELOAD=' -e '^_=' "$WORK/same.out" | sort) >&2 ||
		fail "${SHELL_WORDS[*]}: the environment is another one"
	run empty env -i "${SHELL_FILE[@]}" "$PLACE/bin/spanprof-entrypoint" "$HOSTS/entry"
	has empty "preload $OURS"
	enter none --
	expect_rc none 125
	# As the shell has it: 127 and 126.
	for given in nonexistent /nonexistent /etc/passwd; do
		run shell.error "${SHELL_FILE[@]}" -c 'exec "$1"' sh "$given"
		enter our.error -- "$given"
		expect_same shell.error our.error rc
		(($(result our.error.rc) >= 126)) || fail "$given: status $(result our.error.rc)"
	done
}

check_chaining()
{
	enter behind LD_PRELOAD=libc.so.6 -- "$HOSTS/entry"
	has behind "preload $OURS:libc.so.6"
	enter list 'LD_PRELOAD=libc.so.6 libm.so.6' -- "$HOSTS/entry"
	has list "preload $OURS:libc.so.6 libm.so.6"
	for twice in "$OURS" "libc.so.6:$OURS" "$OURS libc.so.6"; do
		enter twice "LD_PRELOAD=$twice" -- "$HOSTS/entry"
		has twice "preload $twice"
	done
	enter nested -- "${SHELL_FILE[@]}" "$PLACE/bin/spanprof-entrypoint" \
		"${SHELL_FILE[@]}" -c '"$@"; exit $?' sh \
		"${SHELL_FILE[@]}" "$PLACE/bin/spanprof-entrypoint" "$HOSTS/entry"
	has nested "preload $OURS"
	expect_rc nested 42
}

check_stepping_aside()
{
	for off in SPANPROF_DISABLED=true SPANPROF_DISABLED=TRUE OTEL_SDK_DISABLED=true \
		PYROSCOPE_AGENT_ENABLED=false OTEL_PYROSCOPE_START_PROFILING=False; do
		enter off "$off" -- "$HOSTS/entry"
		has off 'preload -'
		quiet off
	done
	enter on SPANPROF_DISABLED=yes -- "$HOSTS/entry"
	has on "preload $OURS"

	mv "$OURS" "$OURS.away"
	enter absent -- "$HOSTS/entry"
	aside absent 'no libspanprof.so'
	expect_rc absent 42
	other_machine '\xb7\x00' "$OURS"
	enter wrong -- "$HOSTS/entry"
	aside wrong 'different machines'
	expect_rc wrong 42
	echo 'not an object' >"$OURS"
	enter garbage -- "$HOSTS/entry"
	aside garbage 'not an ELF file'
	mv "$OURS.away" "$OURS"
	if ((EUID == 0)); then
		chmod 600 "$OURS"
		run locked setpriv --reuid 65532 --regid 65532 --clear-groups "${SHELL_FILE[@]}" \
			"$PLACE/bin/spanprof-entrypoint" "$(command -v sh)" -c 'echo "preload ${LD_PRELOAD:--}"'
		aside locked 'cannot be read'
		chmod 644 "$OURS"
	fi
	mkdir -p "$WORK/with space/bin"
	cp "$PLACE/bin/spanprof-entrypoint" "$OURS" "$WORK/with space/bin"
	run space "${SHELL_WORDS[@]}" "$WORK/with space/bin/spanprof-entrypoint" "$HOSTS/entry"
	aside space 'spaces'

	# Programs that cannot be run here at all; the status is the shell's.
	other_machine '\xb7\x00' "$WORK/arm"
	enter arm -- "$WORK/arm"
	grep -q '^spanprof-entrypoint: .*different machines' "$WORK/arm.err" || fail "arm"
	# The name of the loader has its length; the file is not run but looked at.
	sed 's|/lib64/ld-linux-x86-64.so.2|/lib/ld-musl-x86_64.so.1\x00\x00\x00|' "$HOSTS/entry" >"$WORK/musl"
	chmod +x "$WORK/musl"
	printf '#!%s\n' "$WORK/musl" >"$WORK/script"
	chmod +x "$WORK/script"
	for musl in musl script; do
		enter "$musl" -- "$WORK/$musl"
		grep -q '^spanprof-entrypoint: .*built for musl' "$WORK/$musl.err" ||
			fail "${SHELL_WORDS[*]}, $musl: $(<"$WORK/$musl.err")"
	done
	# Static programs may start others.
	enter static -- "$HOSTS/static" 1 nothing
	expect_rc static 20
	quiet static
}

check_builtins_only()
{
	run strace strace -f -qq -e trace=execve -e signal=none -o "$WORK/execs" \
		"${SHELL_FILE[@]}" "$PLACE/bin/spanprof-entrypoint" "$HOSTS/entry"
	expect_rc strace 42
	[[ $(grep -c 'execve(' "$WORK/execs") == 2 ]] || {
		cat "$WORK/execs" >&2
		fail "${SHELL_WORDS[*]}: something else was started"
	}
}

tried=
for shell in dash bash busybox; do
	command -v "$shell" >/dev/null || continue
	SHELL_FILE=("$(command -v "$shell")")
	[[ $shell != busybox ]] || SHELL_FILE+=(sh)
	SHELL_WORDS=("${SHELL_FILE[@]}")
	check_handing_on
	check_chaining
	check_stepping_aside
	check_builtins_only
	tried+=" $shell"
done
[[ $tried == *dash* && $tried == *busybox* ]] || skip "passed in$tried; the other shells are not installed"

# Through its first line and the PATH, as in an image.
run installed PATH="$PLACE/bin:$PATH" spanprof-entrypoint "$HOSTS/entry"
grep -qx "preload $OURS" "$WORK/installed.out" || fail "not found by its own path"
(
	cd "$PLACE/bin"
	run relative ./spanprof-entrypoint "$HOSTS/entry"
	grep -qx "preload $OURS" "$WORK/relative.out" || fail "the path is not absolute"
)
run debug SPANPROF_DEBUG=true SPANPROF_AUTH_TOKEN=a-secret "$PLACE/bin/spanprof-entrypoint" "$HOSTS/entry"
grep -q '^spanprof-entrypoint: preloading' "$WORK/debug.err" || fail "SPANPROF_DEBUG says nothing"
if grep -q a-secret "$WORK/debug.err"; then
	fail "a secret on stderr"
fi
