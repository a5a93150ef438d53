#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Builds of opentelemetry-cpp that the conformance matrix does not have: one without run-time type information, one
# that never reads a variable, a program with a copy of one class of the SDK, and one that we cannot know.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash
# shellcheck source=test/common/stories.bash
source test/common/stories.bash

need python3 nm

# The class of its tracers is in the program, the class of its spans in the library: both belong to one SDK.
nm -D "$TEST_LIBS/otelcpp/own_vtable/stories" | grep ' [BDV] _ZTVN13opentelemetry2v13sdk5trace6TracerE' >/dev/null ||
	fail "no copy of the class"
cat >"$WORK/builds.conf" <<'END'
sdk nortti no type information
sdk quiet no variables
sdk quiet_bsymbolic no variables, -Bsymbolic
sdk own_vtable a copy of a class
mode stories p linked
lacks stories nortti own-class lost scopes
reason own-class without type information the storage may be of the program's own class, where scopes pile up as fibers go on elsewhere: no label then
END
grep '^reason ' test/conformance/matrix.conf >>"$WORK/builds.conf"
# In an emulator, a signal that a thread sends to itself may come late.
[[ -n ${TEST_EMULATOR:-} ]] || python3 test/conformance/matrix.py run "$SO" "$WORK/builds.json" "$WORK/builds.conf" "$TEST_LIBS/otelcpp"
for build in nortti quiet quiet_bsymbolic own_vtable; do
	tell "$build" nested "$TEST_LIBS/otelcpp/$build/stories"
	expect_told "$build"
	# unsampled spans are passed through
	tell "$build.unsampled" unsampled "$TEST_LIBS/otelcpp/$build/stories"
	expect_told "$build.unsampled"
done

# At the first start one thread searches the classes, and all other threads wait for it, up to a limit. In an emulator
# the search takes longer than that limit.
for i in {1..10}; do
	[[ -z ${TEST_EMULATOR:-} ]] || {
		left_out "the emulator takes longer"
		break
	}
	tell "at_once.$i" 'first spans at once' "$TEST_LIBS/otelcpp/quiet/stories"
	expect_told "at_once.$i"
done

# Objects with an unknown layout are left alone, every call arrives unchanged, and one message says that there will be
# no labels.
run stranger "$TEST_LIBS/otelcpp/stranger"
run_under stranger.under SPANPROF_OUTPUT_DIR="$WORK" "$TEST_LIBS/otelcpp/stranger"
expect_rc stranger.under 0
expect_same stranger stranger.under out
[[ $(grep -c . "$WORK/stranger.under.err") == 1 ]] || fail "not one message: $(<"$WORK/stranger.under.err")"
grep 'opentelemetry-cpp, ABI v1: .*not understood: its spans are not profiled' \
	"$WORK/stranger.under.err" >/dev/null || fail "not told: $(<"$WORK/stranger.under.err")"
grep -q '^start 1 name 1 1 1$' "$WORK/stranger.out" || fail "the host tells nothing"
[[ -z $(profiles_in "$WORK") ]] || fail "an unknown SDK was profiled"
