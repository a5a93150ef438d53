#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program confines itself while it is profiled. An exporter with more freedom lets it go: it says why, sends the
# samples until then, and holds nothing of that process any more. If the program may start one, another exporter
# follows, which is confined like the program. A new root folder alone (chroot) changes nothing.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
readonly HOST=$HOSTS/confines
chmod 755 "$WORK"
mkdir "$WORK/object"
cp "$SO" "$EXPORTER" "$WORK/object"
chmod -R a+rX "$WORK/object"

status_of()
{
	echo "$WORK/$NAME/$1.json"
}

# The exporters that hold that process's folder in /proc.
exporters_of()
{
	local exporter

	# If a process may not be read, its exporter is executed from a copy in memory.
	for exporter in $(pgrep -f '(^|/)spanprof-exporter [0-9a-f]{15}$'); do
		# The status of find says nothing: descriptors of a moment vanish before it reads them.
		[[ -z $(find "/proc/$exporter/fd" -lname "/proc/$1" 2>/dev/null) ]] || echo "$exporter"
	done
}

# begin NAME ARGUMENT...: starts it in the background, and returns when it has been sampled. Sets $PID and
# $EXPORTER_PID.
begin()
{
	NAME=$1
	shift
	mkdir -m 777 "$WORK/$NAME"
	env LD_PRELOAD="$WORK/object/libspanprof.so" SPANPROF_OUTPUT_DIR="$WORK/$NAME" \
		SPANPROF_STATUS_FILE="$WORK/$NAME/%p.json" "$HOST" "$@" \
		>"$WORK/$NAME.out" 2>>"$WORK/$NAME.err" </dev/null &
	PID=$!
	STARTED+=("$PID")
	poll_until 30 is_sampled "$PID" || fail "$NAME: not sampled: $(<"$WORK/$NAME.err")"
	EXPORTER_PID=$(exporters_of "$PID")
	[[ $EXPORTER_PID =~ ^[0-9]+$ ]] || fail "$NAME: the exporters of $PID are '$EXPORTER_PID'"
}

# The process has an exporter, and has used 0.3 s of CPU time, of which no profile was sent yet.
is_sampled()
{
	local used

	used=$(awk '{ print $14 + $15 }' "/proc/$1/stat") && ((used >= 30)) && [[ -n $(exporters_of "$1") ]]
}

is_let_go()
{
	! exporters_of "$PID" | grep -qx "$EXPORTER_PID"
}

is_told()
{
	[[ -s $(status_of "$PID") && $(ask "$(status_of "$PID")" "any('$1' in p['text'] for p in d['problems'])") == True ]]
}

# finish: gives the second order, and checks that it ends as without us.
finish()
{
	local rc=0

	kill -USR1 "$PID"
	wait "$PID" || rc=$?
	((rc == 0)) || fail "$NAME: exit status $rc: $(<"$WORK/$NAME.err")"
	grep -q ', filters' "$WORK/$NAME.out" || fail "$NAME: $(<"$WORK/$NAME.out")"
}

# has SPAN, has_not SPAN: whether the profiles have it.
spans()
{
	report "$WORK/$NAME" "$WORK/$NAME.report.json"
	ask "$WORK/$NAME.report.json" "any(n['span_name'] == '$1' and n['ns'] > 5e6 for n in d['span_names'])"
}


# is_named: earlier samples have the names of their functions.
is_named()
{
	build/spanprof-report --folded "$WORK/$NAME" | grep -q "work_in_span"
}

# let_go NAME REASON ARGUMENT...: the exporter lets the process go, reports it once, and sends its samples.
let_go()
{
	local name=$1 reason=$2

	shift 2
	begin "$name" "$@"
	kill -USR1 "$PID"
	poll_until 30 is_let_go || fail "$name: exporter $EXPORTER_PID still holds process $PID"
	# The next exporter writes a status of its own into the same file.
	[[ $name == users ]] || poll_until 30 is_told "$reason" || fail "$name: the status does not say '$reason': $(<"$(status_of "$PID")")"
	[[ $(grep -c "$reason" "$WORK/$name.err") == 1 ]] || fail "$name: not told once: $(<"$WORK/$name.err")"
	[[ $(spans before) == True ]] || fail "$name: nothing of before is sent"
	is_named || fail "$name: what is sent has no names"
}

if grep -q '^Seccomp_filters:' /proc/self/status; then
	let_go filter 'installed a seccomp filter' filter
	finish
