#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Breaks the sources in one place at a time, and asks the tests that should notice.
#   test/mutants/run.sh [NAME...]          all mutants of the table, or those
#   test/mutants/run.sh --chosen N SEED    N mutants that choose.py draws by that seed
#   test/mutants/run.sh --check [TABLE]    only whether each still changes exactly one place
# Works in a copy of the tree, build/mutants/tree. Without names it also writes the table of README.md,
# the one of the mutants that were chosen likewise.
# Exits 0 if every mutant was killed. MUTANT_LIMIT_S is the time that one test gets (300).
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly ROOT=$PWD
readonly TABLE=test/mutants/table
readonly README=test/mutants/README.md
readonly WORK=build/mutants
readonly TREE=$WORK/tree
readonly LIMIT_S=${MUTANT_LIMIT_S:-300}

# The rows of a table, without comments: name, file, tests (by comma), what it breaks, sed expression.
rows()
{
	grep -v -e '^#' -e '^[[:space:]]*$' "$1"
}

# mutate FILE EXPRESSION: the changed text.
mutate()
{
	sed -E -e "$2" "$1"
}

# How many places differ.
places()
{
	diff -U0 "$1" - | grep -c '^@@' || true
}

check_row()
{
	local name=$1 file=$2 tests=$3 what=$4 expression=$5 n test

	if [[ -z $name || -z $tests || -z $what || -z $expression ]]; then
		echo "$name: a row has five fields with single tabs between"
		return 1
	fi
	if [[ ! -f $file ]]; then
		echo "$name: there is no $file"
		return 1
	fi
	if ! n=$(mutate "$file" "$expression" | places "$file") || [[ $n != 1 ]]; then
		echo "$name: changes ${n:-no} places of $file, not one"
		return 1
	fi
	for test in ${tests//,/ }; do
		if [[ ! -f $(source_of "$test") ]]; then
			echo "$name: there is no test $test"
			return 1
		fi
	done
}

# Where the source of a test is: unit/core/test_x, asan/unit/..., stress/x, e2e/x.
source_of()
{
	case $1 in
	e2e/*) echo "test/$1.sh" ;;
	asan/*) echo "test/${1#asan/}.c" ;;
	*) echo "test/$1.c" ;;
	esac
}

# What make has to build for it.
target_of()
{
	case $1 in
	e2e/*)
		# the others came with the copy
		echo all
		grep -o '\$HOSTS/[a-z_]*' "test/$1.sh" | sort -u | sed 's|\$HOSTS|build/test/hosts|'
		;;
	asan/*) echo "build/asan/test/${1#asan/}" ;;
	step/*) echo "build/test/$1" ;;
	*) echo "build/release/test/$1" ;;
	esac
}

check()
{
	local table=$1 name file tests what expression
	local -i bad=0 n=0

	while IFS=$'\t' read -r name file tests what expression; do
		n+=1
		check_row "$name" "$file" "$tests" "$what" "$expression" || bad+=1
	done < <(rows "$table")
	if [[ -n $(rows "$table" | cut -f1 | sort | uniq -d) ]]; then
		echo "two mutants of one name: $(rows "$table" | cut -f1 | sort | uniq -d)"
		bad+=1
	fi
	((n > 0)) || { echo "no mutants in $table"; bad+=1; }
	((bad == 0)) && echo "$n mutants apply"
}

# Builds a test of the copy. Output goes to the log.
build()
{
	local -a targets

	mapfile -t targets < <(target_of "$1")
	env -u MAKEFLAGS -u MAKELEVEL make -C "$TREE" -j"$(nproc)" --no-print-directory "${targets[@]}" \
		>"$WORK/build.log" 2>&1
}

# Runs it in a session of its own; what it leaves behind is ended. Sets KILLER when it fails: the test
# in it that failed first, as far as it says.
run_test()
{
	local test=$1 pid status=0 program
	local -a command

	program=$(target_of "$test")
	command=("$program")
	case $test in
	e2e/*) command=(bash "test/$test.sh") ;;
	unit/* | asan/*) command=("$program" "--tap=$ROOT/$WORK/tap" --jobs "$(nproc)") ;;
	esac
	rm -f "$WORK/tap"
	(cd "$TREE" && exec setsid timeout --kill-after=5 "$LIMIT_S" "${command[@]}") \
		</dev/null >"$WORK/test.log" 2>&1 &
	pid=$!
	# the shell would say on stderr that it was aborted
	{ wait "$pid" || status=$?; } 2>/dev/null
	pkill -KILL -s "$pid" 2>/dev/null || true
	KILLER=$test
	if ((status == 0 || status == 77)); then
		return 0
	fi
	if [[ -s $WORK/tap ]] && grep -q '^not ok' "$WORK/tap"; then
		KILLER+=": $(grep -m 1 '^not ok' "$WORK/tap" | awk '{ print $4 }')"
	fi
	return 1
}

# A test that kills has to pass where nothing is broken: one that fails anyway would kill every mutant.
declare -A PASSES=()
prove()
{
	local test=$1

	[[ -z ${PASSES[$test]:-} ]] || return 0
	if ! build "$test"; then
		tail -n 20 "$WORK/build.log"
		echo "$test: cannot be built"
		exit 2
	fi
	if ! run_test "$test"; then
		tail -n 20 "$WORK/test.log"
		echo "$test: fails without a mutant"
		exit 2
	fi
	PASSES[$test]=1
}

# Sets VERDICT to the killer's name, or says what went wrong.
try()
{
	local file=$1 tests=$2 expression=$3 test killed_by=

	VERDICT=survived
	mutate "$file" "$expression" >"$TREE/$file"
	for test in ${tests//,/ }; do
		if ! build "$test"; then
			VERDICT="does not build"
			break
		fi
		if ! run_test "$test"; then
			VERDICT=$KILLER
			killed_by=$test
			break
		fi
	done
	cp "$file" "$TREE/$file"
	[[ -z $killed_by ]] || prove "$killed_by"
}

# Only what differs, so that make builds no more than it must; and never with a time in the past, which
# would leave an object of an earlier mutant in place.
copy_tree()
{
	local file keep_time=()

	# The programs of the tests lean on nothing that is ours, and take long to build.
	if [[ ! -d $TREE && -d build/test ]]; then
		mkdir -p "$TREE/build"
		cp -a build/test "$TREE/build/"
		rm -rf "$TREE/build/test/logs"
		keep_time=(-p)
	fi
	mkdir -p "$TREE"
	git ls-files -c -o --exclude-standard >"$WORK/files"
	while read -r file; do
		if [[ ! -f $file ]] || cmp -s "$file" "$TREE/$file"; then
			continue
		fi
		mkdir -p "$TREE/$(dirname "$file")"
		cp "${keep_time[@]}" "$file" "$TREE/$file"
	done <"$WORK/files"
	(cd "$TREE" && find . -path ./build -prune -o -type f -printf '%P\n') |
		grep -vxFf "$WORK/files" | while read -r file; do rm "$TREE/$file"; done || true
}

# write_table WHICH FILE: between the README's marks of that name, "mutants" or "chosen".
write_table()
{
	awk -v from="^<!-- $1" -v to="^<!-- end of the $1" -v rows="$2" '
	$0 ~ from { print; while ((getline line < rows) > 0) print line; skip = 1; next }
	$0 ~ to { skip = 0 }
	!skip { print }' "$README" >"$WORK/readme"
	cat "$WORK/readme" >"$README"
}

wanted()
{
	local name=$1 each

	shift
	(($# > 0)) || return 0
	for each; do
		[[ $name == "$each" ]] && return 0
	done
	return 1
}

# run_all WHICH TABLE [NAME...]
run_all()
{
	local which=$1 table=$2 name file tests what expression
	local -i survived=0 n=0

	shift 2
	copy_tree
	printf '| mutant | file | what it breaks | killed by |\n|---|---|---|---|\n' >"$WORK/rows"
	while IFS=$'\t' read -r name file tests what expression; do
		wanted "$name" "$@" || continue
		try "$file" "$tests" "$expression"
		n+=1
		if [[ $VERDICT == survived || $VERDICT == "does not build" ]]; then
			survived+=1
			VERDICT="**$VERDICT**"
		fi
		printf '%-28s %s\n' "$name" "$VERDICT"
		printf '| %s | %s | %s | %s |\n' "$name" "$file" "${what//|/\\|}" "$VERDICT" >>"$WORK/rows"
	done < <(rows "$table")
	((n > 0)) || { echo "no such mutant"; exit 2; }
	(($# > 0)) || write_table "$which" "$WORK/rows"
	echo "$n mutants, $((n - survived)) killed, $survived not"
	((survived == 0))
}

case ${1:-} in
--check)
	check "${2:-$TABLE}"
	;;
--chosen)
	mkdir -p "$WORK"
	python3 test/mutants/choose.py "$2" "$3" >"$WORK/chosen"
	check "$WORK/chosen" || exit 2
	run_all chosen "$WORK/chosen" "${@:4}"
	;;
*)
	mkdir -p "$WORK"
	check "$TABLE" || exit 2
	run_all mutants "$TABLE" "$@"
	;;
esac
