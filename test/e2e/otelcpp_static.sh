#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# opentelemetry-cpp without a symbol: linked statically into the program, hidden and stripped, at any address or at a
# fixed one, and in plugins that export one function. If the layout is unknown, the SDK is left alone.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3 nm
without_symbols()
{
	if nm -D "$1" | grep -E '_Z(N|TV)[A-Z0-9]*13opentelemetry' >/dev/null ||
		nm "$1" 2>/dev/null | grep . >/dev/null; then
		fail "$1 has symbols"
	fi
}

# test/conformance and test/forms run each story. Here is one story, with the messages about the SDK.
for build in static_v1 static_v2 static_nopie; do
	host=$TEST_LIBS/otelcpp/$build/stories
	without_symbols "$host"
	tell "$build" 'started beside an active span' SPANPROF_STATUS_FILE="$WORK/status" "$host"
	expect_told "$build"
	expect "$WORK/status" \
		'[(s["object"], s["instances"]) for s in d["sdks"]] == [("the program", 1)]'
	expect "$WORK/status" 'd["sdks"][0]["method"].endswith("by run-time type information")'
	tell "$build.unsampled" unsampled "$host"
	expect_told "$build.unsampled"
done

# The program asks the SDK for nothing. So the SDK is found when it draws the id of its first span, which has begun by
# then.
readonly DECLARED=$TEST_LIBS/otelcpp/static_declared/stories
without_symbols "$DECLARED"
nm -D "$DECLARED" | grep ' U __register_atfork' >/dev/null || fail "it has no function for forked children"
tell declared nested SPANPROF_STATUS_FILE="$WORK/status" "$DECLARED"
expect "$WORK/status" \
	'[(s["object"], s["instances"], s["spans_started"] > 0) for s in d["sdks"]] == [("the program", 1, True)]'

# A class with more functions than any release has: nothing is hooked, and that is reported once.
tell foreign.under nested "$TEST_LIBS/otelcpp/static_foreign/stories"
[[ $(grep -c . "$WORK/foreign.under.err") == 1 ]] || fail "not one message: $(<"$WORK/foreign.under.err")"
grep 'opentelemetry-cpp, ABI v1: .*not understood: its spans are not profiled' \
	"$WORK/foreign.under.err" >/dev/null || fail "not told: $(<"$WORK/foreign.under.err")"

# Without type information the SDK cannot be found. That is a plain fact, so there is no warning.
readonly NORTTI=$TEST_LIBS/otelcpp/static_nortti/stories
tell nortti.under nested "$NORTTI"
expect_silent nortti.under
tell nortti.info nested SPANPROF_LOG_LEVEL=info "$NORTTI"
grep -xE 'spanprof\[[0-9]+\]: no supported OpenTelemetry SDK was found, although the program .*' \
	"$WORK/nortti.info.err" || fail "not said: $(<"$WORK/nortti.info.err")"
[[ $(wc -l <"$WORK/nortti.info.err") == 1 ]] || fail "more than said: $(<"$WORK/nortti.info.err")"
for sdk in conformance/debian/lazy otelcpp/static_v1/stories; do
	tell "known.${sdk##*/}" nested SPANPROF_LOG_LEVEL=info "$TEST_LIBS/$sdk"
	if grep 'no supported OpenTelemetry SDK' "$WORK/known.${sdk##*/}.err"; then
		fail "$sdk has one"
	fi
done
for name in foreign.under nortti.under nortti.info; do
	[[ -z $(profiles_in "$WORK/$name.d") ]] || fail "an unknown SDK was profiled"
done

# When switched off, nothing is searched, so nothing is reported.
tell off nested SPANPROF_DISABLED=true "$TEST_LIBS/otelcpp/static_foreign/stories"
expect_silent off

# Two SDKs in plugins, one of which is unloaded and loaded again.
for copy in copy_c copy_d; do
	without_symbols "$TEST_LIBS/otelcpp/$copy/plugin.so"
done
for story in nested 'held by its scope'; do
	tell "${story%% *}" "$story" "$TEST_LIBS/conformance/opener" --turns \
		--plugin "$TEST_LIBS/otelcpp/copy_c/plugin.so" --second "$TEST_LIBS/otelcpp/copy_d/plugin.so"
	expect_told "${story%% *}"
done
