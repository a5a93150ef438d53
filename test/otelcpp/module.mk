# SPDX-License-Identifier: Apache-2.0
#
# Programs that use opentelemetry-cpp itself: with the distribution's SDK and, for builds that the distribution does
# not have, with a small SDK of the same ABI.

OTELCPP_DIR := $(B)/test/otelcpp
# Spelled out, because the module of that folder is read after this one.
OTELCPP_HOST := $(addprefix $(B)/test/conformance/,main.o probe.o second.o stories.o story.o)
# ABI version 2; smart pointers and strings of the standard library, or the former only; functions
# bound inside the library; as it is since 1.24.
OTELCPP_MINI := v1_stl17 v1_stl14 v2_nostd v2_stl17 bsymbolic v1_24 v2_24 nortti quiet quiet_bsymbolic
# Builds that are no release: in each of them one layout differs.
OTELCPP_FOREIGN := foreign_token foreign_context foreign_head foreign_options foreign_ids foreign_slots foreign_pointer \
	foreign_resource

# No debug information, which would take a third of the compile time: nothing here needs lines.
OTELCPP_CXXFLAGS = -std=gnu++17 -O2 -fPIC -fno-omit-frame-pointer -Wall -Wextra -I. $(OTELCPP_FIRST) -MMD -MP $(CXXFLAGS)

# The first header is compiled once for each kind of code. The compiler searches the folder with the header's name and
# .gch for a file that fits, and otherwise takes the header.
OTELCPP_FIRST := -I$(OTELCPP_DIR) -Itest/otelcpp -include first.h
OTELCPP_FIRST_pic := -fPIC
# Symbols in programs are hidden.
OTELCPP_FIRST_pie = $(OTELCPP_HIDDEN) -fPIE
OTELCPP_FIRST_nopie = $(OTELCPP_HIDDEN) -fno-pic -fno-pie
$(OTELCPP_DIR)/first.h.gch/%: test/otelcpp/first.h
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(filter-out -include first.h -MMD -MP,$(OTELCPP_CXXFLAGS)) $(OTELCPP_FIRST_$*) -MD -MP -MF $(OTELCPP_DIR)/first-$*.d \
		-x c++-header -o $@ $<
-include $(wildcard $(OTELCPP_DIR)/first-*.d)
# $(call otelcpp_first,flags): the precompiled header for code with these flags.
otelcpp_first = $(OTELCPP_DIR)/first.h.gch/$(if $(filter -fno-pic,$(1)),nopie,$(if $(filter -fPIE,$(1)),pie,pic))

# Many programs run the stories, and compile twice as fast like this; those of the distribution's SDK are optimized
# like real programs.
OTELCPP_DRIVER = -DDRIVER_MINI -Og
OTELCPP_FLAGS_debian := -DHAVE_ABSEIL -DOPENTELEMETRY_ABI_VERSION_NO=1
OTELCPP_FLAGS_v1_stl17 := -DOPENTELEMETRY_ABI_VERSION_NO=1 -DOPENTELEMETRY_STL_VERSION=2017
OTELCPP_FLAGS_v1_stl14 := -DOPENTELEMETRY_ABI_VERSION_NO=1 -DOPENTELEMETRY_STL_VERSION=2014 \
	-DMINI_CONTEXT=MINI_CONTEXT_ELSEWHERE
OTELCPP_FLAGS_v2_nostd := -DOPENTELEMETRY_ABI_VERSION_NO=2
OTELCPP_FLAGS_bsymbolic := -DOPENTELEMETRY_ABI_VERSION_NO=1
# Without run-time type information, but with names; and builds that never read a variable.
OTELCPP_FLAGS_nortti := -DOPENTELEMETRY_ABI_VERSION_NO=1 -DOPENTELEMETRY_STL_VERSION=2017 -fno-rtti -DMINI_QUIET
OTELCPP_FLAGS_quiet := -DOPENTELEMETRY_ABI_VERSION_NO=2 -DMINI_QUIET
OTELCPP_FLAGS_quiet_bsymbolic := -DOPENTELEMETRY_ABI_VERSION_NO=1 -DMINI_QUIET
OTELCPP_LDFLAGS_quiet_bsymbolic := -Wl,-Bsymbolic-functions
OTELCPP_FLAGS_v2_stl17 := -DOPENTELEMETRY_ABI_VERSION_NO=2 -DOPENTELEMETRY_STL_VERSION=2017

