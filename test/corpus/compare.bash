# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Runs of one command without us, with us, and with us below strace, and what must be the same. Used after
# test/e2e/lib.bash, by test/corpus/neutral.sh and test/e2e/neutral.sh.

readonly OBSERVER=$TEST_LIBS/libobserver.so
readonly COMPARE_PY=$ROOT/test/corpus/eintr.py
PROFILED=(SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_FLUSH_TIMEOUT=30s)

# The whole environment, so that the caller's does not affect the comparison.
CLEAN=(env -i PATH="$PATH" HOME="$WORK" LC_ALL=C TZ=UTC)

# under_plain NAME, under_profiled NAME, under_traced NAME: set UNDER, the words with which a program is started.
# NAME.KIND.seen has what its processes find and leave.
under_plain()
{
	UNDER=("${CLEAN[@]}" OBSERVED="$WORK/$1.plain.seen" LD_PRELOAD="$OBSERVER")
	seen_file "$1.plain"
}

under_profiled()
{
	UNDER=("${CLEAN[@]}" OBSERVED="$WORK/$1.profiled.seen" LD_PRELOAD="$OBSERVER $SO"
		"${PROFILED[@]}" SPANPROF_OUTPUT_DIR="$WORK/$1.profiles")
	seen_file "$1.profiled"
	profiles_folder "$1.profiles"
}

under_traced()
{
	UNDER=("${CLEAN[@]}" strace -f -qq -o "$WORK/$1.trace" -E LD_PRELOAD="$SO"
		"${PROFILED[@]/#/-E}" -ESPANPROF_OUTPUT_DIR="$WORK/$1.traced.profiles")
	profiles_folder "$1.traced.profiles"
	: >"$WORK/$1.trace"
	chmod 666 "$WORK/$1.trace"
}

# Made first, for servers that change their user.
seen_file()
{
	: >"$WORK/$1.seen"
	chmod 666 "$WORK/$1.seen"
}

profiles_folder()
{
	rm -rf "${WORK:?}/$1"
	mkdir -m 777 "$WORK/$1"
	chmod 777 "$WORK/$1"
}

# seen NAME.KIND: the observations, without what differs from run to run: order, inodes, names of temporary files and
# of the run's own output, and the files of a database, which stay open as long as there is room.
seen()
{
	sed -E -e "s! [0-9]+=$WORK/(pg|maria)/[^ ]*!!g" -e 's/(pipe|socket):\[[0-9]+\]/\1/g' \
		-e 's!/tmp/(cc|sort)[A-Za-z0-9]{6}\b!/tmp/\1X!g' \
		-e "s!$WORK/[a-z0-9_]+\.(plain|profiled)\.!!g" "$WORK/$1.seen" | sort
}

# interruptions NAME: the output of eintr.py about the traced run.
interruptions()
{
	python3 "$COMPARE_PY" "$WORK/$1.trace"
}
