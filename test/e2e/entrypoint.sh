#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# spanprof-entrypoint: the command gets exactly its arguments, and our object comes before objects that were preloaded
# already. If the object would be of no use, the command runs as usual and stderr gets one line.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need strace
# As installed: programs in bin, objects in lib.
readonly PLACE=$WORK/opt
readonly ENTRY=$PLACE/bin/spanprof-entrypoint
mkdir -p "$PLACE/bin" "$PLACE/lib/spanprof"
cp -P build/spanprof-{run,entrypoint} "$PLACE/bin"
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
	run "$name" "${settings[@]}" "$ENTRY" "$@"
}

has()
{
	grep -Fqx -e "$2" "$WORK/$1.out" || {
		cat "$WORK/$1.out" "$WORK/$1.err" >&2
		fail "$1: no line $2"
	}
}

quiet()
{
	[[ ! -s $WORK/$1.err ]] || fail "$1: $(<"$WORK/$1.err")"
}

# aside NAME TEXT: the object is not preloaded, and the only line on stderr says why.
aside()
{
	[[ $(grep -c '^spanprof-entrypoint: ' "$WORK/$1.err") == 1 ]] || fail "$1: not one line: $(<"$WORK/$1.err")"
	grep -q "^spanprof-entrypoint: .*$2.*without the profiler" "$WORK/$1.err" ||
		fail "$1: not \"$2\": $(<"$WORK/$1.err")"
	has "$1" 'preload -'
}

# The machine of an ELF file is at byte 18.
other_machine()
{
	cp "$HOSTS/entry" "$2"
	printf '%b' "$1" | dd of="$2" bs=1 seek=18 conv=notrunc status=none
}

# The arguments for the command: all that follows belongs to it, including options.
enter args -- "$HOSTS/entry" 'two words' '' '*' -x -- --version '$HOME' $'a\nb'
expect_rc args 42
quiet args
printf '%s\n' "preload $OURS" '[two words]' '[]' '[*]' '[-x]' '[--]' '[--version]' '[$HOME]' '[a' 'b]' |
	diff - <(sed 1d "$WORK/args.out") >&2 || fail "not what was given"
enter dashes -- -- "$HOSTS/entry" -x
has dashes '[-x]'
run bare file=1 LC_ALL=C.UTF-8 CDPATH=/ odd.name=kept env
enter same file=1 LC_ALL=C.UTF-8 CDPATH=/ odd.name=kept -- env
diff <(sort "$WORK/bare.out") <(grep -v '^LD_PRELOAD=' "$WORK/same.out" | sort) >&2 ||
	fail "the environment is another one"
run empty env -i "$ENTRY" "$HOSTS/entry"
has empty "preload $OURS"
enter none --
expect_rc none 125
for given in nonexistent /nonexistent /etc/passwd; do
	run shell.error sh -c 'exec "$1"' sh "$given"
	enter our.error -- "$given"
	expect_same shell.error our.error rc
	(($(result our.error.rc) >= 126)) || fail "$given: status $(result our.error.rc)"
done

# Objects that were preloaded already.
enter behind LD_PRELOAD=libc.so.6 -- "$HOSTS/entry"
has behind "preload $OURS:libc.so.6"
enter list 'LD_PRELOAD=libc.so.6 libm.so.6' -- "$HOSTS/entry"
has list "preload $OURS:libc.so.6 libm.so.6"
for twice in "$OURS" "libc.so.6:$OURS" "$OURS libc.so.6"; do
	enter twice "LD_PRELOAD=$twice" -- "$HOSTS/entry"
	has twice "preload $twice"
done
enter nested -- "$ENTRY" sh -c '"$@"; exit $?' sh "$ENTRY" "$HOSTS/entry"
has nested "preload $OURS"
expect_rc nested 42

# Reasons not to preload.
for off in SPANPROF_DISABLED=true SPANPROF_DISABLED=TRUE OTEL_SDK_DISABLED=true \
	PYROSCOPE_AGENT_ENABLED=false OTEL_PYROSCOPE_START_PROFILING=False; do
	enter off "$off" -- "$HOSTS/entry"
	has off 'preload -'
	quiet off
