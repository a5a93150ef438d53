#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2119
# For each cause of missing profiles, spanprof-doctor names the cause and its remedy, blames no other part, and finds
# no fault in a healthy program.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash
# shellcheck source=test/e2e/tls.bash
source test/e2e/tls.bash

need python3 sed grep tr busybox
readonly SIGPROF=27
readonly NOBODY=65534
readonly AS_NOBODY=(setpriv --reuid "$NOBODY" --regid "$NOBODY" --clear-groups env)
# As installed, readable for all: the repository may be in root's own folder.
readonly BIN=$WORK/opt/bin LIB=$WORK/opt/lib/spanprof
readonly DOCTOR=$BIN/spanprof-doctor
chmod 755 "$WORK"
mkdir -p "$BIN" "$LIB" "$WORK/programs/hosts"
cp build/spanprof-{run,report} scripts/spanprof-doctor "$BIN"
cp "$SO" "$EXPORTER" "$LIB"
cp "$HOSTS"/{requests,spend} "$WORK/programs/hosts"
cp "$TEST_LIBS/libfixture-otelc.so" "$WORK/programs"
readonly REQUESTS=("$WORK/programs/hosts/requests" 120000)
readonly NAMED=OTEL_SERVICE_NAME=shop SOON=SPANPROF_UPLOAD_INTERVAL=1s
causes=0

# found NAME STATUS [TEXT] [REMEDY]: the doctor's output; its status is the number of WRONG lines, and one of these
# has the text.
found()
{
	local name=$1 status=$2 wrong

	wrong=$(grep -c '^  WRONG' "$WORK/$name.out" || true)
	if [[ $(result "$name.rc") != "$status" || $wrong != "$status" ]] ||
		{ [[ -n ${3-} ]] && ! grep -q "^  WRONG .*$3" "$WORK/$name.out"; } ||
		{ ((status == 1)) && ! grep -q "^         change: .*${4-}" "$WORK/$name.out"; }; then
		cat "$WORK/$name".{out,err} >&2
		fail "$name: status $(result "$name.rc"), $wrong times WRONG, not \"${3-}\" with \"${4-}\""
	fi
	causes=$((causes + status))
}

# host_start PART COMMAND...: runs it until it has mapped that object, has an exporter, or its status contains the
# text.
host_start()
{
	local part=$1

	shift
	"$@" >"$WORK/host.out" 2>"$WORK/host.err" </dev/null &
	HOST_PID=$!
	STARTED+=("$HOST_PID")
	disown "$HOST_PID"
	if [[ $part == status:* ]]; then
		poll_until 60 status_has "${part#status:}" || fail "not $part: $(<"$WORK/host.err") $(build/spanprof-report --status "$HOST_PID" 2>&1)"
	else
		poll_until 60 has_mapped "$HOST_PID" "$part" || fail "$part is not mapped: $(<"$WORK/host.err")"
	fi
}

status_has()
{
	build/spanprof-report --status "$HOST_PID" 2>/dev/null | grep -q "$1"
}

# process NAME STATUS TEXT REMEDY PART COMMAND...: the doctor examines a running process. AS: the user who runs it.
AS=()
process()
{
	local name=$1 status=$2 text=$3 remedy=$4

	shift 4
	host_start "$@"
	run "$name" "${AS[@]}" "$DOCTOR" "$HOST_PID"
	kill "$HOST_PID" 2>/dev/null || true
	found "$name" "$status" "$text" "$remedy"
}

# command NAME STATUS TEXT REMEDY [VARIABLE=VALUE]... -- COMMAND...
command_of()
{
	local name=$1 status=$2 text=$3 remedy=$4 variables=()

	shift 4
	while [[ $1 != -- ]]; do
		variables+=("$1")
		shift
	done
	run "$name" "${variables[@]}" "$DOCTOR" "$@"
	found "$name" "$status" "$text" "$remedy"
}

# folder NAME: copies object and exporter into a folder, from which a test removes parts.
folder()
{
	mkdir "$WORK/$1"
	cp "$SO" "$EXPORTER" "$WORK/$1"
}

double_start
readonly SERVER=PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL
readonly WELL=(env "LD_PRELOAD=$SO" "$NAMED" "$SERVER" "$SOON")
NOBODY_THERE=PYROSCOPE_SERVER_ADDRESS=http://127.0.0.1:$(refused_port)

