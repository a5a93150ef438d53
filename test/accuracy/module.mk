# SPDX-License-Identifier: Apache-2.0
#
# The hosts of test/e2e/accuracy.sh and measured_roots.sh, and of short_spans.sh.

$(B)/test/accuracy/clocks $(B)/test/accuracy/roots: $(B)/test/accuracy/%: test/accuracy/%.c test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -o $@ $< -lfixture-otelc $(HOST_RPATH)

$(B)/test/accuracy/clocks $(B)/test/accuracy/roots: $(B)/test/libfixture-otelc.so
TEST_PROGRAMS += $(B)/test/accuracy/clocks $(B)/test/accuracy/roots

.PHONY: short-spans
short-spans: all $(B)/test/accuracy/roots ## CPU time of roots of 0.2 to 200 ms against clocks (23 minutes, ACCURACY_SECONDS=50 each)
	@bash test/accuracy/short_spans.sh
