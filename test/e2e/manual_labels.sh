#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program's own labels (spanprof.h) are on its samples, in every kind of object, beside and inside spans. Without us
# the same program runs, and its pushes return that there is no profiler.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
export SPANPROF_SAMPLE_RATE=500

# under NAME [VARIABLE=VALUE]... COMMAND...: runs it; NAME.json has the samples.
under()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" "$@"
	expect_rc "$name" 21
	report "$WORK/$name" "$WORK/$name.json"
}

# labelled NAME SPAN_ID SPAN_NAME [PIECE]: the CPU time of the pieces of work with that name. The first and the last
# sample may belong partly to other work.
labelled()
{
	local worked sum="sum(s['ns'] for s in d['spans'] if s['span_id'] == '$2' and s['span_name'] == '$3')"

	worked=$(awk -v name="${4-$3}" '$1 == "worked" { ns = $2; sub(/^[^ ]+ [^ ]+ /, ""); if ($0 == name) sum += ns }
		END { print sum }' "$WORK/$1.out")
	expect "$WORK/$1.json" "$worked * 0.5 < $sum < $worked * 1.5"
}

# names NAME SPAN_NAME...: the samples have these names and no others, except a sample between two calls.
names()
{
	local name=$1 wanted

	shift
	wanted=$(printf "'%s', " "$@")
	expect "$WORK/$name.json" "sorted({s['span_name'] for s in d['spans']
		if s['span_name'] and s['samples'] > 1}) == sorted([$wanted])"
}

for kind in pie exec cxx noplt libplugin.so; do
	program=("$HOSTS/labels_$kind")
	[[ $kind != libplugin.so ]] || program=("$HOSTS/labels_opener" "${program[@]}")
	run "$kind.plain" "${program[@]}" alone
	expect_rc "$kind.plain" 21
	[[ $(grep -c '^push .*: Function not implemented$' "$WORK/$kind.plain.out") == 13 ]] ||
		fail "$kind: found although absent"
	under "$kind" "${program[@]}" alone
	expect_silent "$kind"
	[[ $(grep -c '^push .*: Success$' "$WORK/$kind.out") == 2 ]] || fail "$kind: pushes"
	[[ $(grep -c '^push .*: Invalid argument$' "$WORK/$kind.out") == 11 ]] || fail "$kind: bad ids"
	labelled "$kind" 00f067aa0ba902b7 outer
	labelled "$kind" 00f067aa0ba902b8 inner
	labelled "$kind" 00f067aa0ba902b9 block
	if [[ $kind == cxx ]]; then
		grep -q '^scoped: Success$' "$WORK/$kind.out" || fail "the class"
		labelled "$kind" 00f067aa0ba902bc scoped
		names "$kind" outer inner block scoped
	else
		names "$kind" outer inner block
	fi
done

# The object is unreachable, or switched off.
run_under static "$HOSTS/labels_static" alone
run_under off SPANPROF_DISABLED=true "$HOSTS/labels_pie" alone
for name in static off; do
	expect_rc "$name" 21
	if grep '^push .*: Success' "$WORK/$name.out"; then
		fail "$name: somebody answers"
	fi
done

# A sample belongs to the innermost label or span.
under all SPANPROF_SPAN_ID_SCOPE=all SPANPROF_SPAN_NAME_SCOPE=all FIXTURE_SPANS="$WORK/all.spans" \
	"$HOSTS/labels" spans
names all 'in span' 'span of span' around 'span inside'
labelled all 00f067aa0ba902ba 'in span'
labelled all 00f067aa0ba902bb around
id=$(sed -n 's/.*"name":"span of span".*"span_id":"\([0-9a-f]*\)".*/\1/p' "$WORK/all.spans")
labelled all "$id" 'span of span'

# With scope root, a span has the same root as without labels, and a label is its own root.
under root FIXTURE_SPANS="$WORK/root.spans" "$HOSTS/labels" spans
names root 'in span' 'span outside' around 'span inside'
labelled root 00f067aa0ba902ba 'in span'
labelled root 00f067aa0ba902bb around
id=$(sed -n 's/.*"name":"span outside".*"span_id":"\([0-9a-f]*\)".*/\1/p' "$WORK/root.spans")
labelled root "$id" 'span outside' 'span of span'
# a label inside a span belongs to the span's trace
trace=$(sed -n 's/.*"name":"span outside","trace_id":"\([0-9a-f]*\)".*/\1/p' "$WORK/root.spans")
expect "$WORK/root.json" "{s['trace_id'] for s in d['spans'] if s['span_name'] == 'in span'} == {'$trace'}"

# Thousands of superfluous pushes lose labels, which is reported, but no span.
under leak "$HOSTS/labels" leak
names leak after 'balanced again'
labelled leak 00f067aa0ba902b9 'balanced again'
id=$(ask "$WORK/leak.json" "next(s['span_id'] for s in d['spans'] if s['span_name'] == 'after')")
labelled leak "$id" after
grep -q 'spanprof\[.*labels or scopes were nested too deep' "$WORK/leak.err" || fail "a loss that is not told"