# All is well.
process well 0 '' '' 'status: [1-9][0-9]* in spans' "${WELL[@]}" "${REQUESTS[@]}"
for line in 'state *active: samples are taken' 'lost *nothing' 'push *to http'; do
	grep -q "^  note   $line" "$WORK/well.out" || fail "well: no line $line: $(<"$WORK/well.out")"
done
command_of well.command 0 '' '' "$NAMED" "$SERVER" -- "$HOSTS/spend" 200
grep -q '^  note   samples .*: [1-9][0-9]* in spans' "$WORK/well.command.out" || fail "no samples"
grep -qx 'done' "$WORK/well.command.out" || fail "the command's output is lost"
process in_code 0 '' '' libopentelemetry_trace env "LD_PRELOAD=$SO" "$SERVER" STORY_SERVICE=shop "$SOON" \
	"$TEST_LIBS/conformance/debian/lazy" --story nested --work 60000 "$WORK"
grep -q '^  note   shop, process ' "$WORK/in_code.out" || fail "$(<"$WORK/in_code.out")"
grep -q '^  note   SDK .*opentelemetry-cpp, ABI v1.*virtual methods, by name, in .*libopentelemetry_trace.so' \
	"$WORK/in_code.out" || fail "$(<"$WORK/in_code.out")"

# Profiler and SDK are upgraded while the program runs. The program keeps the objects that it has loaded, profiling
# goes on, and the doctor shows what the exporter knows.
folder upgraded
cp -r "$WORK/programs" "$WORK/upgraded.programs"
# upgrade FILE: replaces it as a package manager does
upgrade()
{
	cp "$1" "$1.new"
	mv "$1.new" "$1"
}
host_start 'status:[1-9][0-9]* in spans' "${WELL[@]}" LD_PRELOAD="$WORK/upgraded/libspanprof.so" "${REQUESTS[@]}"
upgrade "$WORK/upgraded/libspanprof.so"
run replaced "$DOCTOR" "$HOST_PID"
rm "$WORK/upgraded/libspanprof.so"
run removed "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
for name in replaced removed; do
	found "$name" 0
	for line in "ok     loaded: $WORK/upgraded/libspanprof.so\$" "note   $name .* disk since .*/upgraded/libspanprof.so\$" \
		'note   samples .*: [1-9][0-9]* in spans'; do
		grep -q "^  $line" "$WORK/$name.out" || fail "$name: no line $line: $(<"$WORK/$name.out")"
	done
done
# The same for a program in which no span has begun yet.
cp "$SO" "$WORK/upgraded"
host_start fixture "${WELL[@]}" FIXTURE_UNSAMPLED=1 LD_PRELOAD="$WORK/upgraded/libspanprof.so" \
	"$WORK/upgraded.programs/hosts/requests" 120000
upgrade "$WORK/upgraded/libspanprof.so"
upgrade "$WORK/upgraded.programs/libfixture-otelc.so"
run upgraded.sdk "$DOCTOR" "$HOST_PID"
found upgraded.sdk 1 'no span was recorded so far' 'send requests to the program'
rm "$WORK/upgraded.programs/libfixture-otelc.so"
run removed.sdk "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
found removed.sdk 1 'no supported OpenTelemetry SDK was found in the files .* from disk .*/libfixture-otelc.so' 'start the program again'

# The profiles exist, but under another service name than the spans.
process service 1 'have the service "shopp", the spans "shop"' 'give both the same name' status:WRONG \
	"${WELL[@]}" SPANPROF_APPLICATION_NAME=shopp "${REQUESTS[@]}"
process resource 1 'the spans "shop"' 'give both the same name' status:WRONG env "LD_PRELOAD=$SO" "$SERVER" \
	PYROSCOPE_APPLICATION_NAME=other OTEL_RESOURCE_ATTRIBUTES=service.version=1,service.name=shop "${REQUESTS[@]}"
process unnamed 1 'no service name' 'set OTEL_SERVICE_NAME' status:WRONG env "LD_PRELOAD=$SO" "$SERVER" "${REQUESTS[@]}"
command_of other.command 1 'have the service "shopp", the spans "shop"' 'give both the same name' "$SERVER" \
	SPANPROF_APPLICATION_NAME=shopp STORY_SERVICE=shop -- "$TEST_LIBS/conformance/debian/lazy" --story nested --work 200 "$WORK"
