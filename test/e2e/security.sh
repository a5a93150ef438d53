#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# SECURITY in the manual describes a process and its exporter. This test compares the description with the kernel's
# facts: the exporter has no port, opens only the listed files, and has no memory that is writable and executable; the
# program is the same as without us. test/gates/security.table says which test proves which sentence.
if ((EUID == 0)) && [[ ${1-} != inside ]] && unshare -m -n true 2>/dev/null; then
	exec unshare -m -n --propagation private bash "$0" inside
fi
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

[[ ${1-} == inside ]] || skip "a network and a root of its own need root"
mkdir "$WORK/object" "$WORK/profiles"
cp "$SO" "$EXPORTER" "$WORK/object"
cp "$HOSTS/confines" "$WORK/host"
cp "$TEST_LIBS/libfixture-otelc.so" "$WORK"

# In a user namespace in which we are root, root of that namespace starts programs that belong to a user outside.
if unshare --user --map-root-user true 2>/dev/null; then
	cp -r "$WORK/object" "$WORK/outside"
	chown -R 12345 "$WORK/outside"
	mkdir "$WORK/of_outside"
	# shellcheck disable=SC2016
	run outside unshare --user --map-root-user env LD_PRELOAD="$WORK/outside/libspanprof.so" SPANPROF_PROFILE=always \
		SPANPROF_OUTPUT_DIR="$WORK/of_outside" sh -c 'stat -c %u "$1"; i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done' \
		sh "$WORK/outside/spanprof-exporter"
	[[ $(head -n 1 "$WORK/outside.out") == "$(</proc/sys/kernel/overflowuid)" ]] || fail "outside: it belongs to $(<"$WORK/outside.out")"
	[[ -n $(profiles_in "$WORK/of_outside") ]] || fail "outside: $(<"$WORK/outside.err")"
else
	left_out 'no user namespaces here'
fi

# Only the folder of profiles can be written to.
end()
{
	exec 3>&-
	umount -l "$WORK/profiles"
	mount -o remount,rw,bind /
	cleanup
}
mount -t tmpfs tmpfs "$WORK/profiles"
exec 3>"$WORK/profiles/host.out"
mount -o remount,ro,bind / 2>/dev/null || skip "the root cannot be made read-only"
trap end EXIT
! touch "$WORK/written" 2>/dev/null || skip "the root can be written to even so"

# start NAME VARIABLE=VALUE...: runs the host until it has used some time. Sets $PID.
start()
{
	env "${@:2}" LD_LIBRARY_PATH="$WORK" "$WORK/host" prctl >&3 2>&1 </dev/null &
	PID=$!
	STARTED+=("$PID")
	has_worked()
	{
		(($(awk '{ print $14 + $15 }' "/proc/$PID/stat") >= 20))
	}
	poll_until 30 has_worked || fail "$1: it does not work"
}

exporter_of()
{
	local keeper

	keeper=$(pgrep -P "$PID" -x spanprof-keeper)
	pgrep -P "$keeper"
}

has_exporter()
{
	exporter=$(exporter_of) && [[ -n $exporter && $(awk '$1 == "Seccomp:" { print $2 }' "/proc/$exporter/status") == 2 ]]
}

# The state of a process: the profiler must not change any of it.
state_of()
{
	grep -E '^(Umask|SigBlk|ShdPnd|NoNewPrivs|CapEff|Uid|Gid|Groups):' "/proc/$PID/status"
	awk '/^Sig(Cgt|Ign):/ { print $1, "without 33", substr($2, 1, 7) "-" substr($2, 9) }' "/proc/$PID/status"
	echo "folder $(readlink "/proc/$PID/cwd"), root $(readlink "/proc/$PID/root")"
	tr '\0' '\n' <"/proc/$PID/environ" | grep -v '^\(LD_PRELOAD\|LD_AUDIT\|GLIBC_TUNABLES\|SPANPROF_\|DEBUGINFOD_\)'
	for file in "/proc/$PID"/fd/*; do
		readlink "$file"
	done
}

start plain SP_UNUSED=1 && state_of | grep -v SP_UNUSED >"$WORK/profiles/plain.state"
kill "$PID"
OF_DEBUGINFOD=(DEBUGINFOD_TIMEOUT=7 DEBUGINFOD_MAXTIME=8 DEBUGINFOD_HEADERS_FILE=/none DEBUGINFOD_IMA_CERT_PATH=/none)
start under LD_PRELOAD="$WORK/object/libspanprof.so" SPANPROF_OUTPUT_DIR="$WORK/profiles/made" "${OF_DEBUGINFOD[@]}" \
	DEBUGINFOD_PROGRESS=1 LD_AUDIT= GLIBC_TUNABLES=
poll_until 30 has_exporter || fail "no exporter"
state_of >"$WORK/profiles/under.state"
diff "$WORK/profiles/plain.state" "$WORK/profiles/under.state" >&2 || fail "the program is something else than without us"

# Variables for debug files reach the exporter; a variable that names a library does not.
tr '\0' '\n' <"/proc/$exporter/environ" >"$WORK/profiles/exporter.state"
[[ $(grep ^DEBUGINFOD_ "$WORK/profiles/exporter.state" | sort) == "$(printf '%s\n' "${OF_DEBUGINFOD[@]}" | sort)" ]] ||
	fail "$(<"$WORK/profiles/exporter.state")"
! grep '^LD_\|^GLIBC_TUNABLES' "$WORK/profiles/exporter.state" >&2 || fail 'a library is named'

for process in "$PID" "$exporter"; do
	! grep ' rwx' "/proc/$process/maps" >&2 || fail "memory of $process is writable and executable"
done

[[ $(awk '$1 == "NoNewPrivs:" { print $2 }' "/proc/$exporter/status") == 1 ]] || fail "an execve may give the exporter rights"

# In a network namespace of their own there are no other sockets.
for kind in tcp tcp6 udp udp6 raw raw6 packet; do
	[[ ! -e /proc/net/$kind || $(tail -n +2 "/proc/net/$kind" | wc -l) == 0 ]] || fail "a port: $(cat /proc/net/$kind)"
done
# State 01 and flag 10000: a listening socket.
[[ $(awk '$4 == "00010000" { print $8 }' /proc/net/unix | grep -vc '^@spanprof') == 0 ]] || fail "listens: $(cat /proc/net/unix)"

# Allowed files are written, and no other file is open for writing.
for file in "/proc/$exporter"/fd/*; do
	what=$(readlink "$file") || continue
	flags=$(awk '$1 == "flags:" { print $2 }' "/proc/$exporter/fdinfo/${file##*/}")
	((8#$flags & 3)) || continue
	[[ $what == /dev/null || $what == '/memfd:'* || $what == 'anon_inode:'* || $what == 'socket:'* ]] ||
		fail "the exporter has $what open for writing"
done
kill -USR1 "$PID"
is_over()
{
	[[ ! -e /proc/$exporter ]]
}
poll_until 30 is_over || fail "the exporter does not end"
[[ $(stat -c '%a %u' "$WORK/profiles/made") == '700 0' ]] || fail "the folder: $(ls -ld "$WORK/profiles/made")"
[[ -n $(profiles_in "$WORK/profiles/made") ]] || fail "no profile below a root that cannot be written to"
[[ $(find "$WORK/profiles" -type f ! -name '*.pb.gz' ! -name '*-slow.otlp.jsonl' ! -name '*-slow.pprof.gz' ! -name '*.state' ! -name host.out | wc -l) == 0 ]] ||
	fail "$(ls "$WORK/profiles")"
