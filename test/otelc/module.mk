# SPDX-License-Identifier: Apache-2.0
#
# A stand-in for otap-labs/opentelemetry-c, its first release without ids of spans, and a library that only shares its
# names. Their hosts are in test/conformance.

OTELC_DIR := $(B)/test/otelc
OTELC_API := $(OTELC_DIR)/libopentelemetry_c_api.so
OTELC_OLD := $(OTELC_DIR)/old/libopentelemetry_c_api.so
OTELC_FOREIGN := $(OTELC_DIR)/libforeign.so
OTELC_API_SRCS := $(addprefix test/otelc/,context.c record.c trace.c)
OTELC_HDRS := $(wildcard test/otelc/*.h) test/hosts/host.h test/common/fixture.h
OTELC_RPATH := -Wl,--enable-new-dtags,-rpath,'$$ORIGIN'

# $(call otelc_link,flags): the libraries have no SONAME, like the original.
define otelc_link
@mkdir -p $(@D)
$(call say,HOST,$@)
$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $(filter %.c,$^) $(1) $(LDFLAGS)
endef

$(OTELC_API): $(OTELC_API_SRCS) $(OTELC_HDRS)
	$(call otelc_link,-shared)

$(OTELC_OLD): $(filter-out %/context.c,$(OTELC_API_SRCS)) $(OTELC_HDRS)
	$(call otelc_link,-shared -DFIXTURE_FIRST_RELEASE)

$(OTELC_FOREIGN): test/otelc/foreign.c $(OTELC_HDRS)
	$(call otelc_link,-shared)

$(OTELC_DIR)/foreign: test/otelc/foreign_host.c $(OTELC_HDRS) $(OTELC_FOREIGN)
	$(call otelc_link,-L$(OTELC_DIR) -lforeign $(OTELC_RPATH))

TEST_PROGRAMS += $(OTELC_OLD) $(OTELC_DIR)/foreign