command_of named.in.code 1 'environment names the service "other", but the program gives its SDK the name "shop"' 'leave its name to' \
	"$SERVER" OTEL_SERVICE_NAME=other STORY_SERVICE=shop -- "$TEST_LIBS/conformance/debian/lazy" --story nested --work 200 "$WORK"
# A setting that needs another object, and threads that no hook has met.
process alloc 1 'libspanprof-alloc.so is not loaded' 'spanprof-run --alloc' status:WRONG "${WELL[@]}" SPANPROF_ALLOC=true \
	"${REQUESTS[@]}"
process deepbind 1 '[1-9] threads* .* not sampled: .*RTLD_DEEPBIND' 'remove SPANPROF_SIGNAL' 'status:WRONG .*DEEPBIND' "${WELL[@]}" \
	SPANPROF_PROFILE=always SPANPROF_SIGNAL=SIGPROF "$HOSTS/deepbind" 2 60000
# Missing names are no fault of the program, and the doctor says what helps.
strip -s -o "$WORK/programs/hosts/stripped" "$HOSTS/requests"
host_start 'status:^missing ' "${WELL[@]}" "$WORK/programs/hosts/stripped" 120000
run stripped "$DOCTOR" "$HOST_PID"
kill "$HOST_PID"
found stripped 0
for line in 'missing   .* is in .*/stripped, functions of which have no names' '          helps: .'; do
	grep -q "^  note   $line" "$WORK/stripped.out" || fail "no line $line: $(<"$WORK/stripped.out")"
done
# A static program has no loader.
command_of static 1 'statically linked' LIMITATIONS "$NAMED" "$NOBODY_THERE" -- "$HOSTS/static" 10 x
if [[ $(build/spanprof-run --check busybox || true) == *"statically linked"* ]]; then
	process static.pid 1 'statically linked' LIMITATIONS busybox "${WELL[@]}" busybox sleep 60
fi
# The SDK is a part of the program, which has nothing by which we could find it.
g++ -o "$WORK/inside" "$TEST_LIBS"/otelcpp/static_nortti/{driver,mini_sdk}.o \
	"$TEST_LIBS"/conformance/{main,probe,second,stories,story}.o -lpthread -ldl
command_of hidden 1 'its SDK cannot be hooked: opentelemetry-cpp.*hidden symbols' 'shared library' \
	"$NAMED" "$SERVER" -- "$WORK/inside" --story nested --work 50 "$WORK"
command_of nameless 1 'its SDK cannot be hooked: opentelemetry-cpp.*(-fno-rtti)' 'shared library' "$NAMED" "$SERVER" -- \
	"$TEST_LIBS/otelcpp/static_nortti/stories" --story nested --work 50 "$WORK"
# The doctor shows the cause, and not the state of the server.
command_of plain 1 'no supported OpenTelemetry SDK' 'Which SDKs' "$NAMED" "$NOBODY_THERE" -- "$HOSTS/plain" 10 x
process plain.pid 1 'no supported OpenTelemetry SDK' 'Which SDKs' libspanprof.so "${WELL[@]}" "$(type -P sleep)" 60
# Nobody samples the traces.
process unsampled 1 'OTEL_TRACES_SAMPLER=always_off/ samples none' 'sample some traces' fixture "${WELL[@]}" \
	FIXTURE_UNSAMPLED=1 OTEL_TRACES_SAMPLER=always_off "${REQUESTS[@]}"
command_of unsampled.code 1 'none of its traces is sampled' 'check the sampler' "$NAMED" "$SERVER" \
	FIXTURE_UNSAMPLED=1 -- "$HOSTS/spend" 50
# A seccomp filter that is older than the program, as in a container: the start of profiling waits for the first
# thread.
printf '%s\n' '#include <linux/filter.h>' '#include <linux/seccomp.h>' '#include <sys/prctl.h>' '#include <unistd.h>' \
	'int main(int argc, char **argv) {' \
	'	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);' \
	'	struct sock_fprog all = {1, &allow};' \
	'	return argc < 2 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) ||' \
	'		execv(argv[1], argv + 1); }' |
	gcc -x c -o "$WORK/programs/filtered" -
