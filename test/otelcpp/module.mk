# SPDX-License-Identifier: Apache-2.0
#
# Programs instrumented with opentelemetry-cpp itself, once with the distribution's SDK and, for the
# builds of it that the distribution does not have, with a small SDK of the same ABI.

OTELCPP_DIR := $(B)/test/otelcpp
# ABI version 2; smart pointers and strings of the standard library, or the former only; functions
# bound inside the library.
OTELCPP_MINI := v1_stl17 v1_stl14 v2_nostd v2_stl17 bsymbolic

OTELCPP_CXXFLAGS = -std=gnu++17 -O2 -g -fPIC -fno-omit-frame-pointer -Wall -Wextra -I. -MMD -MP \
	$(CXXFLAGS)
OTELCPP_FLAGS_debian := -DHAVE_ABSEIL -DOPENTELEMETRY_ABI_VERSION_NO=1
OTELCPP_FLAGS_v1_stl17 := -DOPENTELEMETRY_ABI_VERSION_NO=1 -DOPENTELEMETRY_STL_VERSION=2017
OTELCPP_FLAGS_v1_stl14 := -DOPENTELEMETRY_ABI_VERSION_NO=1 -DOPENTELEMETRY_STL_VERSION=2014
OTELCPP_FLAGS_v2_nostd := -DOPENTELEMETRY_ABI_VERSION_NO=2
OTELCPP_FLAGS_bsymbolic := -DOPENTELEMETRY_ABI_VERSION_NO=1
OTELCPP_FLAGS_v2_stl17 := -DOPENTELEMETRY_ABI_VERSION_NO=2 -DOPENTELEMETRY_STL_VERSION=2017

# In a plugin, with the stories; the API's singletons must not become one for the process.
OTELCPP_COPIES := copy_a copy_b
$(foreach copy,$(OTELCPP_COPIES),$(eval OTELCPP_FLAGS_$(copy) := -DOPENTELEMETRY_ABI_VERSION_NO=1 \
	-Dmain=stories_main -fno-gnu-unique '-DMINI_COPY="$(copy:copy_%=%):"'))

OTELCPP_LDFLAGS_bsymbolic := -Wl,-Bsymbolic-functions

# $(call otelcpp_rules,build)
define otelcpp_rules
$(OTELCPP_DIR)/$(1)/%.o: test/otelcpp/%.cc
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(1)) -c -o $$@ $$<
-include $(wildcard $(OTELCPP_DIR)/$(1)/*.d)
endef
$(foreach build,debian $(OTELCPP_MINI) $(OTELCPP_COPIES),$(eval $(call otelcpp_rules,$(build))))

$(OTELCPP_DIR)/debian/stories: $(OTELCPP_DIR)/debian/stories.o $(OTELCPP_DIR)/debian/provider.o \
		$(B)/test/sdk/json_exporter.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $^ $(TEST_SDK_OTEL) -lpthread

# Not optimized: the tracer's destructor, which is the program's own, is to use its class.
$(OTELCPP_DIR)/own_vtable/provider.o: test/otelcpp/provider_own.cc
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(OTELCPP_CXXFLAGS) $(OTELCPP_FLAGS_debian) -O0 -fno-pic -fno-pie -c -o $@ $<

$(OTELCPP_DIR)/own_vtable/stories: $(OTELCPP_DIR)/debian/stories.o $(OTELCPP_DIR)/own_vtable/provider.o \
		$(B)/test/sdk/json_exporter.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -no-pie -o $@ $^ $(TEST_SDK_OTEL) -lpthread

TEST_PROGRAMS += $(OTELCPP_DIR)/own_vtable/stories

$(OTELCPP_MINI:%=$(OTELCPP_DIR)/%/libmini.so): %/libmini.so: %/mini_sdk.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -shared $(OTELCPP_LDFLAGS_$(*F)) -Wl,-soname,libmini.so -o $@ $^

$(OTELCPP_MINI:%=$(OTELCPP_DIR)/%/stories): %/stories: %/stories.o %/libmini.so
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $< -L$(@D) -lmini -Wl,-rpath,'$$ORIGIN' -lpthread

TEST_PROGRAMS += $(patsubst %,$(OTELCPP_DIR)/%/stories,debian $(OTELCPP_MINI))

$(OTELCPP_DIR)/libstranger.so: test/otelcpp/stranger_sdk.c test/otelcpp/stranger.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -fvisibility=default -O2 $(CFLAGS) -shared \
		-Wl,-soname,$(@F) -o $@ $<

$(OTELCPP_DIR)/stranger: test/otelcpp/stranger.c test/otelcpp/stranger.h $(OTELCPP_DIR)/libstranger.so
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $< -L$(@D) -lstranger \
		-Wl,-rpath,'$$ORIGIN'

TEST_PROGRAMS += $(OTELCPP_DIR)/stranger

$(OTELCPP_DIR)/mixed: $(OTELCPP_DIR)/debian/mixed.o $(B)/test/libopentelemetry-c.so
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $< -L$(B)/test -lopentelemetry-c $(TEST_SDK_OTEL) \
		-Wl,-rpath,'$$ORIGIN/..'

TEST_PROGRAMS += $(OTELCPP_DIR)/mixed

$(OTELCPP_COPIES:%=$(OTELCPP_DIR)/%/libstories.so): %/libstories.so: %/stories.o %/mini_sdk.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -shared -Wl,-soname,libstories_$(*F).so -o $@ $^ -lpthread

$(OTELCPP_DIR)/copies: test/otelcpp/copies.c test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $< -ldl

TEST_PROGRAMS += $(OTELCPP_DIR)/copies $(OTELCPP_COPIES:%=$(OTELCPP_DIR)/%/libstories.so)
