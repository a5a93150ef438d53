#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A service that is named in code, as is usual in C++: profiles have the same service as the spans, whatever
# OpenTelemetry's own variables say, as in the SDK. A variable of ours wins, and if the two differ one message says
# so.
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
# SDKs that are found by name, by slots, by type information; nostd and STL.
for build in conformance/{debian,bsymbolic,v2_stl17}/lazy otelcpp/static_{v1,v2,nopie}/stories; do
	service=shop-$(basename "${build%/*}")
	push "$service" "$build"
	expect_silent "$service"
	series "$service" "$WORK/series.json"
	expect "$WORK/series.json" \
		"$WHOLE == [[('service_namespace', 'town'), ('service_version', '1,2=3 %')]]"
done

# says NAME TEXT: the status of that run has this text about services.
says()
{
	expect "$WORK/$1.json" "[p['text'] for p in d['problems'] if 'service' in p['text']] == $2"
}

for build in conformance/debian/lazy otelcpp/static_v1/stories; do
	program=${build##*/}
	for variable in SPANPROF_APPLICATION_NAME=other SPANPROF_PROFILE=always; do
		push "named-$program" "$build" "$variable" SPANPROF_STATUS_FILE="$WORK/named-$program.json"
		[[ $(grep -c '^spanprof\[' "$WORK/named-$program.err") == 1 ]] || fail "$program: not one message"
		grep -E "profiles have the service \"(other|unknown_service:$program)\", the spans of the program \"named-$program\"" \
			"$WORK/named-$program.err" || fail "$program: not told"
		profiles=other
		[[ $variable == SPANPROF_APPLICATION_NAME=* ]] || profiles=unknown_service:$program
		says "named-$program" "['the profiles have the service \"$profiles\", the spans \"named-$program\"']"
	done
	push "code-$program" "$build" OTEL_SERVICE_NAME=env OTEL_RESOURCE_ATTRIBUTES=service.version=9,service.name=env \
		SPANPROF_STATUS_FILE="$WORK/code-$program.json"
	expect_silent "code-$program"
	says "code-$program" "['the environment names the service \"env\", but the program gives its SDK the name \"code-$program\", which its spans and profiles have']"
	series "code-$program" "$WORK/series.json"
	expect "$WORK/series.json" "$WHOLE == [[('service_namespace', 'town'), ('service_version', '1,2=3 %')]]"
	push "same-$program" "$build" OTEL_SERVICE_NAME="same-$program" SPANPROF_STATUS_FILE="$WORK/same-$program.json"
	expect_silent "same-$program"
	says "same-$program" '[]'
done
series other "$WORK/series.json"
expect "$WORK/series.json" "$WHOLE == [[('service_namespace', 'town'), ('service_version', '1,2=3 %')]]"
series env "$WORK/series.json"
expect "$WORK/series.json" 'not d.get("labelsSet")'
# Attributes that the program does not set in its code come from the variable.
push beside conformance/debian/lazy OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=p SPANPROF_RESOURCE_LABELS=k8s.pod.name,service.version
double_query Series '{"matchers":["{service_name=\"beside\"}"],"labelNames":["service_version","k8s_pod_name"]}' "$WORK/series.json"
expect "$WORK/series.json" "$WHOLE == [[('k8s_pod_name', 'p'), ('service_version', '1,2=3 %')]]"

# Several threads start their first spans at once: while one reads the resource, another may start sampling. Each step
# of the reading takes a millisecond here.
need strace
mkdir "$WORK/at-once"
run at-once strace -f -qq -o /dev/null -e trace=rt_sigprocmask -e inject=rt_sigprocmask:delay_enter=1000 \
	-E LD_PRELOAD="$PRELOAD" -E "$ADDRESS" -E STORY_SERVICE=at-once "$TEST_LIBS/conformance/debian/lazy" \
	--story "first spans at once" --samples 1 "$WORK/at-once"
expect_rc at-once 7
# On a busy machine the steps may take longer than other threads wait for a start, which is reported.
sed -i '/another thread was still setting sampling up$/d' "$WORK/at-once.err"
expect_silent at-once

# A program that does not name its service has no name in its profiles either.
tell_here nameless "$TEST_LIBS/conformance/debian/lazy"
expect_silent nameless
series unknown_service:lazy "$WORK/series.json"
expect "$WORK/series.json" 'd["labelsSet"] != []'

# The line at the start names the SDK's release.
version=$(sed -n 's/.*OPENTELEMETRY_VERSION "\(.*\)"/\1/p' /usr/include/opentelemetry/version.h)
tell_here release SPANPROF_LOG_LEVEL=info "$TEST_LIBS/conformance/debian/lazy"
grep -E "profiling .*; SDK opentelemetry-cpp, ABI v1, release ${version:?} in .*/libopentelemetry_trace" \
	"$WORK/release.err" || fail "the release is not told: $(<"$WORK/release.err")"