process filtered 1 'has not started below a seccomp filter' 'SPANPROF_SECCOMP=trust' fixture "${WELL[@]}" \
	FIXTURE_UNSAMPLED=1 "$WORK/programs/filtered" "${REQUESTS[@]}"
# The program takes the signal for itself.
command_of taken 1 'the program took the signal' 'set SPANPROF_SIGNAL' "$NAMED" "$SERVER" SPANPROF_SIGNAL=SIGPROF \
	-- "$HOSTS/taker" "$SIGPROF" 30000
process taken.pid 1 'the program took the signal' 'set SPANPROF_SIGNAL' status:WRONG "${WELL[@]}" SPANPROF_SIGNAL=SIGPROF \
	"$HOSTS/taker" "$SIGPROF" 120000 stay
# Another program's LD_PRELOAD, or none.
process overwritten 1 'LD_PRELOAD does not name libspanprof.so' 'libspanprof.so first' fixture env "$NAMED" \
	LD_PRELOAD=libm.so.6 "${REQUESTS[@]}"
process unset 1 'LD_PRELOAD is not set' spanprof-run fixture env "$NAMED" "${REQUESTS[@]}"
printf '#!/bin/sh\nLD_PRELOAD=libm.so.6 exec "%s" 10\n' "$HOSTS/spend" >"$WORK/start.sh"
chmod +x "$WORK/start.sh"
run script "$NAMED" "$SERVER" "$DOCTOR" -- "$WORK/start.sh"
grep -m 1 '^  WRONG' "$WORK/script.out" | grep -q 'start.sh sets LD_PRELOAD itself' || fail "$(<"$WORK/script.out")"
# Variables.
process disabled 1 'switched off by' 'remove that variable' fixture "${WELL[@]}" OTEL_SDK_DISABLED=true "${REQUESTS[@]}"
process typo 1 'SPANPROF_SERVER_ADRESS' 'correct or remove it' "$ACTIVE" "${WELL[@]}" SPANPROF_SERVER_ADRESS=x \
	"${REQUESTS[@]}"

# The exporter: it was killed and no hook has started another one yet, it is missing, or it may not run.
host_start "$ACTIVE" "${WELL[@]}" "${REQUESTS[@]}"
exporter=$(exporter_of "$HOST_PID")
kill -STOP "$HOST_PID"
kill -9 "$exporter"
is_gone()
{
	! exporter_of "$HOST_PID" >/dev/null
}
poll_until 20 is_gone || fail "another exporter has come"
run ended "$DOCTOR" "$HOST_PID"
kill -KILL "$HOST_PID"
found ended 1 'its exporter could not be started, or has ended' 'what ended'
# An idle forked child has its parent's memory mapped, but no exporter of its own yet.
printf '%s\n' '#include <stdio.h>' '#include <unistd.h>' '#include "test/sdk/opentelemetry_c.h"' 'int main(void) {' \
	'	otelc_init_tracer_provider("forked", "1.0", "test", "");' \
	'	otelc_end_span(otelc_start_span(otelc_get_tracer(), "parent", OTELC_SPAN_KIND_SERVER, NULL));' \
	'	int child = fork();' \
	'	return child < 0 || (child > 0 && dprintf(1, "%d\n", child) < 0) || pause(); }' |
	gcc -I. -x c -o "$WORK/programs/forked" - -x none "$WORK/programs/libfixture-otelc.so" -Wl,-rpath,"$WORK/programs"
host_start "$ACTIVE" "${WELL[@]}" "$WORK/programs/forked"
poll_until 20 test -s "$WORK/host.out" || fail "no forked child"
CHILD=$(<"$WORK/host.out")
run forked "$DOCTOR" "$CHILD"
kill "$CHILD" "$HOST_PID"
found forked 1 'no span was recorded so far' 'send requests to the program'
folder alone
rm "$WORK/alone/spanprof-exporter"
process exporter 1 'the exporter is missing: there is no .*/alone/spanprof-exporter' 'into one folder' \
	fixture "${WELL[@]}" LD_PRELOAD="$WORK/alone/libspanprof.so" "${REQUESTS[@]}"
