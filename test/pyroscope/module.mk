# SPDX-License-Identifier: Apache-2.0
#
# The Pyroscope double that the end-to-end tests push to, plain and with the sanitizers. It does not link the
# exporter: it must not share its mistakes.

PYROSCOPE_SRCS := $(wildcard test/pyroscope/*.c)
C_SRCS += $(PYROSCOPE_SRCS)

# $(call pyroscope_link,flags)
define pyroscope_link
@mkdir -p $(@D)
$(call say,LD,$@)
$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(1) -lmicrohttpd -ljansson -lz
endef

$(B)/test/pyroscope-double: $(PYROSCOPE_SRCS:%.c=$(B)/release/%.o)
	$(call pyroscope_link)

$(B)/asan/test/pyroscope-double: $(PYROSCOPE_SRCS:%.c=$(B)/asan/%.o)
	$(call pyroscope_link,$(CFLAGS_asan))

TEST_PROGRAMS += $(B)/test/pyroscope-double $(B)/asan/test/pyroscope-double
E2E_TESTS += test/pyroscope/recorded.sh

# A real server. It and Go's clients are fetched, so this is no part of "make test".
PYROSCOPE_LOAD := $(B)/test/load
$(PYROSCOPE_LOAD): test/pyroscope/load.cc test/hosts/host.h test/sdk/opentelemetry_c.h $(B)/test/libopentelemetry-c.so
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) -std=c++17 -O2 -g -Wall -Wextra -I. -o $@ $< -L$(B)/test $(TEST_SDK_LDLIBS) -Wl,-rpath,'$$ORIGIN' -lpthread

.PHONY: push-real
push-real: all test-programs $(PYROSCOPE_LOAD) ## a real Pyroscope has what we push: PYROSCOPE names its program, or PYROSCOPE_URL one that runs (minutes)
	@TEST_LEFT_OUT=/dev/stderr bash test/pyroscope/real.sh
