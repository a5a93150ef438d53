# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# Common parts of the scripts of this folder, besides test/e2e/lib.bash: a product that fetch.sh has downloaded, a
# receiver of its spans, and its row of the table.
TEST_RUN_LIMIT_S=${TEST_RUN_LIMIT_S:-250}
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

readonly PRODUCTS=$ROOT/build/products
readonly SPANS=$WORK/spans.json
readonly REFUSED=$WORK/refused
readonly PROFILES=$WORK/profiles

# get PRODUCT: sets PRODUCT and VERSION, or skips if it cannot be downloaded.
get()
{
	PRODUCT=$PRODUCTS/$1
	mkdir -p "$PRODUCT"
	timeout 250 bash test/products/fetch.sh "$1" "$PRODUCT" >"$WORK/fetch" 2>&1 ||
		skip "$1 cannot be had: $(tail -n 1 "$WORK/fetch")"
	VERSION=$(<"$PRODUCT/version")
	rm -f "$PRODUCT/row"
}

# in_root: sets INSIDE to the loader of $PRODUCT/root, which runs a program with the libraries there.
in_root()
{
	local root=$PRODUCT/root usr=$PRODUCT/root/usr/lib/x86_64-linux-gnu

	INSIDE=("$(find "$root" -path '*lib64/ld-linux-x86-64.so.2' | head -n 1)" --library-path
		"$usr:$root/lib/x86_64-linux-gnu:$usr/blas:$usr/lapack")
}

# Starts a receiver. Sets COLLECTOR, its address; the spans go to $SPANS.
receive()
{
	python3 test/products/receiver.py "$WORK/port" "$SPANS" "$REFUSED" &
	STARTED+=("$!")
	disown
	poll_until 30 test -s "$WORK/port" || fail "the receiver does not start"
	COLLECTOR=http://127.0.0.1:$(<"$WORK/port")
}

# expect_spans: there are spans, and the receiver refused none.
expect_spans()
{
	[[ ! -s $REFUSED ]] || fail "a receiver would refuse: $(head -n 3 "$REFUSED")"
	[[ -s $SPANS ]] || fail "no span came"
}

# The numbers differ by at most that many percent of the second one.
within()
{
	local what=$1 got=$2 wanted=$3 percent=$4

	echo "$what: $got, the program says $wanted"
	awk -v a="$got" -v b="$wanted" -v p="$percent" 'BEGIN { d = a - b; exit !(b > 0 && (d < 0 ? -d : d) * 100 <= p * b) }' ||
		fail "$what: $got, but the program says $wanted"
}

# allocated FOLDER: the program's allocated bytes, for a row with sampled allocations.
allocated()
{
	[[ ${TEST_ALLOC:-} == 1 ]] || return 0
	build/spanprof-report --json --type alloc_space "$1" >"$WORK/allocated.json"
	ask "$WORK/allocated.json" '"; %d MiB allocated, %.1f %% of it in spans" % (d["total"]["bytes"] >> 20,
		100.0 * d["labelled"]["bytes"] / d["total"]["bytes"])'
}

# row NAME REPORT TRUTH: the product's line in the table of README.md. The SDK itself reports its version.
row()
{
	local name=$1 report=$2 truth=$3 sdk line

	sdk=$(head -n 1 "$SPANS" | python3 -c 'import json, sys; print(json.load(sys.stdin)["sdk"])')
	line="| $name $VERSION${TEST_ALLOC:+ with \`SPANPROF_ALLOC\`} | $sdk | $(wc -l <"$SPANS") | $(ask "$report" 'd["total"]["samples"]') | \
$(ask "$report" '"%.1f %%" % (100.0 * d["labelled"]["ns"] / d["total"]["ns"])') | $truth |"
	echo "$line"
	echo "$line" >>"$PRODUCT/row"
}