done
enter on SPANPROF_DISABLED=false -- "$HOSTS/entry"
has on "preload $OURS"

mv "$OURS" "$OURS.away"
enter absent -- "$HOSTS/entry"
aside absent 'libspanprof.so: it is not there'
expect_rc absent 42
other_machine '\xb7\x00' "$OURS"
enter wrong -- "$HOSTS/entry"
aside wrong 'is built for .*, libspanprof.so for'
expect_rc wrong 42
echo 'not an object' >"$OURS"
enter garbage -- "$HOSTS/entry"
aside garbage 'not an ELF file'
mv "$OURS.away" "$OURS"
if ((EUID == 0)); then
	chmod 600 "$OURS"
	run locked setpriv --reuid 65532 --regid 65532 --clear-groups \
		"$ENTRY" "$(command -v sh)" -c 'echo "preload ${LD_PRELOAD:--}"'
	aside locked 'cannot be read'
	chmod 644 "$OURS"
fi
mkdir -p "$WORK/with space/bin"
cp "$ENTRY" "$OURS" "$WORK/with space/bin"
run space "$WORK/with space/bin/spanprof-entrypoint" "$HOSTS/entry"
aside space 'spaces'

# Programs that cannot be run here at all.
other_machine '\xb7\x00' "$WORK/arm"
enter arm -- "$WORK/arm"
grep -q '^spanprof-entrypoint: .*built for' "$WORK/arm.err" || fail "arm"
# The new name of the loader has the same length; the file is only read, never run.
sed 's|/lib64/ld-linux-x86-64.so.2|/lib/ld-musl-x86_64.so.1\x00\x00\x00|' "$HOSTS/entry" >"$WORK/musl"
chmod +x "$WORK/musl"
printf '#!%s\n' "$WORK/musl" >"$WORK/script"
chmod +x "$WORK/script"
for musl in musl script; do
	enter "$musl" -- "$WORK/$musl"
	grep -q '^spanprof-entrypoint: .*built for musl' "$WORK/$musl.err" || fail "$musl: $(<"$WORK/$musl.err")"
done
# Static programs may start other programs.
enter static -- "$HOSTS/static" 1 nothing
expect_rc static 20
quiet static

# No other program is started.
run strace strace -f -qq -e trace=execve -e signal=none -o "$WORK/execs" "$ENTRY" "$HOSTS/entry"
expect_rc strace 42
[[ $(grep -c 'execve(' "$WORK/execs") == 2 ]] || {
	cat "$WORK/execs" >&2
	fail "something else was started"
}

# By the PATH, as in an image; by a relative path; through a link from elsewhere.
run installed PATH="$PLACE/bin:$PATH" spanprof-entrypoint "$HOSTS/entry"
has installed "preload $OURS"
(
	cd "$PLACE/bin"
	run relative ./spanprof-entrypoint "$HOSTS/entry"
	has relative "preload $OURS"
)
ln -s "$ENTRY" "$WORK/spanprof-entrypoint"
run link "$WORK/spanprof-entrypoint" "$HOSTS/entry"
has link "preload $OURS"
run debug SPANPROF_DEBUG=true SPANPROF_AUTH_TOKEN=a-secret "$ENTRY" "$HOSTS/entry"
grep -q "^spanprof-entrypoint: running .*with LD_PRELOAD=$OURS" "$WORK/debug.err" || fail "SPANPROF_DEBUG says nothing"
run debug.off SPANPROF_DEBUG=1 SPANPROF_DISABLED=true "$ENTRY" "$HOSTS/entry"
grep -q '^spanprof-entrypoint: profiling is switched off' "$WORK/debug.off.err" || fail "SPANPROF_DEBUG says nothing"
if grep -q a-secret "$WORK/debug.err"; then
	fail "a secret on stderr"
fi
