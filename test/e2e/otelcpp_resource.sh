#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A service that is named in code, as is usual in C++: profiles go to where the spans do. A variable wins,
# and if the two differ that is said once.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

need curl python3
double_start --ack-delay 0
readonly ADDRESS=PYROSCOPE_SERVER_ADDRESS=$DOUBLE_URL

# push NAME BUILD VARIABLE...
push()
{
	local name=$1 build=$2

	shift 2
	run_under "$name" "$ADDRESS" STORY_SERVICE="$name" "$@" \
		"$TEST_LIBS/otelcpp/$build/stories" nested 40
	expect_rc "$name" 0
}

# series SERVICE FILE
series()
{
	double_query Series "{\"matchers\":[\"{service_name=\\\"$1\\\"}\"],\"labelNames\":[\"service_namespace\",\"service_version\"]}" \
		"$2"
}

readonly WHOLE='[sorted((x["name"], x["value"]) for x in s["labels"]) for s in d["labelsSet"]]'
# By name, in slots, by type information; nostd and STL.
for build in debian bsymbolic v2_stl17 static_v1 static_v2 static_nopie; do
	push "shop-$build" "$build"
	expect_silent "shop-$build"
	series "shop-$build" "$WORK/series.json"
	expect "$WORK/series.json" \
		"$WHOLE == [[('service_namespace', 'town'), ('service_version', '1,2=3 %')]]"
done

for build in debian static_v1; do
	for variable in OTEL_SERVICE_NAME=other SPANPROF_PROFILE=always; do
		push "named-$build" "$build" "$variable" OTEL_RESOURCE_ATTRIBUTES=service.version=9
		[[ $(grep -c '^spanprof\[' "$WORK/named-$build.err") == 1 ]] || fail "$build: not one message"
		grep -E "profiles have the service \"(other|unknown_service:stories)\", the spans of the program \"named-$build\"" \
			"$WORK/named-$build.err" || fail "$build: not told"
	done
	push "same-$build" "$build" OTEL_SERVICE_NAME="same-$build"
	expect_silent "same-$build"
done
series other "$WORK/series.json"
expect "$WORK/series.json" "$WHOLE == [[('service_namespace', 'town'), ('service_version', '9')]]"

# A program that does not name its service has no name for profiles either.
run_under nameless "$ADDRESS" "$TEST_LIBS/otelcpp/debian/stories" nested 40
expect_rc nameless 0
expect_silent nameless
series unknown_service:stories "$WORK/series.json"
expect "$WORK/series.json" 'd["labelsSet"] != []'

# The line at the start names the SDK's release.
version=$(sed -n 's/.*OPENTELEMETRY_VERSION "\(.*\)"/\1/p' /usr/include/opentelemetry/version.h)
run_under release "$ADDRESS" SPANPROF_LOG_LEVEL=info "$TEST_LIBS/otelcpp/debian/stories" nested 40
grep -E "profiling .*; SDK opentelemetry-cpp, ABI v1, release ${version:?} in .*/libopentelemetry_trace" \
	"$WORK/release.err" || fail "the release is not told: $(<"$WORK/release.err")"
