#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Our hooks make SDKs look present that are not. A program that calls their functions gets the SDK's result for a
# failure, at any time: before our constructor and after our destructor too.
# shellcheck source=test/e2e/lib.bash
source test/e2e/lib.bash

run plain "$HOSTS/absent"
expect_rc plain 24
[[ ! -s $WORK/plain.err ]] || fail "an SDK is loaded: $(result plain.err)"
for settings in A=a SPANPROF_DISABLED=true SPANPROF_PROFILE=always; do
	run_under absent "$settings" SPANPROF_OUTPUT_DIR="$WORK" "$HOSTS/absent"
	expect_rc absent 24
	expect_silent absent
	for when in first main last; do
		# seven functions, without an object and with one
		[[ $(grep -c "^$when " "$WORK/absent.err") == 14 ]] || fail "$when: $(result absent.err)"
	done
	if grep -v 'errno 4711$' "$WORK/absent.err"; then
		fail "errno is another"
	fi
	# 7 is OTEL_STATUS_INTERNAL_ERROR, 0 no span
	if grep -vE '^[a-z]+ otel_([a-z_]*(start_span[a-z_]*|span_destroy): 0|(span_end|context_attach|context_scope_detach): 7), ' \
		"$WORK/absent.err"; then
		fail "that is not neutral"
	fi
done
