# SPDX-License-Identifier: Apache-2.0
#
# A stand-in for otap-labs/opentelemetry-c, the same before spans had ids, a library that only shares
# its names, and hosts in every way of linking and loading that reaches our hooks differently.

OTELC_DIR := $(B)/test/otelc
OTELC_API := $(OTELC_DIR)/libopentelemetry_c_api.so
OTELC_OLD := $(OTELC_DIR)/old/libopentelemetry_c_api.so
OTELC_FOREIGN := $(OTELC_DIR)/libforeign.so
OTELC_HOSTS := $(addprefix $(OTELC_DIR)/,lazy now noplt)
OTELC_PLUGIN := $(OTELC_DIR)/libstories.so
OTELC_API_SRCS := $(addprefix test/otelc/,context.c record.c trace.c)
OTELC_STORY_SRCS := $(addprefix test/otelc/,stories.c tell.c)
OTELC_HDRS := $(wildcard test/otelc/*.h) test/hosts/host.h $(addprefix test/common/,fixture.h story.h)
OTELC_RPATH := -Wl,--enable-new-dtags,-rpath,'$$ORIGIN'

OTELC_FLAGS_lazy := -Wl,-z,lazy
OTELC_FLAGS_now := -Wl,-z,now
OTELC_FLAGS_noplt := -fno-plt

# $(call otelc_link,flags): no SONAME in any of the libraries, as the original has none.
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

$(OTELC_HOSTS): $(OTELC_DIR)/%: test/otelc/main.c $(OTELC_STORY_SRCS) $(OTELC_HDRS) $(OTELC_API)
	$(call otelc_link,$(OTELC_FLAGS_$*) -L$(OTELC_DIR) -lopentelemetry_c_api $(OTELC_RPATH) -lpthread)

$(OTELC_PLUGIN): $(OTELC_STORY_SRCS) $(OTELC_HDRS) $(OTELC_API)
	$(call otelc_link,-shared -L$(OTELC_DIR) -lopentelemetry_c_api $(OTELC_RPATH) -lpthread)

$(OTELC_DIR)/opener: test/otelc/main.c $(OTELC_HDRS)
	$(call otelc_link,-DPLUGIN -ldl)

$(OTELC_DIR)/foreign: test/otelc/foreign_host.c $(OTELC_HDRS) $(OTELC_FOREIGN)
	$(call otelc_link,-L$(OTELC_DIR) -lforeign $(OTELC_RPATH))

TEST_PROGRAMS += $(OTELC_HOSTS) $(OTELC_OLD) $(OTELC_PLUGIN) $(OTELC_DIR)/opener \
	$(OTELC_DIR)/foreign