folder mode
chmod 644 "$WORK/mode/spanprof-exporter"
process exporter.mode 1 'the exporter .* may not be executed by this user' 'chmod a+rx' \
	fixture "${WELL[@]}" LD_PRELOAD="$WORK/mode/libspanprof.so" "${REQUESTS[@]}"
mv "$LIB/spanprof-exporter" "$WORK/exporter"
command_of exporter.command 1 'cannot start the exporter' TROUBLESHOOTING "$NAMED" "$SERVER" -- "$HOSTS/spend" 50
mv "$WORK/exporter" "$LIB/spanprof-exporter"
# The object.
process path 1 'did not load /opt/nowhere/libspanprof.so, .*: there is no such file' 'absolute path' \
	fixture "${WELL[@]}" LD_PRELOAD=/opt/nowhere/libspanprof.so "${REQUESTS[@]}"
folder text
printf 'no object\n%.0s' {1..100} >"$WORK/text/libspanprof.so"
process text 1 'did not load .*: (invalid ELF header)' 'absolute path' \
	fixture "${WELL[@]}" LD_PRELOAD="$WORK/text/libspanprof.so" "${REQUESTS[@]}"
# The machine in the ELF header: another one for which there are builds.
folder machine
case $(uname -m) in
x86_64) machine='\267' ;;
*) machine='\076' ;;
esac
printf '%b' "$machine" | dd of="$WORK/machine/libspanprof.so" bs=1 seek=18 conv=notrunc status=none
process machine 1 'did not load .*: (cannot open shared object file)' 'same machine as the program' \
	fixture "${WELL[@]}" LD_PRELOAD="$WORK/machine/libspanprof.so" "${REQUESTS[@]}"
# Another C library loads the object, which does nothing there.
if command -v musl-gcc >/dev/null; then
	echo 'int pause(void); int main(void) { return pause(); }' >"$WORK/host.c"
	musl-gcc -o "$WORK/musl" "$WORK/host.c"
	process musl 1 'built for musl' LIMITATIONS libspanprof.so "${WELL[@]}" "$WORK/musl"
else
	left_out "musl-gcc is not installed"
fi
# A part of the program's SDK that we do not understand.
process unknown 1 'opentelemetry-cpp, ABI v1: context::Token not understood, .*from start to end' 'newer spanprof' \
	status:WRONG "${WELL[@]}" "$TEST_LIBS/otelcpp/foreign_token/stories" --story 'attach and detach' --work 120000 "$WORK"

# The server: unreachable, another scheme, wrong credentials, which are not shown, too large, clocks.
process unreachable 1 'the last push to .* failed: .*connect' 'check PYROSCOPE_SERVER_ADDRESS' status:WRONG \
	"${WELL[@]}" "$NOBODY_THERE" "${REQUESTS[@]}"
process tls_to_http 1 'the last push to https://localhost:.* failed' 'speaks* http there, not https' status:WRONG "${WELL[@]}" \
	SPANPROF_AUTH_TOKEN=token-not-to-show "PYROSCOPE_SERVER_ADDRESS=https://localhost:${DOUBLE_URL##*:}" "${REQUESTS[@]}"
certificate good DNS:localhost
front_start --cert "$WORK/good.pem"
process http_to_tls 1 'the last push to http://localhost:.* failed' 'speaks http there, not https' status:WRONG "${WELL[@]}" \
	"PYROSCOPE_SERVER_ADDRESS=${FRONT_URL/https/http}" "${REQUESTS[@]}"
double_start --basic user:right
process refused 1 'failed: status 401' SPANPROF_BASIC_AUTH_USER status:WRONG "${WELL[@]}" \
	"PYROSCOPE_SERVER_ADDRESS=${DOUBLE_URL/\/\////user:from-the-url@}" "${REQUESTS[@]}"
process password 1 'failed: status 401' SPANPROF_BASIC_AUTH_USER status:WRONG "${WELL[@]}" "PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" \
	SPANPROF_BASIC_AUTH_USER=user SPANPROF_BASIC_AUTH_PASSWORD=not-the-password "${REQUESTS[@]}"
if grep -e from-the-url -e not-the-password -e token-not-to-show "$WORK"/{refused,password,tls_to_http}.{out,err}; then
	fail "a secret was shown"
