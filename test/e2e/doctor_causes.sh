#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# What keeps the loader, the exporter or the server from us has a name: spanprof-doctor gives the one
# cause and its remedy, and blames neither the sampler nor what is well.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash
# shellcheck source=test/e2e/tls.bash
source test/e2e/tls.bash

readonly DOCTOR=$ROOT/scripts/spanprof-doctor
readonly NOBODY=65534
chmod 755 "$WORK"
double_start
readonly BASE=(OTEL_SERVICE_NAME=shop "PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" SPANPROF_UPLOAD_INTERVAL=1s)
# Where anybody may read them: the repository may be in root's own folder.
mkdir -p "$WORK/programs/hosts"
cp "$HOSTS/requests" "$WORK/programs/hosts"
cp "$TEST_LIBS/libfixture-otelc.so" "$WORK/programs"
readonly REQUESTS=("$WORK/programs/hosts/requests" 120000)

# cause NAME TEXT REMEDY PART COMMAND...: what the doctor finds in a process that has mapped PART, or has an exporter: one
# thing, with these words.
cause()
{
	local name=$1 text=$2 remedy=$3 part=$4

	shift 4
	"$@" >"$WORK/host.out" 2>"$WORK/host.err" </dev/null &
	HOST_PID=$!
	STARTED+=("$HOST_PID")
	disown "$HOST_PID"
	poll_until 60 has_mapped "$HOST_PID" "$part" || fail "$name: $part is not mapped: $(<"$WORK/host.err")"
	run "$name" "$DOCTOR" "$HOST_PID"
	kill "$HOST_PID" 2>/dev/null || true
	if [[ $(grep -c '^  WRONG' "$WORK/$name.out") != 1 || $(result "$name.rc") != 1 ]] ||
		! grep -q "^  WRONG .*$text" "$WORK/$name.out" ||
		! grep -q "^         change: .*$remedy" "$WORK/$name.out"; then
		cat "$WORK/$name".{out,err} >&2
		fail "$name: not \"$text\" alone, with \"$remedy\""
	fi
}

# folder NAME: of object and exporter, to take something away from.
folder()
{
	mkdir "$WORK/$1"
	cp "$SO" "$EXPORTER" "$WORK/$1"
}

readonly AS_NOBODY=(setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups env)

folder alone
rm "$WORK/alone/spanprof-exporter"
cause exporter 'the exporter is missing: there is no .*/alone/spanprof-exporter' 'into one folder' \
	fixture env "${BASE[@]}" LD_PRELOAD="$WORK/alone/libspanprof.so" "${REQUESTS[@]}"
cause exporter.named 'the exporter is missing: there is no /opt/nowhere/exporter' SPANPROF_EXPORTER \
	fixture env "${BASE[@]}" LD_PRELOAD="$SO" SPANPROF_EXPORTER=/opt/nowhere/exporter "${REQUESTS[@]}"
folder mode
chmod 644 "$WORK/mode/spanprof-exporter"
cause exporter.mode 'the exporter .* may not be executed by the program' "chmod a+x $WORK/mode/spanprof-exporter" \
	fixture env "${BASE[@]}" LD_PRELOAD="$WORK/mode/libspanprof.so" "${REQUESTS[@]}"
cause path 'the object is missing: there is no /opt/nowhere/libspanprof.so' 'correct the path' \
	fixture env "${BASE[@]}" LD_PRELOAD=/opt/nowhere/libspanprof.so "${REQUESTS[@]}"
folder text
echo 'no object' >"$WORK/text/libspanprof.so"
cause text 'is not an ELF file' 'install it again' \
	fixture env "${BASE[@]}" LD_PRELOAD="$WORK/text/libspanprof.so" "${REQUESTS[@]}"

# The number of the machine in the header: another one that we are built for.
folder machine
case $(uname -m) in
x86_64) machine='\267' other=aarch64 ;;
*) machine='\076' other=x86-64 ;;
esac
printf '%b' "$machine" | dd of="$WORK/machine/libspanprof.so" bs=1 seek=18 conv=notrunc status=none
cause machine "is built for $other, the program for" 'objects that are built for' \
	fixture env "${BASE[@]}" LD_PRELOAD="$WORK/machine/libspanprof.so" "${REQUESTS[@]}"

