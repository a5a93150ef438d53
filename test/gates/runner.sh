#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/run.sh is strict: a test that fails, skips or dies half way is counted as such. A test that passes only at its
# second try is reported; at most two of these are tolerated, and none by .ci/run.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"
export SPANPROF_TEST_LOGS=$work/logs

# seed_script NAME: makes $work/NAME.sh from the lines on stdin
seed_script()
{
	{ echo '#!/bin/bash' && cat; } >"$work/$1.sh"
	chmod +x "$work/$1.sh"
}

# seed_tap NAME: makes a program that accepts Criterion's options and prints the results on stdin
seed_tap()
{
	seed_script "$1" <<<"cat >\"\${1#--tap=}\" <<'TAP'
$(cat)
TAP"
}

expect_line()
{
	if ! grep -qxE -- "$1" "$work/output"; then
		echo "no line is: $1"
		cat "$work/output"
		exit 1
	fi
}

# expect_end PATTERN PATTERN: the last line but one, and the last.
expect_end()
{
	expect_line "$1"
	expect_line "$2"
	if ! tail -n 2 "$work/output" | head -n 1 | grep -qxE -- "$1" ||
		! tail -n 1 "$work/output" | grep -qxE -- "$2"; then
		echo "does not end in: $1, $2"
		cat "$work/output"
		exit 1
	fi
}

seed_script good <<<'exit 0'
seed_script bad <<<'echo why; exit 3'
seed_script none <<<'echo because; exit 77'
for n in 1 2 3; do
	seed_script "late$n" <<<"[[ -e $work/tried$n ]] || { touch $work/tried$n; exit 1; }"
done

expect_pass test/run.sh "e2e=$work/good.sh" "e2e=$work/none.sh" "stress=$work/good.sh"
expect_line 'skip .*: because'
expect_end '0 needed a second try' '2 passed, 0 failed, 1 skipped'
expect_line '3 distinct tests: 3 built once'
seed_script part <<<'echo "no such tool" >>"$TEST_LEFT_OUT"'
expect_pass test/run.sh "e2e=$work/part.sh"
expect_line 'skip .*part, in part .*: no such tool'
expect_line '1 distinct tests: 1 built once'
expect_end '0 needed a second try' '1 passed, 0 failed, 1 skipped'
expect_fail 'does not allow' env SPANPROF_TEST_TRIES=1 test/run.sh "e2e=$work/part.sh"
expect_fail '| why' test/run.sh "e2e=$work/bad.sh"
expect_line 'failed: e2e  .*bad: exit 3, then 3: why'
expect_line '0 passed, 1 failed, 0 skipped'

expect_pass test/run.sh "e2e=$work/late1.sh" "matrix=$work/late2.sh" "e2e=$work/good.sh"
expect_end '2 needed a second try: .*late[12] .*late[12]' '3 passed, 0 failed, 0 skipped'
rm "$work"/tried*

# Two scripts that wait for each other pass only in parallel; a script that runs alone is never beside another one,
# nor a program beside a script.
seed_script here <<<"touch $work/here; for _ in {1..200}; do [[ ! -e $work/there ]] || exit 0; sleep 0.05; done; exit 1"
seed_script there <<<"touch $work/there; for _ in {1..200}; do [[ ! -e $work/here ]] || exit 0; sleep 0.05; done; exit 1"
for kinds in 'e2e matrix' 'gate stress' 'stress stress'; do
	expect_pass test/run.sh "${kinds% *}=$work/here.sh" "${kinds#* }=$work/there.sh"
	rm "$work/here" "$work/there"
done
seed_script computes <<<"touch $work/computes; sleep 0.2; rm $work/computes"
seed_script script <<<"[[ ! -e $work/computes ]] && sleep 0.2 && [[ ! -e $work/computes ]]"
expect_pass env SPANPROF_TEST_TRIES=1 test/run.sh "e2e=$work/script.sh" "stress=$work/computes.sh" "matrix=$work/script.sh"
for n in 1 2; do
	seed_script "apart$n" <<<"# Runs alone: it says so.
mkdir $work/alone && sleep 0.2 && rmdir $work/alone"
	seed_script "beside$n" <<<"[[ ! -e $work/alone ]] && sleep 0.2 && [[ ! -e $work/alone ]]"
done
expect_pass env SPANPROF_TEST_TRIES=1 test/run.sh "e2e=$work/beside1.sh" "e2e=$work/apart1.sh" "matrix=$work/beside2.sh" \
	"matrix=$work/apart2.sh"
