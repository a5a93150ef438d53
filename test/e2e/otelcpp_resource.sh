#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A service that is named in code, as is usual in C++: profiles go to where the spans do. A variable wins,
# and if the two differ that is said once.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need curl python3
double_start --ack-delay 0
readonly ADDRESS=PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL

# tell_here NAME [VARIABLE=VALUE]... PROGRAM
tell_here()
{
	mkdir -p "$WORK/$1"
	run_under "$1" "$ADDRESS" "${@:2}" --story nested --samples 1 "$WORK/$1"
	expect_rc "$1" 7
}

# push NAME PROGRAM VARIABLE...
push()
{
	local name=$1 build=$2

	shift 2
	tell_here "$name" STORY_SERVICE="$name" "$@" "$TEST_LIBS/$build"
}

# series SERVICE FILE
series()
{
	double_query Series "{\"matchers\":[\"{service_name=\\\"$1\\\"}\"],\"labelNames\":[\"service_namespace\",\"service_version\"]}" \
		"$2"
}

readonly WHOLE='[sorted((x["name"], x["value"]) for x in s["labels"]) for s in d["labelsSet"]]'
# By name, in slots, by type information; nostd and STL.
for build in conformance/{debian,bsymbolic,v2_stl17}/lazy otelcpp/static_{v1,v2,nopie}/stories; do
	service=shop-$(basename "${build%/*}")
	push "$service" "$build"
	expect_silent "$service"
	series "$service" "$WORK/series.json"
	expect "$WORK/series.json" \
		"$WHOLE == [[('service_namespace', 'town'), ('service_version', '1,2=3 %')]]"
done

for build in conformance/debian/lazy otelcpp/static_v1/stories; do
	program=${build##*/}
	for variable in OTEL_SERVICE_NAME=other SPANPROF_PROFILE=always; do
		push "named-$program" "$build" "$variable" OTEL_RESOURCE_ATTRIBUTES=service.version=9
		[[ $(grep -c '^spanprof\[' "$WORK/named-$program.err") == 1 ]] || fail "$program: not one message"
		grep -E "profiles have the service \"(other|unknown_service:$program)\", the spans of the program \"named-$program\"" \
			"$WORK/named-$program.err" || fail "$program: not told"
	done
	push "same-$program" "$build" OTEL_SERVICE_NAME="same-$program"
	expect_silent "same-$program"
done
series other "$WORK/series.json"
expect "$WORK/series.json" "$WHOLE == [[('service_namespace', 'town'), ('service_version', '9')]]"

# A program that does not name its service has no name for profiles either.
tell_here nameless "$TEST_LIBS/conformance/debian/lazy"
expect_silent nameless
series unknown_service:lazy "$WORK/series.json"
expect "$WORK/series.json" 'd["labelsSet"] != []'

# The line at the start names the SDK's release.
version=$(sed -n 's/.*OPENTELEMETRY_VERSION "\(.*\)"/\1/p' /usr/include/opentelemetry/version.h)
tell_here release SPANPROF_LOG_LEVEL=info "$TEST_LIBS/conformance/debian/lazy"
grep -E "profiling .*; SDK opentelemetry-cpp, ABI v1, release ${version:?} in .*/libopentelemetry_trace" \
	"$WORK/release.err" || fail "the release is not told: $(<"$WORK/release.err")"
