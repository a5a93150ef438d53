#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A program's own labels (spanprof.h) are on its samples, in every kind of object, beside and inside
# spans; without us the same program runs and its pushes say that nobody is there.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3
# Of PIECE_MS in test/hosts/labels.c: the rest may be lost to the first sample and the last.
readonly PIECE_NS='60e6 * 0.5'
export SPANPROF_SAMPLE_RATE=500

# under NAME [VARIABLE=VALUE]... COMMAND...: run, and NAME.json with what was sampled.
under()
{
	local name=$1

	shift
	mkdir "$WORK/$name"
	run_under "$name" SPANPROF_OUTPUT_DIR="$WORK/$name" "$@"
	expect_rc "$name" 21
	report "$WORK/$name" "$WORK/$name.json"
}

# labelled NAME SPAN_ID SPAN_NAME PIECES: that many pieces of work, and not one more.
labelled()
{
	local sum="sum(s['ns'] for s in d['spans'] if s['span_id'] == '$2' and s['span_name'] == '$3')"

	expect "$WORK/$1.json" "$4 * $PIECE_NS < $sum < ($4 + 0.9) * 60e6"
}

# names NAME SPAN_NAME...: these and no others, but for a sample that fell between two calls.
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
	labelled "$kind" 00f067aa0ba902b7 outer 2
	labelled "$kind" 00f067aa0ba902b8 inner 1
	labelled "$kind" 00f067aa0ba902b9 block 1
	if [[ $kind == cxx ]]; then
		grep -q '^scoped: Success$' "$WORK/$kind.out" || fail "the class"
		labelled "$kind" 00f067aa0ba902bc scoped 1
		names "$kind" outer inner block scoped
	else
		names "$kind" outer inner block
	fi
done

# Out of reach, and switched off: nobody is there.
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
labelled all 00f067aa0ba902ba 'in span' 1
labelled all 00f067aa0ba902bb around 1
id=$(sed -n 's/.*"name":"span of span".*"span_id":"\([0-9a-f]*\)".*/\1/p' "$WORK/all.spans")
labelled all "$id" 'span of span' 2

# Under root scope a span has the root it would have without labels, and a label itself.
under root FIXTURE_SPANS="$WORK/root.spans" "$HOSTS/labels" spans
names root 'in span' 'span outside' around 'span inside'
labelled root 00f067aa0ba902ba 'in span' 1
labelled root 00f067aa0ba902bb around 1
id=$(sed -n 's/.*"name":"span outside".*"span_id":"\([0-9a-f]*\)".*/\1/p' "$WORK/root.spans")
labelled root "$id" 'span outside' 2
# and the label in a span is work of its trace
trace=$(sed -n 's/.*"name":"span outside","trace_id":"\([0-9a-f]*\)".*/\1/p' "$WORK/root.spans")
expect "$WORK/root.json" "{s['trace_id'] for s in d['spans'] if s['span_name'] == 'in span'} == {'$trace'}"

# Thousands of pushes too many cost labels, which is told, and not a span.
under leak "$HOSTS/labels" leak
names leak after 'balanced again'
labelled leak 00f067aa0ba902b9 'balanced again' 1
expect "$WORK/leak.json" "sum(s['ns'] for s in d['spans'] if s['span_name'] == 'after') > $PIECE_NS"
grep -q 'spanprof\[.*labels or scopes were nested too deep' "$WORK/leak.err" || fail "a loss that is not told"