else
	left_out 'filter: this kernel does not count seccomp filters'
fi
let_go prctl 'installed a seccomp filter' prctl
finish
[[ $(spans after) == False ]] || fail 'prctl: sampled below the filter'

if ((EUID == 0)) && unshare --mount true 2>/dev/null; then
	mkdir "$WORK/root"
	let_go mounts 'entered another mount namespace' mounts "$WORK/root"
	finish
else
	left_out 'mounts: needs root'
fi

has_same_users()
{
	local exporter

	exporter=$(exporters_of "$PID" | head -n 1)
	[[ -n $exporter && $(readlink "/proc/$exporter/ns/user") == "$(readlink "/proc/$PID/ns/user")" ]]
}

# The next exporter runs in the program's namespaces.
if unshare --user true 2>/dev/null; then
	let_go users 'entered another user namespace' users
	poll_until 30 has_same_users || fail "users: no exporter follows: $(<"$WORK/users.err")"
	finish
else
	left_out 'users: no user namespaces here'
fi

if [[ -r /sys/kernel/security/apparmor/profiles && -n ${TEST_APPARMOR_PROFILE:-} ]]; then
	let_go label 'changed its security label' profile "$TEST_APPARMOR_PROFILE"
	finish
else
	left_out 'label: no security module with profiles of ours here; judged by the unit test of confinement'
fi

# A change of the root folder alone, and a change of the user: as before.
if ((EUID == 0)); then
	mkdir -p "$WORK/empty"
	begin chroot chroot "$WORK/empty"
	kill -USR1 "$PID"
	is_nobody()
	{
		[[ $(awk '$1 == "Uid:" { print $2 }' "/proc/$PID/status") == 65534 ]]
	}
	poll_until 30 is_nobody || fail "chroot: it stays who it was"
	[[ $(exporters_of "$PID") == "$EXPORTER_PID" ]] || fail "chroot: another exporter"
	has_more_drained()
	{
		[[ $(spans after) == True ]]
	}
	finish
	poll_until 30 has_more_drained || fail "chroot: nothing of after: $(<"$WORK/chroot.err")"
	! grep -q 'stops serving' "$WORK/chroot.err" || fail "chroot: let go"
else
	left_out 'chroot: needs root'
fi

# A Landlock domain is invisible from outside, and a network namespace does not confine files: the exporter stays.
begin landlock landlock
kill -USR1 "$PID"
has_domain()
{
	[[ ! -e /proc/$PID || $(awk '$1 == "NoNewPrivs:" { print $2 }' "/proc/$PID/status") != 0 ]]
}
poll_until 30 has_domain || fail "landlock: no domain"
if kill -0 "$PID" 2>/dev/null && [[ $(awk '$1 == "State:" { print $2 }' "/proc/$PID/status") != Z ]]; then
	[[ $(exporters_of "$PID") == "$EXPORTER_PID" ]] || fail "landlock: let go"
	finish
	[[ $(spans before) == True ]] || fail "landlock: nothing of before"
else
	left_out 'landlock: this kernel has none'
fi

# Only the worker is let go: its parent and their common exporter go on.
if grep -q '^Seccomp_filters:' /proc/self/status; then
	begin worker worker
	PARENT=$PID
	PID=$(awk '$1 == "worker" { print $2 }' "$WORK/worker.out")
	STARTED+=("$PID")
	poll_until 30 is_sampled "$PID" || fail "worker: the worker is not sampled"
	exporters_of "$PID" | grep -qx "$EXPORTER_PID" || fail "worker: it has another exporter"
	kill -USR1 "$PARENT"
	poll_until 30 is_let_go || fail "worker: exporter $EXPORTER_PID still holds worker $PID"
	poll_until 30 is_told 'installed a seccomp filter' || fail "worker: the status does not say it"
	exporters_of "$PARENT" | grep -qx "$EXPORTER_PID" || fail "worker: the parent lost its exporter"
	kill -USR1 "$PARENT"
	has_ended()
	{
		[[ $(awk '{ print $3 }' "/proc/$PID/stat") == Z ]]
	}
	poll_until 30 has_ended || fail "worker: the worker does not end"
	PID=$PARENT
	finish
	[[ $(spans before) == True && $(spans parent) == True ]] || fail 'worker: spans are missing'
	[[ $(ask "$(status_of "$PARENT")" 'd["problems"]') != *confined* ]] || fail 'worker: the parent is told'
fi