fi
double_start --fault status=429,retry_after=7,count=0
process limited 1 'failed: status 429' "raise the server's limits" status:WRONG "${WELL[@]}" \
	"PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" "${REQUESTS[@]}"
for offset in 7200 -7200; do
	double_start --now-offset "$offset"
	process clock 1 "failed: status 4\|the server's clock is" 'clock' status:WRONG "${WELL[@]}" \
		"PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL" "${REQUESTS[@]}"
done
# The folder.
touch "$WORK/file"
process output.file 1 "cannot be written into $WORK/file .*: Not a directory" SPANPROF_OUTPUT_DIR status:WRONG env "$NAMED" \
	LD_PRELOAD="$SO" SPANPROF_OUTPUT_DIR="$WORK/file" "${REQUESTS[@]}"

for bad in '' nonsense 1x --; do
	run bad "$DOCTOR" "$bad"
	expect_rc bad 125
done
run gone "$DOCTOR" "$HOST_PID$HOST_PID"
expect_rc gone 125
((causes >= 35)) || fail "only $causes set-ups with a cause"

((EUID == 0)) || exit 0
# Actions that the program's user may not do: the doctor tries them as that user.
AS=("${AS_NOBODY[@]}")
readonly POOR=("${AS_NOBODY[@]}" LD_PRELOAD="$LIB/libspanprof.so" "$NAMED")
mkdir -m 755 "$WORK/closed"
process output 1 "cannot be written into $WORK/closed by the program's user: Permission denied" SPANPROF_OUTPUT_DIR status:WRONG \
	"${POOR[@]}" SPANPROF_OUTPUT_DIR="$WORK/closed" "${REQUESTS[@]}"
process output.parent 1 "cannot be written into $WORK/closed/new by the program's user" SPANPROF_OUTPUT_DIR status:WRONG \
	"${POOR[@]}" SPANPROF_OUTPUT_DIR="$WORK/closed/new" "$SOON" "${REQUESTS[@]}"
folder private
chmod 700 "$WORK/private"
process folder 1 "did not load $WORK/private/libspanprof.so, .* may not search its folders" 'user may read' fixture \
	"${POOR[@]}" LD_PRELOAD="$WORK/private/libspanprof.so" "${REQUESTS[@]}"
folder unread
chmod 600 "$WORK/unread/libspanprof.so"
process object.rights 1 "did not load $WORK/unread/libspanprof.so, .* this user may not read it" 'user may read' fixture \
	"${POOR[@]}" LD_PRELOAD="$WORK/unread/libspanprof.so" "${REQUESTS[@]}"
folder half
chmod 600 "$WORK/half/spanprof-exporter"
# The program has its own mount namespace, so the doctor asks from inside.
if unshare -m true 2>/dev/null; then
	mkdir "$WORK/noexec"
	# shellcheck disable=SC2016
	run noexec unshare -m bash -c '
		mount -t tmpfs -o noexec none "$1" && cp "$2"/* "$1"
		env LD_PRELOAD="$1/libspanprof.so" "${@:4}" 2>/dev/null &
		until grep -q fixture "/proc/$!/maps" 2>/dev/null; do kill -0 "$!" || exit; done
		"$3" "$!"; status=$?; kill "$!"; exit "$status"' noexec "$WORK/noexec" "$LIB" "$DOCTOR" "$NAMED" "${REQUESTS[@]}"
	found noexec 1 'did not load .*: (failed to map segment' 'mounted noexec'
fi
# Beside an exporter of the same user that cannot be read, because it gave up rights.
printf '%s\n' '#include <sys/prctl.h>' '#include <unistd.h>' \
	'int main(void) { return prctl(PR_SET_NAME, "spanprof-export") || prctl(PR_SET_DUMPABLE, 0) || pause(); }' |
	gcc -x c -o "$WORK/hidden" -
"${AS_NOBODY[@]}" "$WORK/hidden" &
STARTED+=("$!")
disown "$!"
poll_until 20 grep -q spanprof-export "/proc/$!/comm" || fail "no hidden exporter"
process exporter.rights 1 "the exporter .* may not be executed by this user" 'chmod a+rx' fixture "${POOR[@]}" \
	LD_PRELOAD="$WORK/half/libspanprof.so" "${REQUESTS[@]}"