# $(call otelcpp_api,build,header,sed script,expected text): the distribution's header with one line changed, for
# layouts that its release does not have.
define otelcpp_api
OTELCPP_API_$(1) := $(OTELCPP_DIR)/api/$(1)/opentelemetry/$(2)
OTELCPP_FLAGS_$(1) += -I$(OTELCPP_DIR)/api/$(1)
$(OTELCPP_DIR)/api/$(1)/opentelemetry/$(2): test/otelcpp/module.mk
	@mkdir -p $$(@D)
	$$(call say,GEN,$$@)
	$$(Q)header=$$$$(echo '#include <opentelemetry/$(2)>' | $$(CXX) $$(CXXFLAGS) -std=gnu++17 \
		-DHAVE_ABSEIL -E -x c++ - | sed -n 's,^# 1 "\(.*opentelemetry/$(2)\)".*,\1,p' | head -1) && \
		sed '$(3)' "$$$$header" >$$@.new && grep -q '$(4)' $$@.new && mv $$@.new $$@
endef
OTELCPP_FLAGS_v1_24 := -DOPENTELEMETRY_ABI_VERSION_NO=1
OTELCPP_FLAGS_v2_24 := -DOPENTELEMETRY_ABI_VERSION_NO=2 -DOPENTELEMETRY_STL_VERSION=2017 \
	-DMINI_CONTEXT=MINI_CONTEXT_INLINE
