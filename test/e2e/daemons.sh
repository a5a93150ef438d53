#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Daemons that give up rights: their workers run in another root, as another user, or may start no more processes, so
# they cannot start an exporter any more. Their profiles have the CPU time that the kernel counts, and the daemons
# behave as without us.
# Runs alone: it compares CPU time with clocks to a few per cent.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 prlimit
((EUID == 0)) || skip "only root may become somebody else"
# The programs may become any user: all users may write here, and read the files that programs load.
chmod 755 "$WORK"
mkdir "$WORK/object" "$WORK/root"
cp "$SO" "$EXPORTER" "$WORK/object"
chmod -R a+rX "$WORK/object"
# A user without other processes, whose number would count.
readonly USER_ID=64123
export SPANPROF_UPLOAD_INTERVAL=200ms

ended()
{
	[[ -z $(pgrep -f "^$HOSTS/daemon $1") ]]
}

# told NAME: what each of its processes has become, sorted, without their ids.
told()
{
	sed -n 's/^[0-9]* user/user/p' "$WORK/$1.out" | sort
}

has_all()
{
	report "$WORK/$1" "$WORK/$1.json"
	[[ $(ask "$WORK/$1.json" "abs(d['total']['ns'] - $2) < 0.04 * $2") == True ]]
}

# daemon NAME STEP...: with SPANPROF_PROFILE=always
daemon()
{
	local name=$1 cpu lost

	shift
	run "$name.plain" "${BEFORE[@]}" "$HOSTS/daemon" "$@"
	mkdir -m 777 "$WORK/$name"
	run "$name" LD_PRELOAD="$WORK/object/libspanprof.so" SPANPROF_OUTPUT_DIR="$WORK/$name" \
		SPANPROF_PROFILE="${PROFILE-always}" "${BEFORE[@]}" "$HOSTS/daemon" "$@"
	poll_until 20 ended "$*" || fail "$name: a process does not end"
	# An exporter that follows its first process stops serving the others. It reports how many of their samples
	# are lost.
	lost=$(sed -n 's/.*: \([0-9]*\) samples\? lost before a profile was made of .*$/\1/p' "$WORK/$name.err" |
		awk '{ sum += $1 } END { print sum + 0 }')
	[[ $name != leader ]] || sed -i '/ samples\? lost before a profile was made of /d' "$WORK/$name.err"
	expect_same "$name.plain" "$name" err rc
	expect_rc "$name" 0
	[[ $(told "$name") == "$(told "$name.plain")" ]] || fail "$name: other processes than without us"
	cpu=$(awk '$1 == "cpu" { sum += $2 } END { print sum }' "$WORK/$name.out")
	# Each sample stands for 10 ms.
	cpu=$((cpu - lost * 10000000))
	poll_until 5 has_all "$name" "$cpu" || {
		ask "$WORK/$name.json" "d['total']" >&2
		fail "$name ($*): the kernel says $cpu ns"
	}
}

BEFORE=(env)
readonly IN=chroot=$WORK/root AS=user=$USER_ID
for how in fork daemon "daemon daemon" exec; do
	# shellcheck disable=SC2086
	{
		daemon "${how// /-}.root" $how "$IN" burn=400
		daemon "${how// /-}.user" $how "$AS" nproc=0 burn=400
		daemon "${how// /-}.both" $how "$IN" "$AS" nproc=0 burn=400
		daemon "${how// /-}.none" $how burn=400
	}
done
daemon limit-first daemon nproc=0 "$AS" burn=400
daemon by-prlimit daemon "re$AS" pnproc=1 burn=400
# The workers find the exporter of their new user.
daemon workers daemon "$IN" "$AS" burn=100 fork burn=200 fork burn=200
# The process has an exporter already: it joined one, or started one at its first span.
daemon late fork burn=100 "$IN" "$AS" nproc=0 burn=400
PROFILE=on-span daemon first-span fork label burn=100 "$IN" "$AS" nproc=0 burn=400
# The process that started the exporter gives up rights, and its child does not.
daemon leader master burn=100 "$IN" "$AS" nproc=0 burn=400
# The limit holds from the beginning, but only for the other user.
BEFORE=(prlimit --nproc=1:1)
daemon limited daemon "$AS" burn=400
daemon limited-re daemon "re$AS" burn=400
daemon limited-res daemon "res$AS" burn=400
