# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Runs of one thing without us, with us, and with us below strace, and what has to be the same.
# Used after test/e2e/lib.bash, by test/corpus/neutral.sh and test/e2e/neutral.sh.

readonly OBSERVER=$TEST_LIBS/libobserver.so
readonly COMPARE_PY=$ROOT/test/corpus/eintr.py
PROFILED=(SPANPROF_PROFILE=always SPANPROF_SAMPLE_RATE=1000 SPANPROF_FLUSH_TIMEOUT=30s)

# All of the environment, so that nothing of who runs this is in what is compared.
CLEAN=(env -i PATH="$PATH" HOME="$WORK" LC_ALL=C TZ=UTC)

# under_plain NAME, under_profiled NAME, under_traced NAME: set UNDER, the words to start a program
# with. What its processes find and leave is in NAME.KIND.seen.
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

# Made before, for servers that change their user.
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

# seen NAME.KIND: what was seen, without what differs from run to run: order, inodes, names of files
# of a moment and of what the run itself is written to, and the files of a database, which stay open
# as long as there is room.
seen()
{
	sed -E -e "s! [0-9]+=$WORK/(pg|maria)/[^ ]*!!g" -e 's/(pipe|socket):\[[0-9]+\]/\1/g' \
		-e 's!/tmp/(cc|sort)[A-Za-z0-9]{6}\b!/tmp/\1X!g' \
		-e "s!$WORK/[a-z0-9_]+\.(plain|profiled)\.!!g" "$WORK/$1.seen" | sort
}

# interruptions NAME: what eintr.py says of the traced run.
interruptions()
{
	python3 "$COMPARE_PY" "$WORK/$1.trace"
}
