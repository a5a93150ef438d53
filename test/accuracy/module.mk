# SPDX-License-Identifier: Apache-2.0
#
# The host of test/e2e/accuracy.sh.

$(B)/test/accuracy/clocks: test/accuracy/clocks.c test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -o $@ $< -lfixture-otelc $(HOST_RPATH)

$(B)/test/accuracy/clocks: $(B)/test/libfixture-otelc.so
TEST_PROGRAMS += $(B)/test/accuracy/clocks
