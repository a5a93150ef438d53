# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# A folder for a script's files ($WORK) and the programs that it starts in the background (their ids in STARTED): both
# are removed when the script ends. Sourced from the top of the repository, by test/e2e/lib.bash and
# test/bench/lib.bash among others; $DOUBLE is the Pyroscope double, and $EXPORTER the program that the object starts,
# for functions that find exporters.

WORK=$(mktemp -d "${TMPDIR:-/tmp}/spanprof-test.XXXXXX")
readonly WORK
declare -a STARTED=()

cleanup()
{
	local pid

	for pid in "${STARTED[@]}"; do
		# Below strace the program is a child of the started process, and would outlive it.
		pkill -TERM -P "$pid" 2>/dev/null || true
		kill "$pid" 2>/dev/null || true
	done
	# an exporter whose host is gone may still be writing there
	for _ in {1..100}; do
		if rm -rf "$WORK" 2>/dev/null; then
			return
		fi
		sleep 0.05
	done
	rm -rf "$WORK"
}
trap cleanup EXIT

# poll_until SECONDS COMMAND...: returns as soon as the command succeeds.
poll_until()
{
	local end=$((SECONDS + $1 * ${TEST_PATIENCE:-1}))

	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

# double_start [OPTION]...: sets DOUBLE_URL and DOUBLE_PID; the port is any free one.
double_start()
{
	local port_file

	port_file=$(mktemp -u "$WORK/port.XXXXXX")
	"$DOUBLE" --port-file "$port_file" "$@" 2>"$port_file.err" &
	DOUBLE_PID=$!
	STARTED+=("$DOUBLE_PID")
	# Not a job of the shell, which would report how it ended.
	disown "$DOUBLE_PID"
	poll_until 10 test -s "$port_file" || {
		echo "FAIL: the double does not start: $(cat "$port_file.err")" >&2
		exit 1
	}
	DOUBLE_URL=http://127.0.0.1:$(<"$port_file")
}

# exporters_in FOLDER: the process ids of exporters whose hosts have their status files in FOLDER.
exporters_in()
{
	local folder

	for folder in /proc/[0-9]*; do
		[[ $folder/exe -ef $EXPORTER ]] || continue
		tr '\0' '\n' <"$folder/environ" | grep -qx "SPANPROF_STATUS_FILE=$1/.*" || continue
		echo "${folder##*/}"
	done 2>/dev/null
}
