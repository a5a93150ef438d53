#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Viewers of other projects open every kind of file that we write, and find the same CPU time: go's pprof tool, and
# speedscope's importer from npm.
# Takes its time: it reads the contents of profiles.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need go node npm python3
readonly VERSION=1.25.0
readonly SPEEDSCOPE=$ROOT/build/tools/speedscope-$VERSION
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOPROXY=off PPROF_TMPDIR=$WORK
timeout 120 go tool pprof -h >/dev/null 2>&1 || [[ $? == 2 ]] || skip "go has no pprof tool here"

if [[ ! -d $SPEEDSCOPE ]]; then
	(cd "$WORK" && timeout 60 npm pack --silent "speedscope@$VERSION" >/dev/null 2>"$WORK/npm.err") ||
		skip "npm cannot get speedscope: $(tail -n 1 "$WORK/npm.err")"
	tar -xzf "$WORK/speedscope-$VERSION.tgz" -C "$WORK"
	mkdir -p "${SPEEDSCOPE%/*}"
	mv "$WORK/package" "$SPEEDSCOPE"
fi
bundle=$(find "$SPEEDSCOPE/dist/release" -name 'speedscope-*.js')

# make KIND VARIABLE=VALUE...: a folder of profiles in $WORK/KIND, and the report about each.
make_profiles()
{
	local kind=$1

	shift
	mkdir "$WORK/$kind"
	run_under "$kind.host" SPANPROF_OUTPUT_DIR="$WORK/$kind" SPANPROF_UPLOAD_INTERVAL=600ms \
		SPANPROF_SAMPLE_RATE=250 OTELC_SPANS_JSON=/dev/null "$@" "$HOSTS/spans" 700
	expect_rc "$kind.host" 0
}

# The CPU time of a file in pprof and speedscope must equal our own report's.
open_everywhere()
{
	local profile=$1 total

	build/spanprof-report --json "$profile" >"$WORK/report.json"
	total=$(ask "$WORK/report.json" 'd["total"]["ns"]')
	((total > 0)) || fail "$profile is empty"
	timeout 60 go tool pprof -top -nodecount=1 -unit=ns -symbolize=none "$profile" \
		>"$WORK/top" 2>"$WORK/top.err" || fail "pprof: $(<"$WORK/top.err")"
	grep -Eq "^Showing nodes accounting for .* of ${total}ns total|, 100% of ${total}ns total" "$WORK/top" ||
		fail "pprof adds up otherwise than $total: $(<"$WORK/top")"
	timeout 60 node test/tools/speedscope.js "$bundle" "$profile" >"$WORK/speedscope" ||
		fail "speedscope does not open $profile"
	grep -q "^nanoseconds $total [0-9]* 1\$" "$WORK/speedscope" ||
		fail "speedscope adds up otherwise than $total: $(head -n 1 "$WORK/speedscope")"
	cat "$WORK/speedscope" >>"$WORK/all.frames"
}

make_profiles full
make_profiles names SPANPROF_SYMBOLIZE=names
make_profiles off SPANPROF_SYMBOLIZE=off
make_profiles bare SPANPROF_SPAN_ID_SCOPE=none SPANPROF_SPAN_NAME_SCOPE=none
opened=0
for kind in full names off bare; do
	: >"$WORK/all.frames"
	while read -r profile; do
		open_everywhere "$profile"
		if ((opened == 0)); then
			gzip -dc "$profile" >"$WORK/plain.pb"
			open_everywhere "$WORK/plain.pb"
		fi
		opened=$((opened + 1))
	done < <(profiles_in "$WORK/$kind")
	[[ $kind == off ]] || grep -qx '  work_checkout' "$WORK/all.frames" ||
		fail "$kind: speedscope shows no work_checkout"
done
((opened >= 4)) || fail "only $opened profiles"
report "$WORK/full" "$WORK/full.json"
expect "$WORK/full.json" 'd["residual"]["ns"] > 0'
grep -qx '  \[unsampled cpu\]' "$WORK/all.frames" || fail "no CPU time between samples was shown"
echo "$opened profiles"
