#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# "spanprof-doctor -- COMMAND": the command runs as without the doctor, even if a signal interrupts it, and a
# diagnosis follows. Its output to standard error appears at once.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/exporter.bash
source test/common/exporter.bash

need python3
readonly DRIVE=$ROOT/test/e2e/doctor_command.py DOCTOR=$ROOT/build/spanprof-doctor
export OTEL_SERVICE_NAME=shop

# diagnosed NAME STATUS WORDS...: the doctor ended with that status, and its output has each of the words.
diagnosed()
{
	local name=$1 words

	expect_rc "$name" "$2"
	for words in "${@:3}" '^To change: 1, marked WRONG'; do
		grep -q -- "$words" "$WORK/$name.shown" || fail "$name: no \"$words\": $(<"$WORK/$name.shown")"
	done
}

# With each shell that may be sh on some system.
readonly BIN=$WORK/opt/bin
mkdir -p "$BIN" "$WORK/opt/lib/spanprof"
cp build/spanprof-{run,report} "$BIN"
cp "$SO" "$EXPORTER" "$WORK/opt/lib/spanprof"
for shell in dash bash 'busybox sh'; do
	path=$(type -P "${shell%% *}") || continue
	sed "1s|.*|#!$path${shell#"${shell%% *}"}|" "$DOCTOR" >"$BIN/spanprof-doctor"
	chmod +x "$BIN/spanprof-doctor"
	for how in ctrl-c alone group; do
		run "$how" python3 "$DRIVE" "$how" "$WORK/$how.shown" "$BIN/spanprof-doctor" -- "$DRIVE" graceful
		diagnosed "$how" 1 '^ready on stderr' 'got 1$' '^  note   it ended with status 3$' 'no supported OpenTelemetry SDK'
	done
done
# A command that does not handle the signal.
for how in ctrl-c alone; do
	run "$how" python3 "$DRIVE" "$how" "$WORK/$how.shown" "$DOCTOR" -- sh -c 'echo ready; exec sleep 60'
	diagnosed "$how" 1 '  note   it was ended by signal 2 (Interrupt)$'
done

# If the program is interrupted, the doctor still shows what is known.
run spans SPANPROF_UPLOAD_INTERVAL=1s python3 "$DRIVE" ctrl-c "$WORK/spans.shown" "$DOCTOR" -- \
	sh -c 'echo ready | (sleep 3; cat) & exec "$@"' - "$HOSTS/requests" 60000
expect_rc spans 0
for words in 'note   samples .*: [1-9][0-9]* in spans' 'it was ended by signal 2' '^Nothing to change'; do
	grep -q "$words" "$WORK/spans.shown" || fail "no \"$words\": $(<"$WORK/spans.shown")"
done

# Questions appear before they are answered, and the command reads from the terminal.
run answer python3 "$DRIVE" answer "$WORK/answer.shown" "$DOCTOR" -- "$DRIVE" question
diagnosed answer 1 '^what? ' '^answered this'

# The command ignores and blocks the same signals as without the doctor.
"$DRIVE" signals >"$WORK/signals.plain"
run signals "$DOCTOR" -- "$DRIVE" signals
grep -E '^Sig(Ign|Blk)' "$WORK/signals.out" | diff - "$WORK/signals.plain" >&2 || fail "other signals"
(
	trap '' INT QUIT
	"$DRIVE" signals >"$WORK/ignored.plain"
)
run ignored python3 -c 'import os, signal, sys
for s in (signal.SIGINT, signal.SIGQUIT):
    signal.signal(s, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])' "$DOCTOR" -- "$DRIVE" signals
grep -E '^Sig(Ign|Blk)' "$WORK/ignored.out" | diff - "$WORK/ignored.plain" >&2 || fail "other signals where some are ignored"
cmp -s "$WORK/signals.plain" "$WORK/ignored.plain" && fail "nothing was ignored"

# A process that the command leaves behind keeps its standard error.
run daemon "$DOCTOR" -- "$DRIVE" daemon "$WORK/daemon.lives"
expect_rc daemon 1
touch "$WORK/daemon.lives.go"
poll_until 20 test -s "$WORK/daemon.lives" || fail "the daemon was ended by what it wrote"
poll_until 20 grep -q 'from the daemon' "$WORK/daemon.err" || fail "what it wrote is lost: $(<"$WORK/daemon.err")"

# The doctor takes the profiler's lines; all others appear unchanged.
run lines "$DOCTOR" -- sh -c 'printf "spanprof[1]: a message\nspanprof is a word\n\tspanprof[2]: no message\nspan" >&2; exit 7'
expect_rc lines 1
printf 'spanprof is a word\n\tspanprof[2]: no message\nspan' | diff - "$WORK/lines.err" >&2 || fail "other lines"
grep -q '^  note   its message: a message$' "$WORK/lines.out" || fail "$(<"$WORK/lines.out")"
grep -q '^  note   it ended with status 7$' "$WORK/lines.out" || fail "$(<"$WORK/lines.out")"