$(foreach build,$(OTELCPP_FOREIGN),$(eval OTELCPP_FLAGS_$(build) := -DOPENTELEMETRY_ABI_VERSION_NO=1))
OTELCPP_FLAGS_foreign_resource += -DMINI_RESOURCE_MORE
$(foreach build,v1_24 v2_24,$(eval $(call otelcpp_api,$(build),context/runtime_context.h,\
s/^  ~Token()/  virtual ~Token()/,virtual ~Token())))
$(eval $(call otelcpp_api,foreign_token,context/runtime_context.h,\
s/^  const Context context_;/  const long more_[5] = {}; &/,more_))
$(eval $(call otelcpp_api,foreign_context,context/context.h,\
s/^    nostd::shared_ptr<DataList> next_{/    size_t more_ = 5; &/,more_))
$(eval $(call otelcpp_api,foreign_head,context/context.h,\
s/^  nostd::shared_ptr<DataList> head_;/  size_t more_ = 5; &/,more_))
$(eval $(call otelcpp_api,foreign_options,trace/span_startoptions.h,\
s/^  nostd::variant<SpanContext/  uint64_t more_ = 3; &/,more_))
$(eval $(call otelcpp_api,foreign_ids,trace/span_context.h,\
s/^  trace::TraceId trace_id_;/  uint64_t more_ = 9; &/,more_))
$(eval $(call otelcpp_api,foreign_pointer,nostd/shared_ptr.h,\
s/^    std::shared_ptr<T> ptr_;/    size_t more_ = 7; &/;s/kMaxSize   = 32/kMaxSize   = 40/,more_))
$(eval $(call otelcpp_api,foreign_slots,trace/span.h,\
s/^  virtual trace::SpanContext GetContext/  virtual bool More() const noexcept { return true; } &/,More()))

# In a plugin, with the driver of the stories; the API's singletons must not be shared by the process.
OTELCPP_COPIES := copy_a copy_b
$(foreach copy,$(OTELCPP_COPIES),$(eval OTELCPP_FLAGS_$(copy) := -DOPENTELEMETRY_ABI_VERSION_NO=1 \
	-fno-gnu-unique '-DMINI_COPY="$(copy:copy_%=%):"'))

# The second copy never reads a variable.
OTELCPP_FLAGS_copy_b += -DMINI_QUIET

# In the program, without a symbol. One has spans inside their control blocks, as from 1.2x on; one has a method that
# no release has; one has no run-time type information; one reads no variable, as if a file had its configuration
# (1.29).
OTELCPP_STATIC := static_v1 static_v2 static_nopie static_foreign static_nortti static_declared
OTELCPP_HIDDEN := -fvisibility=hidden -fvisibility-inlines-hidden -ffunction-sections -fdata-sections
OTELCPP_FLAGS_static_v1 := $(OTELCPP_HIDDEN) -fPIE -DOPENTELEMETRY_ABI_VERSION_NO=1 -DMINI_MADE_TOGETHER
OTELCPP_FLAGS_static_v2 := $(OTELCPP_HIDDEN) -fPIE -DOPENTELEMETRY_ABI_VERSION_NO=2 \
	-DOPENTELEMETRY_STL_VERSION=2017 -DMINI_CONTEXT=MINI_CONTEXT_INLINE -DMINI_MADE_TOGETHER
OTELCPP_FLAGS_static_nopie := $(OTELCPP_HIDDEN) -fno-pic -fno-pie -DOPENTELEMETRY_ABI_VERSION_NO=1
OTELCPP_FLAGS_static_foreign := $(OTELCPP_HIDDEN) -fPIE -DOPENTELEMETRY_ABI_VERSION_NO=1
OTELCPP_FLAGS_static_declared := $(OTELCPP_HIDDEN) -fPIE -DOPENTELEMETRY_ABI_VERSION_NO=1 -DMINI_QUIET -DMINI_DRAWS
OTELCPP_FLAGS_static_nortti := $(OTELCPP_HIDDEN) -fPIE -fno-rtti -DOPENTELEMETRY_ABI_VERSION_NO=1
# Otherwise linkers for aarch64 put constants into the code segment, where vtables cannot be changed.
OTELCPP_LDFLAGS_static_nopie := -no-pie -Wl,-z,separate-code
$(eval $(call otelcpp_api,static_v2,context/runtime_context.h,\
s/^  ~Token()/  virtual ~Token()/,virtual ~Token()))
$(eval $(call otelcpp_api,static_foreign,trace/span.h,\
s/^  virtual trace::SpanContext GetContext/  virtual bool More() const noexcept { return true; } &/,More()))

# The same in a plugin that exports one function.
OTELCPP_HIDDEN_COPIES := copy_c copy_d
$(foreach copy,$(OTELCPP_HIDDEN_COPIES),$(eval OTELCPP_FLAGS_$(copy) := -DOPENTELEMETRY_ABI_VERSION_NO=1 \
	-fno-gnu-unique '-DMINI_COPY="$(copy:copy_%=%):"'))
OTELCPP_LDFLAGS_copy_c := -s -Wl,--version-script=test/conformance/hidden.map
OTELCPP_LDFLAGS_copy_d := $(OTELCPP_LDFLAGS_copy_c)

OTELCPP_LDFLAGS_bsymbolic := -Wl,-Bsymbolic-functions

# In these builds it is not the SDK's code that differs, so they are less optimized, which takes two thirds of the
# compile time. One build of each ABI, and one that binds functions inside the library, is optimized like real
# programs.
$(foreach build,v1_stl14 v2_nostd v1_24 nortti quiet quiet_bsymbolic $(OTELCPP_FOREIGN) $(OTELCPP_COPIES) \
		$(OTELCPP_HIDDEN_COPIES), \
	$(eval OTELCPP_FLAGS_$(build) += -Og))

# $(call otelcpp_rules,build)
define otelcpp_rules
$(OTELCPP_DIR)/$(1)/%.o: test/otelcpp/%.cc $(OTELCPP_API_$(1)) | $(call otelcpp_first,$(OTELCPP_FLAGS_$(1)))
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(1)) -c -o $$@ $$<
$(OTELCPP_DIR)/$(1)/driver.o: test/conformance/driver_otelcpp.cc $(OTELCPP_API_$(1)) | $(call otelcpp_first,$(OTELCPP_FLAGS_$(1)))
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(1)) $$(OTELCPP_DRIVER) -c -o $$@ $$<
-include $(wildcard $(OTELCPP_DIR)/$(1)/*.d)
endef
$(foreach build,debian $(OTELCPP_MINI) $(OTELCPP_FOREIGN) $(OTELCPP_STATIC) $(OTELCPP_COPIES) \
	$(OTELCPP_HIDDEN_COPIES),$(eval $(call otelcpp_rules,$(build))))

$(OTELCPP_DIR)/restored: $(OTELCPP_DIR)/debian/restored.o $(OTELCPP_DIR)/debian/provider.o \
		$(B)/test/sdk/json_exporter.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $^ $(TEST_SDK_OTEL) -lpthread

TEST_PROGRAMS += $(OTELCPP_DIR)/restored

# With their own context storage: with the distribution's SDK, and with one without a symbol. If the compiler has no
# Boost.Context, test/e2e/otelcpp_fibers.sh says so.
$(OTELCPP_DIR)/debian/fibers: $(OTELCPP_DIR)/debian/fibers.o $(OTELCPP_DIR)/debian/provider.o \
		$(B)/test/sdk/json_exporter.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $^ -lboost_context $(TEST_SDK_OTEL) -lpthread

$(OTELCPP_DIR)/static_v1/fibers: $(OTELCPP_DIR)/static_v1/fibers.o $(OTELCPP_DIR)/static_v1/mini_sdk.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -Wl,--gc-sections -o $@ $^ -lboost_context -lpthread

ifneq ($(wildcard $(shell $(CXX) -print-sysroot 2>/dev/null)/usr/include/boost/context/fiber.hpp),)
TEST_PROGRAMS += $(patsubst %,$(OTELCPP_DIR)/%/fibers,debian static_v1)
endif

# Not optimized: the tracer's destructor, which is in the program, has to use its class.
$(OTELCPP_DIR)/own_vtable/provider.o: test/otelcpp/provider_own.cc | $(call otelcpp_first,-fno-pic)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(OTELCPP_CXXFLAGS) $(OTELCPP_FLAGS_debian) -O0 -fno-pic -fno-pie -c -o $@ $<

$(OTELCPP_DIR)/own_vtable/stories: $(B)/test/conformance/debian/driver.o $(OTELCPP_DIR)/own_vtable/provider.o \
		$(B)/test/sdk/json_exporter.o $(OTELCPP_HOST)
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -no-pie -o $@ $^ $(TEST_SDK_OTEL) -ldl -lpthread

TEST_PROGRAMS += $(OTELCPP_DIR)/own_vtable/stories

$(patsubst %,$(OTELCPP_DIR)/%/libmini.so,$(OTELCPP_MINI) $(OTELCPP_FOREIGN)): %/libmini.so: %/mini_sdk.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -shared $(OTELCPP_LDFLAGS_$(*F)) -Wl,-soname,libmini.so -o $@ $^

# Programs that run the stories of test/conformance, for builds that the matrix does not have.
OTELCPP_STORIES := nortti quiet quiet_bsymbolic $(OTELCPP_FOREIGN)
$(OTELCPP_STORIES:%=$(OTELCPP_DIR)/%/stories): %/stories: %/driver.o %/libmini.so $(OTELCPP_HOST)
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) -L$(@D) -lmini -Wl,-rpath,'$$ORIGIN' -ldl -lpthread

TEST_PROGRAMS += $(OTELCPP_STORIES:%=$(OTELCPP_DIR)/%/stories)

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

$(patsubst %,$(OTELCPP_DIR)/%/plugin.so,$(OTELCPP_COPIES) $(OTELCPP_HIDDEN_COPIES)): \
		%/plugin.so: %/driver.o %/mini_sdk.o test/conformance/hidden.map
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -shared $(OTELCPP_LDFLAGS_$(*F)) -Wl,-soname,plugin_$(*F).so \
		-o $@ $(filter %.o,$^) -lpthread

$(OTELCPP_STATIC:%=$(OTELCPP_DIR)/%/stories): %/stories: %/driver.o %/mini_sdk.o $(OTELCPP_HOST)
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -s -Wl,--gc-sections -Wl,-z,now -Wl,-z,relro \
		$(OTELCPP_LDFLAGS_$(*F)) -o $@ $^ -ldl -lpthread

TEST_PROGRAMS += $(OTELCPP_STATIC:%=$(OTELCPP_DIR)/%/stories)

# The program has the storage, and everything that is also in the plugin.
OTELCPP_FLAGS_reloaded := -DOPENTELEMETRY_ABI_VERSION_NO=1 -fno-gnu-unique
$(eval $(call otelcpp_rules,reloaded))

$(OTELCPP_DIR)/reloaded/reloaded: $(OTELCPP_DIR)/reloaded/reloaded.o
	$(call say,HOST,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -rdynamic -o $@ $< -ldl

TEST_PROGRAMS += $(OTELCPP_DIR)/reloaded/reloaded \
	$(patsubst %,$(OTELCPP_DIR)/%/plugin.so,$(OTELCPP_COPIES) $(OTELCPP_HIDDEN_COPIES))

# Plugins of test/stress/vtable_slots.c: one exports three functions, the other everything.
OTELCPP_CHURN := churn_hidden churn_named
$(foreach build,$(OTELCPP_CHURN),$(eval OTELCPP_FLAGS_$(build) := -DOPENTELEMETRY_ABI_VERSION_NO=1 \
	-fno-gnu-unique -DMINI_RECORD_ONLY))
OTELCPP_FLAGS_churn_hidden += $(OTELCPP_HIDDEN) -DMINI_MADE_TOGETHER
$(foreach build,$(OTELCPP_CHURN),$(eval $(call otelcpp_rules,$(build))))

$(OTELCPP_CHURN:%=$(OTELCPP_DIR)/%/libchurn.so): %/libchurn.so: %/churn.o %/mini_sdk.o
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -shared -Wl,-z,relro -Wl,-soname,libchurn_$(*F).so -o $@ $^ -lpthread

$(OTELCPP_DIR)/crowd: test/otelcpp/crowd.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(CFLAGS) -o $@ $< -ldl

$(OTELCPP_DIR)/crowd_asks.so: test/otelcpp/crowd.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(CFLAGS) -DCROWD_ASKS -shared -o $@ $<

TEST_PROGRAMS += $(OTELCPP_DIR)/crowd $(OTELCPP_DIR)/crowd_asks.so $(OTELCPP_CHURN:%=$(OTELCPP_DIR)/%/libchurn.so)

# $(call otelcpp_stress,flavour)
define otelcpp_stress
$(B)/$(1)/test/stress/vtable_slots: $(B)/$(1)/preload.a | $(OTELCPP_CHURN:%=$(OTELCPP_DIR)/%/libchurn.so)
endef
$(foreach flavour,release tsan,$(eval $(call otelcpp_stress,$(flavour))))