# Somebody else's C library takes us in, and we do nothing there.
if command -v musl-gcc >/dev/null; then
	echo 'int pause(void); int main(void) { return pause(); }' >"$WORK/host.c"
	musl-gcc -o "$WORK/musl" "$WORK/host.c"
	cause musl 'built for musl' LIMITATIONS libspanprof.so env "${BASE[@]}" LD_PRELOAD="$SO" "$WORK/musl"
fi

# One port, the other scheme.
cause tls_to_http "https://localhost:${DOUBLE_URL##*:} answers http there" 'write http://' \
	"$ACTIVE" env OTEL_SERVICE_NAME=shop LD_PRELOAD="$SO" SPANPROF_AUTH_TOKEN=token-not-to-show \
	PYROSCOPE_SERVER_ADDRESS="https://localhost:${DOUBLE_URL##*:}" "${REQUESTS[@]}"
certificate good DNS:localhost
front_start --cert "$WORK/good.pem"
cause http_to_tls 'http://localhost:[0-9]* answers https there' 'write https://' \
	"$ACTIVE" env OTEL_SERVICE_NAME=shop LD_PRELOAD="$SO" \
	PYROSCOPE_SERVER_ADDRESS="${FRONT_URL/https/http}" "${REQUESTS[@]}"

((EUID == 0)) || exit 0
# What the program's user may not do, whoever asks.
folder whole
readonly WHOLE=$WORK/whole/libspanprof.so
mkdir -m 755 "$WORK/closed"
cause output "cannot be written into $WORK/closed by the program's user: $WORK/closed: Permission denied" \
	SPANPROF_OUTPUT_DIR fixture "${AS_NOBODY[@]}" OTEL_SERVICE_NAME=shop LD_PRELOAD="$WHOLE" \
	SPANPROF_OUTPUT_DIR="$WORK/closed" "${REQUESTS[@]}"
cause output.parent "by the program's user: $WORK/closed: Permission denied" SPANPROF_OUTPUT_DIR \
	fixture "${AS_NOBODY[@]}" OTEL_SERVICE_NAME=shop LD_PRELOAD="$WHOLE" SPANPROF_OUTPUT_DIR="$WORK/closed/new" \
	"${REQUESTS[@]}"
touch "$WORK/file"
cause output.file 'Not a directory' SPANPROF_OUTPUT_DIR fixture env OTEL_SERVICE_NAME=shop \
	LD_PRELOAD="$SO" SPANPROF_OUTPUT_DIR="$WORK/file" "${REQUESTS[@]}"
folder private
chmod 700 "$WORK/private"
cause folder "the object .* cannot be read by the program's user (uid $NOBODY): $WORK/private does not allow it" \
	"chmod a+rX $WORK/private" fixture "${AS_NOBODY[@]}" "${BASE[@]}" LD_PRELOAD="$WORK/private/libspanprof.so" \
	"${REQUESTS[@]}"
folder half
chmod 600 "$WORK/half/spanprof-exporter"
cause exporter.rights "the exporter .* cannot be read by the program's user" \
	"chmod a+rX $WORK/half/spanprof-exporter" fixture "${AS_NOBODY[@]}" "${BASE[@]}" \
	LD_PRELOAD="$WORK/half/libspanprof.so" "${REQUESTS[@]}"
if unshare -m true 2>/dev/null; then
	mkdir "$WORK/noexec"
	cause noexec 'the object .* is mounted noexec' 'without noexec' fixture unshare -m bash -c '
		mount -t tmpfs -o noexec none "$0/noexec" && cp "$0"/whole/* "$0/noexec" &&
			exec env LD_PRELOAD="$0/noexec/libspanprof.so" "$@"' "$WORK" "${BASE[@]}" "${REQUESTS[@]}"
	cause exporter.noexec 'the exporter .* is mounted noexec, so it cannot' SPANPROF_EXPORTER fixture unshare -m bash -c '
		mount -t tmpfs -o noexec none "$0/noexec" && cp "$0"/whole/spanprof-exporter "$0/noexec" &&
			exec env SPANPROF_EXPORTER="$0/noexec/spanprof-exporter" LD_PRELOAD="$0/whole/libspanprof.so" \
				"$@"' "$WORK" "${BASE[@]}" "${REQUESTS[@]}"
fi
