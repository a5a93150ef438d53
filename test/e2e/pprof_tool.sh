#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Go's pprof tool reads every profile that we write and finds its labels and functions.
# Takes its time: it reads the contents of profiles.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need go
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off PPROF_TMPDIR=$WORK
timeout 120 go tool pprof -h >/dev/null 2>&1 || [[ $? == 2 ]] || skip "go has no pprof tool here"

mkdir "$WORK/profiles"
run_under spans SPANPROF_OUTPUT_DIR="$WORK/profiles" SPANPROF_UPLOAD_INTERVAL=500ms \
	SPANPROF_SAMPLE_RATE=250 OTELC_SPANS_JSON="$WORK/spans" "$HOSTS/spans" 1500
expect_rc spans 0

n=0
while read -r profile; do
	timeout 60 go tool pprof -raw -symbolize=none "$profile" >"$WORK/raw" 2>"$WORK/raw.err" || {
		cat "$WORK/raw.err" >&2
		fail "pprof refuses $profile"
	}
	grep -q '^Samples:' "$WORK/raw" || fail "no samples in $profile"
	cat "$WORK/raw" >>"$WORK/all.raw"
	n=$((n + 1))
done < <(profiles_in "$WORK/profiles")
((n >= 2)) || fail "$n profiles in three intervals"

for label in 'span_id:\[[0-9a-f]{16}\]' 'span_name:\[(checkout|search)\]' 'trace_id:\[[0-9a-f]{32}\]'; do
	grep -Eq "$label" "$WORK/all.raw" || fail "no label like $label"
done
# Functions of the program, of the C library, and of libstdc++.
for function in work_checkout work_charge work_search host_burn_ms burn_tree run_checkouts \
	qsort 'std::_Rb_tree_insert_and_rebalance'; do
	grep -Fq " $function" "$WORK/all.raw" || {
		grep -E '^ +[0-9]+: 0x' "$WORK/all.raw" | awk '{ print $4 }' | sort | uniq -c |
			sort -rn | head -40 >&2
		fail "no function $function"
	}
done

# Files and lines of the program, and inlined functions.
grep -Eq ' work_checkout .*/test/hosts/spans.c:[1-9][0-9]*[: ]' "$WORK/all.raw" ||
	fail "work_checkout has no line"
grep -Eq '^ {12,}run_searches .*spans.c:[1-9]|^ {12,}burn_tree .*burn.cc:[1-9]' "$WORK/all.raw" ||
	fail "nothing inlined into the functions of the program"
grep -Eq '^1: .*/spans [0-9a-f]{40} \[FN\]\[FL\]\[LN\]\[IN\]' "$WORK/all.raw" ||
	fail "the program's mapping does not say what it has"

# Names that the server will find: ELF addresses, one mapping per object, no functions.
mkdir "$WORK/off"
run_under off SPANPROF_SYMBOLIZE=off SPANPROF_OUTPUT_DIR="$WORK/off" SPANPROF_UPLOAD_INTERVAL=30s \
	SPANPROF_SAMPLE_RATE=250 OTELC_SPANS_JSON="$WORK/spans" "$HOSTS/spans" 500
expect_rc off 0
n=0
while read -r profile; do
	timeout 60 go tool pprof -raw -symbolize=none "$profile" >"$WORK/raw"
	[[ $(grep -c '/spans ' "$WORK/raw") == 1 ]] || fail "not one mapping of the program"
	if grep -q 'work_checkout' "$WORK/raw"; then
		fail "a name with SPANPROF_SYMBOLIZE=off"
	fi
	start=$(nm "$HOSTS/spans" | awk '$3 == "work_checkout" { print $1 }')
	size=$(nm -S "$HOSTS/spans" | awk '$4 == "work_checkout" { print $2 }')
	while read -r address; do
		if ((address >= 16#$start && address < 16#$start + 16#$size)); then
			n=$((n + 1))
		fi
	done < <(sed -nE 's/^ +[0-9]+: (0x[0-9a-f]+) M=1 *$/\1/p' "$WORK/raw")
done < <(profiles_in "$WORK/off")
((n > 0)) || fail "no ELF address inside work_checkout"
