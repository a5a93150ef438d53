#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# In containers of every kind the program runs as without us, as process 1 with its own signals and status, and is
# profiled wherever possible. The containers have a read-only root, other users, no /tmp, no /proc, no shell, or lack
# parts of the profiler.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/install/root.bash
source test/install/root.bash

need busybox
need_containers
readonly NOBODY=65532
readonly BIN=$PRODUCT/bin LIB=$PRODUCT/lib/spanprof
readonly SLIM=$WORK/slim IMAGE=$WORK/image
root_make "$SLIM"
cp -a "$SLIM" "$IMAGE"
root_add "$IMAGE" "$(command -v dash)" /bin/sh
root_add "$IMAGE" "$(command -v busybox)" /bin/busybox
chmod -R a+rX "$IMAGE"

# fresh NAME: an empty folder that every user may write to.
fresh()
{
	rm -rf "${WORK:?}/$1"
	mkdir -m 777 "$WORK/$1"
}

# spend NAME ROOT COMMAND... [--] : runs a host with a span in that root, profiled into /out.
spend()
{
	local name=$1 root=$2

	shift 2
	fresh "$name.d"
	inside "$name" "$NOBODY" "$root" --bind "$WORK/$name.d" /out \
		--setenv SPANPROF_OUTPUT_DIR /out "${OPTIONS[@]}" -- "$@"
	expect_rc "$name" 7
	grep -qx 'done' "$WORK/$name.out" || fail "$name: $(<"$WORK/$name.err")"
}

profiled()
{
	[[ -n $(profiles_in "$WORK/$1.d") ]] || fail "$1: no profile; $(<"$WORK/$1.err")"
	[[ ! -s $WORK/$1.err ]] || fail "$1: $(<"$WORK/$1.err")"
}

# unprofiled NAME TEXT: the only line of ours says why.
unprofiled()
{
	[[ -z $(profiles_in "$WORK/$1.d") ]] || fail "$1: a profile"
	[[ $(grep -c '^spanprof' "$WORK/$1.err") == 1 ]] || fail "$1: not one line: $(<"$WORK/$1.err")"
	grep -q "$2" "$WORK/$1.err" || fail "$1: not \"$2\": $(<"$WORK/$1.err")"
}

# Process 1: it gets SIGTERM, and its status is the container's.
for start in "$BIN/spanprof-entrypoint" "$BIN/spanprof-run"; do
	name=first.${start##*/}
	(contained "$NOBODY" "$IMAGE" -- "$start" /app/entry wait 'a b') >"$WORK/$name.out" \
		2>"$WORK/$name.err" &
	pid=$!
	STARTED+=("$pid")
	poll_until 20 grep -q 'a b' "$WORK/$name.out" || fail "$name: $(<"$WORK/$name.err")"
	# timeout, bubblewrap, and process 1 in it
	inner=$(pgrep -P "$(pgrep -P "$pid")")
	kill -TERM "$inner"
	rc=0
	wait "$pid" || rc=$?
	((rc == 42)) || fail "$name: status $rc"
	printf '%s\n' 'pid 1' "preload $LIB/libspanprof.so" '[wait]' '[a b]' 'signal 15' |
		diff - "$WORK/$name.out" >&2 || fail "$name: another process"
	[[ ! -s $WORK/$name.err ]] || fail "$name: $(<"$WORK/$name.err")"
done

OPTIONS=()
# No shell, no /tmp, another user, a read-only root: as in "restricted" pods.
spend distroless "$SLIM" "$BIN/spanprof-run" /app/test/spend 50
profiled distroless
spend entrypoint "$IMAGE" "$BIN/spanprof-entrypoint" /app/test/spend 50
profiled entrypoint
spend shells "$IMAGE" "$BIN/spanprof-entrypoint" /bin/sh -c '/bin/sh -c "/app/test/spend 50"; exit $?'
profiled shells
OPTIONS=(--setenv LD_PRELOAD "$LIB/libspanprof.so")
spend variable "$SLIM" /app/test/spend 50
profiled variable
OPTIONS=()

# A static program cannot be profiled, but a program that it starts can.
spend static "$IMAGE" "$BIN/spanprof-run" /bin/busybox sh -c '/app/test/spend 50; exit $?'
[[ -n $(profiles_in "$WORK/static.d") ]] || fail "static: no profile of what it starts"
grep -q '/bin/busybox is statically linked' "$WORK/static.err" || fail "static: $(<"$WORK/static.err")"
inside wiped "$NOBODY" "$IMAGE" -- "$BIN/spanprof-entrypoint" /bin/busybox env -i /app/entry
expect_rc wiped 42
grep -qx 'preload -' "$WORK/wiped.out" || fail "env -i leaves something"

# Without /proc the program is profiled, or it runs without the profiler and one line says why.
NO_PROC=1 spend no_proc "$SLIM" "$BIN/spanprof-run" /app/test/spend 50
if [[ -s $WORK/no_proc.err ]]; then
	unprofiled no_proc 'spanprof'
	echo "without /proc: $(<"$WORK/no_proc.err")"
else
	profiled no_proc
	echo 'without /proc: profiled'
fi

# Missing parts of the installation; bad_exporter.sh and entrypoint.sh have more cases.
# Profiles in a folder do not need libcurl; if there is a server as well, the status file says that libcurl is
# missing.
cp -a "$SLIM" "$WORK/uncurled"
[[ -n $(find "$WORK/uncurled" -name 'libcurl*' -print -exec rm {} +) ]] || fail "no libcurl is in the root"
OPTIONS=(--setenv PYROSCOPE_SERVER_ADDRESS http://127.0.0.1:1 --setenv SPANPROF_STATUS_FILE /out/status.json)
spend curl "$WORK/uncurled" "$BIN/spanprof-run" /app/test/spend 50
OPTIONS=()
[[ -n $(profiles_in "$WORK/curl.d") ]] || fail "without libcurl: no profile in the folder"
grep -q '"last_error": "libcurl\.so\.4: cannot open shared object' "$WORK/curl.d/status.json" ||
	fail "without libcurl: $(<"$WORK/curl.d/status.json")"
cp -a "$SLIM" "$WORK/unlinked"
rm "$WORK/unlinked$(libraries_of "$EXPORTER" | grep -m 1 '/libprotobuf-c\.so')"
spend library "$WORK/unlinked" "$BIN/spanprof-run" /app/test/spend 50
unprofiled library "cannot start the exporter ($LIB/spanprof-exporter: "
cp -a "$IMAGE" "$WORK/other"
printf '\xb7\x00' | dd of="$WORK/other$LIB/libspanprof.so" bs=1 seek=18 conv=notrunc status=none
spend other "$WORK/other" "$BIN/spanprof-run" /app/test/spend 50
unprofiled other 'built for'

((EUID == 0)) || skip "passed as far as it goes without root: noexec"
# A volume that is mounted with noexec.
cp -a "$IMAGE" "$WORK/noexec"
cat >"$WORK/noexec.sh" <<-END
	set -e
	mount --make-rprivate /
	mount -t tmpfs -o noexec tmpfs "$WORK/noexec$PRODUCT"
	cp -a "$IMAGE$PRODUCT/." "$WORK/noexec$PRODUCT"
	exec chroot --userspec=$NOBODY:$NOBODY "$WORK/noexec" /bin/busybox env \
		LD_PRELOAD=$LIB/libspanprof.so /app/test/spend 50
END
run noexec unshare --mount bash "$WORK/noexec.sh"
expect_rc noexec 7
grep -q 'cannot be preloaded.*failed to map' "$WORK/noexec.err" || fail "noexec: $(<"$WORK/noexec.err")"
