#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writes the output of our programs and tests into the README.md of their folders:
#
#   update-readme.sh            the variables (sampler/config), and the costs of the front page
#   update-readme.sh --check    changes nothing, fails if one of these two is out of date
#   update-readme.sh --demo     runs the demo: its output and its flame graph (test/rideshare)
#   update-readme.sh --products the flame graph of the front page, from "make products" (test/products)
#   update-readme.sh --matrix   the conformance matrix, from "make matrix" (test/conformance)
#   update-readme.sh --check-matrix    fails if the matrix is out of date, also after a partial run (MATRIX_PAIRS)
#   update-readme.sh --latest   the results of "make sdk-latest" (test/sdk-latest)
#   update-readme.sh --links    the results of "make bench-links" (test/bench)
#   update-readme.sh --wait-names the results of "make bench-wait-names" (test/bench)
#   update-readme.sh --exporter the results of "make bench-exporter" (test/bench)
#   update-readme.sh --bench    the results of "make bench" (test/bench), and the costs of the front page
#
# Each text is between two comments, "<!-- NAME:begin -->" and "<!-- NAME:end -->".
set -euo pipefail
cd "$(dirname "$0")/.."

readonly FRONT=README.md
readonly CONFIG=sampler/config/README.md
readonly DEMO=test/rideshare/README.md
readonly MATRIX=test/conformance/README.md
readonly LATEST=test/sdk-latest/README.md
readonly BENCH=test/bench/README.md

# The questions of test/bench whose answers are on the front page, and its words for them.
COSTS=$(cat <<'END_OF_COSTS'
a span by default (SPANPROF_ATTRIBUTES=with-samples), 1 thread(s), of opentelemetry-cpp's own start and end|time of a span
CPU overhead of a compilation by clang at 100 Hz, sampling alone|CPU time of a busy program, sampled at 100 Hz
the exporter at 100 Hz on two busy threads, of one processor|CPU time of the exporter beside two busy threads
memory per sampled thread, the stack that its signal handler touches included|memory of each sampled thread
END_OF_COSTS
)
readonly COSTS

fail()
{
	echo "update-readme: $*" >&2
	exit 1
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# between MARKER FILE: prints FILE with $work/MARKER between the two comments
between()
{
	grep -qxF "<!-- $1:begin -->" "$2" || fail "$2 has no <!-- $1:begin -->"
	grep -qxF "<!-- $1:end -->" "$2" || fail "$2 has no <!-- $1:end -->"
	awk -v marker="$1" -v file="$work/$1" -f scripts/between.awk "$2"
}

# put MARKER FILE: writes $work/MARKER into FILE
put()
{
	between "$1" "$2" >"$work/README.md"
	cp "$work/README.md" "$2"
}

# check MARKER FILE SOURCE
check()
{
	between "$1" "$2" >"$work/README.md"
	diff -u "$2" "$work/README.md" >"$work/diff" || {
		echo "update-readme: $2 differs from what $3 says:" >&2
		cat "$work/diff" >&2
		exit 1
	}
}

# Prints the table of costs of the front page, from the table of test/bench.
make_costs()
{
	local question words figure

	{
		echo '| what | the profiler adds |'
		echo '|---|---|'
		while IFS='|' read -r question words; do
			figure=$(awk -F ' *[|] *' -v question="$question" '$2 == question { print $3 }' "$BENCH")
			[[ -n $figure ]] || fail "$BENCH has no figure for: $question"
			echo "| $words | $figure |"
		done <<<"$COSTS"
	} >"$work/costs"
}

# make_picture PAGE PICTURE: saves the upper part of a flame graph as a browser shows it.
make_picture()
{
	local browser

	for browser in chromium chromium-browser google-chrome; do
		! command -v "$browser" >/dev/null || break
	done
	"$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
		--disable-component-update --disable-sync --user-data-dir="$work/browser" --hide-scrollbars \
		--virtual-time-budget=3000 --window-size=1200,640 --screenshot="$work/picture.png" \
		"file://$PWD/$1" >/dev/null 2>&1 || fail "no Chromium here: $2 stays as it was"
	cp "$work/picture.png" "$2"
}

# make_matrix readme|promised
make_matrix()
{
	python3 test/conformance/matrix.py "$1" build/test/conformance/matrix.json >"$work/matrix"
}

case ${1-} in
'')
	build/print-config >"$work/config"
	put config "$CONFIG"
	make_costs
	put costs "$FRONT"
	;;
--check)
	build/print-config >"$work/config"
	check config "$CONFIG" build/print-config
	make_costs
	check costs "$FRONT" "$BENCH"
	;;
--demo)
	{
		echo '```text'
		test/rideshare/demo.sh 2>/dev/null | sed -n '/^span_name/,$p'
		echo '```'
	} >"$work/demo"
	put demo "$DEMO"
	make_picture build/demo/flamegraph.html test/rideshare/flamegraph.png
	;;
--products)
	make_picture build/products/mysql/flamegraph.html test/products/flamegraph.png
	;;
--matrix)
	make_matrix readme
	put matrix "$MATRIX"
	;;
--check-matrix)
	make_matrix promised
	check matrix "$MATRIX" test/conformance/matrix.py
	;;
--latest)
	latest=build/test/sdk-latest
	python3 test/conformance/matrix.py ways "$latest/latest.json" test/sdk-latest/latest.conf \
		"$(cat "$latest/version")" >"$work/sdk-latest"
	put sdk-latest "$LATEST"
	;;
--links)
	cp build/test/bench/links.md "$work/links"
	put links "$BENCH"
	;;
--wait-names)
	cp build/test/bench/wait_names.md "$work/wait-names"
	put wait-names "$BENCH"
	;;
--exporter)
	cp build/test/bench/exporter.md "$work/exporter"
	put exporter "$BENCH"
	;;
--bench)
	cp build/test/bench/answers.md "$work/bench"
	put bench "$BENCH"
	make_costs
	put costs "$FRONT"
	;;
*)
	fail "unknown option $1"
	;;
esac
