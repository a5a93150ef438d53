#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# wait() never sees a process of ours: neither in the profiled program, nor in pid 1 or a subreaper, which would
# inherit it when the program ends. The program ends in each way by itself, before and after an exec.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly N=${INHERITED_RUNS:-2}
export SPANPROF_SAMPLE_RATE=500

# looked NAME WAITS LAUNCHER... -- VARIABLE=VALUE... ARGUMENT...: what the ancestor has noticed of N children.
looked()
{
	local name=$1 waits=$2
	local -a launcher=() variables=()

	shift 2
	while [[ $1 != -- ]]; do
		launcher+=("$1")
		shift
	done
	shift
	while [[ $1 == *=* ]]; do
		variables+=("$1")
		shift
	done
	run "$name" "${launcher[@]}" env PRELOAD="$SO" "${variables[@]}" "$HOSTS/inheritor" "$@"
	expect_rc "$name" 0
	# The daemons end at any time, and several that end at once cause one signal.
	grep -qxE "waits $waits signals $([[ $waits == "$N" ]] && echo "$N" || echo '[0-9]+') wrong 0" "$WORK/$name.out" ||
		fail "$name: $(<"$WORK/$name.out")"
}

# ends LAUNCHER... -- SUBREAPER: tests each way to end.
ends()
{
	local end name waits
	local -a launcher=("${@:1:$#-2}")

	for end in exit _exit quick threads last exec failing worker daemon; do
		name=${launcher[0]-$end}.${!#}.$end
		waits=$N
		# The ancestor inherits the daemon, too.
		[[ $end != daemon || ${!#} == plain && ${#launcher[@]} == 0 ]] || waits=$((2 * N))
		mkdir "$WORK/$name.profiles"
		looked "$name" "$waits" ${launcher[@]+"${launcher[@]}"} -- \
			SPANPROF_OUTPUT_DIR="$WORK/$name.profiles" "${!#}" "$N" "$end"
		[[ $end == quick ]] || (($(profiles_in "$WORK/$name.profiles" | wc -l) >= N)) ||
			fail "$name: not every process has a profile"
	done
}

ends -- subreaper
ends -- plain

# Each end waits for a server that never answers, but an ancestor that waits for all children waits no longer.
refused=http://192.0.2.1:4040
looked dead "$N" -- SPANPROF_SERVER_ADDRESS=$refused SPANPROF_FLUSH_TIMEOUT=300ms subreaper "$N" exit
(($(result dead.ms) < N * 1500)) || fail "a dead server is waited for $(result dead.ms) ms"

# A keeper without an exporter is invisible as well.
mkdir "$WORK/alone"
cp "$SO" "$WORK/alone"
looked missing "$N" -- PRELOAD="$WORK/alone/libspanprof.so" SPANPROF_OUTPUT_DIR="$WORK" subreaper "$N" exit

((EUID == 0)) || skip "pid 1 needs root; the rest passed"
unshare -pf --mount-proc true 2>/dev/null || skip "no pid namespaces here; the rest passed"
ends unshare -pf --mount-proc -- plain
