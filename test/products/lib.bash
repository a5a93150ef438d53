# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# What the scripts of this folder share, beside all of test/e2e/lib.bash: a product as fetch.sh leaves it, a receiver
# of its spans, and its row of the table.
TEST_RUN_LIMIT_S=${TEST_RUN_LIMIT_S:-250}
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly PRODUCTS=$ROOT/build/products
readonly SPANS=$WORK/spans.json
readonly REFUSED=$WORK/refused
readonly PROFILES=$WORK/profiles

# get PRODUCT: sets PRODUCT and VERSION, or skips, where it cannot be had.
get()
{
	PRODUCT=$PRODUCTS/$1
	mkdir -p "$PRODUCT"
	timeout 250 bash test/products/fetch.sh "$1" "$PRODUCT" >"$WORK/fetch" 2>&1 ||
		skip "$1 cannot be had: $(tail -n 1 "$WORK/fetch")"
	VERSION=$(<"$PRODUCT/version")
	rm -f "$PRODUCT/row"
}

# in_root: sets INSIDE to the loader of $PRODUCT/root, which runs a program on the libraries there.
in_root()
{
	local root=$PRODUCT/root usr=$PRODUCT/root/usr/lib/x86_64-linux-gnu

	INSIDE=("$(find "$root" -path '*lib64/ld-linux-x86-64.so.2' | head -n 1)" --library-path
		"$usr:$root/lib/x86_64-linux-gnu:$usr/blas:$usr/lapack")
}

# Sets COLLECTOR, where spans may be sent; they come to $SPANS.
receive()
{
	python3 test/products/receiver.py "$WORK/port" "$SPANS" "$REFUSED" &
	STARTED+=("$!")
	disown
	poll_until 30 test -s "$WORK/port" || fail "the receiver does not start"
	COLLECTOR=http://127.0.0.1:$(<"$WORK/port")
}

# expect_spans: some came, and the receiver refused nothing.
expect_spans()
{
	[[ ! -s $REFUSED ]] || fail "a receiver would refuse: $(head -n 3 "$REFUSED")"
	[[ -s $SPANS ]] || fail "no span came"
}

# They differ by no more than so many percent of the second.
within()
{
	local what=$1 got=$2 wanted=$3 percent=$4

	echo "$what: $got, the program says $wanted"
	awk -v a="$got" -v b="$wanted" -v p="$percent" 'BEGIN { d = a - b; exit !(b > 0 && (d < 0 ? -d : d) * 100 <= p * b) }' ||
		fail "$what: $got, but the program says $wanted"
}

# allocated FOLDER: what the program has allocated, for the row of one whose allocations are sampled.
allocated()
{
	[[ ${TEST_ALLOC:-} == 1 ]] || return 0
	build/spanprof-report --json --type alloc_space "$1" >"$WORK/allocated.json"
	ask "$WORK/allocated.json" '"; %d MiB allocated, %.1f %% of it in spans" % (d["total"]["bytes"] >> 20,
		100.0 * d["labelled"]["bytes"] / d["total"]["bytes"])'
}

# row NAME REPORT TRUTH: a line of the product in the table in README.md. Its SDK says itself which one it is.
row()
{
	local name=$1 report=$2 truth=$3 sdk line

	sdk=$(head -n 1 "$SPANS" | python3 -c 'import json, sys; print(json.load(sys.stdin)["sdk"])')
	line="| $name $VERSION${TEST_ALLOC:+ with \`SPANPROF_ALLOC\`} | $sdk | $(wc -l <"$SPANS") | $(ask "$report" 'd["total"]["samples"]') | \
$(ask "$report" '"%.1f %%" % (100.0 * d["labelled"]["ns"] / d["total"]["ns"])') | $truth |"
	echo "$line"
	echo "$line" >>"$PRODUCT/row"
}