expect_end '0 needed a second try' '4 passed, 0 failed, 0 skipped'
# A test that takes its time runs while another test runs alone: in the scheduler's class for idle work, and only one
# such test at a time. Afterwards such tests run like the others.
seed_script waits <<<"# Runs alone: it says so.
for _ in {1..200}; do [[ ! -e $work/there ]] || exit 0; sleep 0.05; done; exit 1"
seed_script patient <<<"# Takes its time: it says so.
chrt -p \$\$ | grep -q SCHED_IDLE && touch $work/there"
for kind in gate e2e; do
	expect_pass test/run.sh "$kind=$work/patient.sh" "e2e=$work/waits.sh"
	rm "$work/there"
done
seed_script fails <<<"mkdir $work/first && sleep 0.2 && rmdir $work/first && exit 1"
seed_script counts <<<"[[ ! -e $work/first ]] && echo >>$work/counted"
expect_fail 'exit 1' test/run.sh gate="$work"/{fails,counts,counts,counts}.sh "e2e=$work/apart1.sh"
expect_line '4 passed, 1 failed, 0 skipped'
(($(wc -l <"$work/counted") == 3)) || { echo "not each ran, or not one after the other"; exit 1; }
expect_fail 'exit 3' env SPANPROF_TEST_TRIES=1 test/run.sh "e2e=$work/bad.sh" "matrix=$work/none.sh" "e2e=$work/late1.sh"
expect_line 'failed: e2e  .*late1: exit 1'
expect_end '0 needed a second try' '0 passed, 3 failed, 0 skipped'
expect_line 'failed: matrix  .*none: skipped, which test/skips does not allow: because'
printf '# %s\n' 'matrix *' >"$work/skips"
echo 'e2e *none: bec*' >>"$work/skips"
expect_fail 'does not allow' env SPANPROF_TEST_TRIES=1 SPANPROF_TEST_SKIPS="$work/skips" test/run.sh \
	"e2e=$work/none.sh" "matrix=$work/none.sh"
expect_line '0 passed, 1 failed, 1 skipped'
rm "$work"/tried*

expect_fail unsteady test/run.sh "e2e=$work/late1.sh" "e2e=$work/late2.sh" "matrix=$work/late3.sh"
expect_end '3 needed a second try: .*' '3 passed, 1 failed, 0 skipped'
rm "$work"/tried*
for kind in gate stress; do
	expect_fail 'exit 1' test/run.sh "$kind=$work/late1.sh"
	rm "$work"/tried*
done

seed_tap units <<<'1..3
ok - a::one  (0.01s)
not ok - a::two  (0.02s)
ok - a::three # SKIP no kernel for it  (0.00s)'
expect_fail a::two test/run.sh "unit=$work/units.sh"
expect_line '1 passed, 1 failed, 1 skipped'
seed_tap half <<<'1..3
ok - a::one  (0.01s)'
expect_fail '1 of 3 tests reported' test/run.sh "unit=$work/half.sh"
expect_line '1 passed, 1 failed, 0 skipped'
seed_script dead <<<"[[ -e $work/tried ]] || { touch $work/tried; kill -SEGV \$\$; }
printf '1..1\nok - a::one  (0.01s)\n' >\"\${1#--tap=}\""
expect_pass test/run.sh "unit=$work/dead.sh"
expect_end '1 needed a second try: .*dead.*' '1 passed, 0 failed, 0 skipped'
rm "$work/tried"

# In CI a test that fails counts as failed, even if the runner's variables say otherwise.
mkdir "$work/bin"
cat >"$work/bin/make" <<MAKE
#!/bin/bash
case \$1 in
test) \$MAKE_TRIES test/run.sh "e2e=$work/good.sh" \$MAKE_TESTS ;;
lint) echo 'lint: clean' ;;
mutants) exit "\${MAKE_MUTANTS-0}" ;;
esac
MAKE
chmod +x "$work/bin/make"
# ci [VARIABLE=VALUE]...: a stand-in for make has its three targets.
ci()
{
	env PATH="$work/bin:$PATH" MAKE_TRIES=env MAKE_TESTS= "$@" bash .ci/run
}
expect_pass ci
expect_end '0 needed a second try' '3 passed, 0 failed, 0 skipped'
expect_fail 'exit 1' ci MAKE_TESTS="e2e=$work/late1.sh"
expect_end '0 needed a second try' '3 passed, 1 failed, 0 skipped'
rm "$work/tried1"
expect_fail 'exit 139' ci MAKE_TESTS="unit=$work/dead.sh"
rm "$work/tried"
expect_fail 'not ok  second tries' ci MAKE_TESTS="e2e=$work/late1.sh" \
	MAKE_TRIES='env SPANPROF_TEST_TRIES=2'
expect_end '1 needed a second try: .*late1' '4 passed, 1 failed, 0 skipped'
expect_fail 'exit 3' ci MAKE_TESTS="e2e=$work/bad.sh"
expect_fail 'not ok  mutants' ci MAKE_MUTANTS=1
expect_end '0 needed a second try' '2 passed, 1 failed, 0 skipped'
