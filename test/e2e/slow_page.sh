#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The page of slow requests (spanprof-report --slowest --page) in a real browser, if one is installed: 1,000 requests, the
# time line of one of them, its flame graph, keys, search, address. Names of a profile stay text.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need python3 curl
readonly REPORT=$TEST_BUILD/spanprof-report PAGE=$ROOT/test/e2e/slow_page.py

mkdir "$WORK/folder"
python3 "$PAGE" make "$WORK/folder"
run page "$REPORT" --slowest --page "$WORK/page.html" "$WORK/folder"
expect_rc page 0
expect_silent page
python3 "$ROOT/test/e2e/slow_times.py" lines "$WORK/page.html"
# Equal folders give equal pages.
run again "$REPORT" --slowest --page "$WORK/again.html" "$WORK/folder"
cmp "$WORK/page.html" "$WORK/again.html" || fail "two pages of one folder"
# Without times there is no time line, and the page says so.
mkdir "$WORK/without"
cp "$WORK"/folder/*.pb.gz "$WORK"/folder/*.jsonl "$WORK/without"
run without "$REPORT" --slowest=5 --page "$WORK/without.html" "$WORK/without"
expect_rc without 0
grep -q '"threads":\[\]' "$WORK/without.html" || fail "a time line of nothing"
run folder "$REPORT" --slowest --page "$WORK" "$WORK/folder"
expect_rc folder 2
run alone "$REPORT" --page "$WORK/page.html" "$WORK/folder"
expect_rc alone 1
# --serve has the same page, which asks for its data.
"$REPORT" --serve 0 "$WORK/folder" >"$WORK/said" 2>&1 </dev/null &
STARTED+=("$!")
disown "$!"
poll_until 20 grep -q '^http://127.0.0.1:[0-9]*/' "$WORK/said" || fail "it does not start: $(<"$WORK/said")"
address=$(grep -oE '^http://127.0.0.1:[0-9]+/' "$WORK/said")slow
curl -sS --noproxy '*' "$address.json" >"$WORK/served.json"
expect "$WORK/served.json" 'd["title"] == "shop: slow requests" and len(d["slow"]["requests"]) == 1000'
curl -sS --noproxy '*' "$address.json?last=1m" >"$WORK/none.json"
expect "$WORK/none.json" '"slow" not in d and d["error"].startswith("there is no slow request")'
result=0
python3 "$PAGE" look "$WORK/page.html" || result=$?
((result != 77)) || skip "there is no chromium"
((result == 0)) || fail "the page is not as it should be"
python3 "$PAGE" served "$address" || fail "the page that is served is not as it should be"
