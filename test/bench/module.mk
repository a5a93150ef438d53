# SPDX-License-Identifier: Apache-2.0
#
# Programs that "make bench" runs; built with the test programs so that they cannot rot.

$(B)/test/bench/pairs: test/bench/pairs.c test/sdk/opentelemetry_c.h $(B)/test/libopentelemetry-c.so
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $< -L$(B)/test -lopentelemetry-c \
		-Wl,-rpath,'$$ORIGIN/..'

$(B)/test/bench/execs: test/bench/execs.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $<

TEST_PROGRAMS += $(B)/test/bench/pairs $(B)/test/bench/execs
