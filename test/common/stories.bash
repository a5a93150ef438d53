# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A program of test/conformance runs stories, and their profiles are compared with what the stories expect. Sourced
# after test/e2e/lib.bash.

# At each expectation three samples are taken, which costs no time; each counts for a second, so that the thread's own
# timer adds hardly one.
PIECE=(--samples 3)
export SPANPROF_SAMPLE_RATE=1 SPANPROF_SPAN_LABELS=test.value
# Only spans with samples have a link to the profile.
unset SPANPROF_ATTRIBUTES

# tell NAME STORY [VARIABLE=VALUE]... PROGRAM...: runs a story; writes the files of run(), and the folder NAME.d with
# the story's files and the profiles.
tell()
{
	local name=$1 story=$2 measure=true

	shift 2
	# Samples that stand for no CPU time would be corrected: the roots have used none.
	[[ ${PIECE[0]} != --samples ]] || measure=false
	mkdir "$WORK/$name.d"
	run_under "$name" CONFORMANCE_LABELS='ids=all names=root' SPANPROF_SPAN_ID_SCOPE=all \
		SPANPROF_SPAN_NAME_SCOPE=root SPANPROF_OUTPUT_DIR="$WORK/$name.d" \
		SPANPROF_MEASURE_ROOTS=$measure "$@" \
		--story "$story" "${PIECE[@]}" "$WORK/$name.d"
	expect_rc "$name" 7
}

# expect_told NAME: the CPU time belongs to the right spans and values, these spans link to the profile, and there is
# no message that the story does not expect.
expect_told()
{
	python3 test/conformance/matrix.py told "$WORK/$1.d" "$WORK/$1.err" "${PIECE[0]#--}" || fail "$1: not as told"
}

# tell_all PROGRAM: every story that it has, each judged in a separate shell; fails at the end.
tell_all()
{
	local story name program=$1 wrong=0

	while read -r story; do
		name=${program#"$TEST_LIBS"/}
		name=${name//\//.}.${story// /_}
		(
			tell "$name" "$story" "$program" || exit
			expect_told "$name"
		) >"$WORK/told" 2>&1 || {
			[[ ! -s $WORK/$name.d/verdicts || $(<"$WORK/$name.d/verdicts") != "na "* ]] || continue
			echo "$name: $(tail -n 1 "$WORK/told")"
			wrong=1
		}
	done < <("${LAUNCH[@]}" "$program" --list)
	((wrong == 0)) || fail "$program: not all is right"
}
