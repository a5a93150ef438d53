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
