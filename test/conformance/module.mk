# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite: one table of stories, a driver per SDK, and hosts for every way of linking and loading them.
# matrix.conf says what runs, and how.

CONFORMANCE_DIR := $(B)/test/conformance
CONFORMANCE_HDRS := $(wildcard test/conformance/*.h) test/hosts/host.h
CONFORMANCE_HOST_SRCS := $(addprefix test/conformance/,main.c probe.c second.c stories.c story.c)
CONFORMANCE_DORSAL := $(B)/test/libopentelemetry-c.so
CONFORMANCE_OTELC := $(B)/test/otelc/libopentelemetry_c_api.so
# Spelled out, because the modules of these folders are read after this one.
CONFORMANCE_OTELCPP := $(B)/test/otelcpp
CONFORMANCE_MINI := v1_stl17 v1_stl14 v2_nostd v2_stl17 bsymbolic v1_24 v2_24
CONFORMANCE_RPATH := -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/../..',-rpath,'$$ORIGIN/../../otelc'

# For each C SDK: its library, how to link with it, and its sources for a plugin that contains it.
CONFORMANCE_C := otelc dorsal haproxy22 haproxy33 haproxy_cpp
CONFORMANCE_HAPROXY := $(B)/test/haproxy
# The generations of the wrapper with its SDK inside, and the name of that small SDK.
CONFORMANCE_GENERATION_haproxy22 := 2.2
CONFORMANCE_GENERATION_haproxy33 := 3.3
CONFORMANCE_SDK_haproxy22 := v2_nostd
CONFORMANCE_SDK_haproxy33 := v2_stl17
$(foreach sdk,haproxy22 haproxy33 haproxy_cpp,$(eval CONFORMANCE_DRIVER_$(sdk) := haproxy))
CONFORMANCE_DEFS_haproxy22 := -DFIXTURE_API=9
CONFORMANCE_DEFS_haproxy33 := -DFIXTURE_API=11
CONFORMANCE_DEFS_haproxy_cpp := -DFIXTURE_API=11
CONFORMANCE_LIB_haproxy22 := $(CONFORMANCE_HAPROXY)/2.2/libopentelemetry-c-wrapper.so.5
CONFORMANCE_LIB_haproxy33 := $(CONFORMANCE_HAPROXY)/3.3/libopentelemetry-c-wrapper.so.9
CONFORMANCE_LIB_haproxy_cpp := $(CONFORMANCE_HAPROXY)/shared/libopentelemetry-c-wrapper.so.9
CONFORMANCE_RPATH_haproxy22 := -Wl,-rpath,'$$ORIGIN/../../haproxy/2.2'
CONFORMANCE_RPATH_haproxy33 := -Wl,-rpath,'$$ORIGIN/../../haproxy/3.3'
CONFORMANCE_RPATH_haproxy_cpp := -Wl,-rpath,'$$ORIGIN/../../haproxy/shared'
$(foreach sdk,haproxy22 haproxy33 haproxy_cpp,$(eval \
	CONFORMANCE_LIBS_$(sdk) := $(CONFORMANCE_LIB_$(sdk))))
$(foreach sdk,haproxy22 haproxy33,$(eval CONFORMANCE_INSIDE_$(sdk) := \
	$(CONFORMANCE_HAPROXY)/$(CONFORMANCE_GENERATION_$(sdk))/wrapper.o \
	$(CONFORMANCE_OTELCPP)/$(CONFORMANCE_SDK_$(sdk))/mini_sdk.o))
CONFORMANCE_DRIVER_otelc := otelc
CONFORMANCE_DRIVER_dorsal := dorsal
CONFORMANCE_LIB_otelc := $(CONFORMANCE_OTELC)
CONFORMANCE_LIBS_otelc := -L$(B)/test/otelc -lopentelemetry_c_api
CONFORMANCE_INSIDE_otelc := $(addprefix $(CONFORMANCE_DIR)/otelc/sdk-,context.o record.o trace.o)
CONFORMANCE_LIB_dorsal := $(CONFORMANCE_DORSAL)
CONFORMANCE_LIBS_dorsal := -L$(B)/test -lopentelemetry-c
CONFORMANCE_INSIDE_dorsal := $(patsubst %.cc,$(B)/%.o,$(wildcard test/sdk/*.cc))
CONFORMANCE_INSIDE_LIBS_dorsal = $(TEST_SDK_OTEL)

CONFORMANCE_FLAGS_lazy := -Wl,-z,lazy
CONFORMANCE_FLAGS_now := -Wl,-z,now
CONFORMANCE_FLAGS_noplt := -fno-plt

CONFORMANCE_CFLAGS = $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS)

$(CONFORMANCE_DIR)/%.o: test/conformance/%.c $(CONFORMANCE_HDRS) $(wildcard sampler/*/*.h)
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CONFORMANCE_CFLAGS) -c -o $@ $<

$(CONFORMANCE_DIR)/otelc/sdk-%.o: test/otelc/%.c $(wildcard test/otelc/*.h) test/common/fixture.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CONFORMANCE_CFLAGS) -c -o $@ $<

CONFORMANCE_HOST := $(CONFORMANCE_HOST_SRCS:test/conformance/%.c=$(CONFORMANCE_DIR)/%.o)

$(CONFORMANCE_DIR)/opener: $(CONFORMANCE_HOST)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ -ldl -lpthread

CONFORMANCE_PROGRAMS := $(CONFORMANCE_DIR)/opener

# $(call conformance_c,sdk)
define conformance_c
$(foreach mode,lazy now noplt,
$(CONFORMANCE_DIR)/$(1)/$(mode): test/conformance/driver_$(CONFORMANCE_DRIVER_$(1)).c $(CONFORMANCE_HDRS) \
		$(CONFORMANCE_HOST) $(CONFORMANCE_LIB_$(1))
	@mkdir -p $$(@D)
	$$(call say,HOST,$$@)
	$$(Q)$$(CC) $$(CONFORMANCE_CFLAGS) $(CONFORMANCE_DEFS_$(1)) $(CONFORMANCE_FLAGS_$(mode)) -o $$@ $$< $(CONFORMANCE_HOST) \
		$(CONFORMANCE_LIBS_$(1)) $$(CONFORMANCE_RPATH) $$(CONFORMANCE_RPATH_$(1)) -ldl -lpthread $$(LDFLAGS)
)
$(CONFORMANCE_DIR)/$(1)/plugin.so: test/conformance/driver_$(CONFORMANCE_DRIVER_$(1)).c $(CONFORMANCE_HDRS) \
		$(CONFORMANCE_LIB_$(1))
	@mkdir -p $$(@D)
	$$(call say,HOST,$$@)
	$$(Q)$$(CC) $$(CONFORMANCE_CFLAGS) $(CONFORMANCE_DEFS_$(1)) -shared -o $$@ $$< $(CONFORMANCE_LIBS_$(1)) $$(CONFORMANCE_RPATH) $$(CONFORMANCE_RPATH_$(1)) \
		$$(LDFLAGS)
$(CONFORMANCE_DIR)/$(1)/byname.so: test/conformance/driver_$(CONFORMANCE_DRIVER_$(1)).c $(CONFORMANCE_HDRS) \
		$(CONFORMANCE_LIB_$(1))
	@mkdir -p $$(@D)
	$$(call say,HOST,$$@)
	$$(Q)$$(CC) $$(CONFORMANCE_CFLAGS) $(CONFORMANCE_DEFS_$(1)) -DBY_DLSYM='"$(notdir $(CONFORMANCE_LIB_$(1)))"' -shared -o $$@ $$< \
		$$(CONFORMANCE_RPATH) $$(CONFORMANCE_RPATH_$(1)) -ldl $$(LDFLAGS)
$(CONFORMANCE_DIR)/$(1)/driver.o: test/conformance/driver_$(CONFORMANCE_DRIVER_$(1)).c $(CONFORMANCE_HDRS)
	@mkdir -p $$(@D)
	$$(Q)$$(CC) $$(CONFORMANCE_CFLAGS) $(CONFORMANCE_DEFS_$(1)) -c -o $$@ $$<
CONFORMANCE_PROGRAMS += $(addprefix $(CONFORMANCE_DIR)/$(1)/,lazy now noplt plugin.so byname.so)
endef
$(foreach sdk,$(CONFORMANCE_C),$(eval $(call conformance_c,$(sdk))))

# $(call conformance_c_inside,sdk): with the SDK's objects in the plugin.
define conformance_c_inside
$(CONFORMANCE_DIR)/$(1)/inside.so: $(CONFORMANCE_DIR)/$(1)/driver.o $(CONFORMANCE_INSIDE_$(1))
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) -shared -o $$@ $$^ $$(CONFORMANCE_INSIDE_LIBS_$(1)) $$(LDFLAGS)
$(CONFORMANCE_DIR)/$(1)/hidden.so: $(CONFORMANCE_DIR)/$(1)/driver.o $(CONFORMANCE_INSIDE_$(1)) \
		test/conformance/hidden.map
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) -shared -s -Wl,--version-script=test/conformance/hidden.map \
		-o $$@ $$(filter %.o,$$^) $$(CONFORMANCE_INSIDE_LIBS_$(1)) $$(LDFLAGS)
CONFORMANCE_PROGRAMS += $(addprefix $(CONFORMANCE_DIR)/$(1)/,inside.so hidden.so)
endef
$(foreach sdk,$(CONFORMANCE_C),$(if $(CONFORMANCE_INSIDE_$(sdk)),$(eval $(call conformance_c_inside,$(sdk)))))

# $(call conformance_cpp,build)
define conformance_cpp
$(CONFORMANCE_DIR)/$(1)/driver.o: test/conformance/driver_otelcpp.cc $(CONFORMANCE_HDRS) \
		$$(OTELCPP_API_$(1)) | $$(call otelcpp_first)
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(1)) \
		$(if $(filter debian,$(1)),,$$(OTELCPP_DRIVER)) -c -o $$@ $$<
$(CONFORMANCE_DIR)/$(1)/driver-noplt.o: test/conformance/driver_otelcpp.cc $(CONFORMANCE_HDRS) \
		$$(OTELCPP_API_$(1)) | $$(call otelcpp_first)
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(1)) -fno-plt \
		$(if $(filter debian,$(1)),,$$(OTELCPP_DRIVER)) -c -o $$@ $$<
$(foreach mode,lazy now noplt,
$(CONFORMANCE_DIR)/$(1)/$(mode): $(CONFORMANCE_DIR)/$(1)/driver$(if $(filter noplt,$(mode)),-noplt).o \
		$(CONFORMANCE_HOST) $(CONFORMANCE_LIB_$(1))
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) $$(filter-out -fno-plt,$(CONFORMANCE_FLAGS_$(mode))) -o $$@ $$(filter %.o,$$^) \
		$$(CONFORMANCE_LIBS_$(1)) -ldl -lpthread $$(LDFLAGS)
)
$(CONFORMANCE_DIR)/$(1)/plugin.so: $(CONFORMANCE_DIR)/$(1)/driver.o $(CONFORMANCE_LIB_$(1))
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) -shared -o $$@ $$(filter %.o,$$^) $$(CONFORMANCE_LIBS_$(1)) $$(LDFLAGS)
CONFORMANCE_PROGRAMS += $(addprefix $(CONFORMANCE_DIR)/$(1)/,lazy now noplt plugin.so)
endef

CONFORMANCE_LIB_debian := $(CONFORMANCE_OTELCPP)/debian/provider.o $(B)/test/sdk/json_exporter.o
CONFORMANCE_LIBS_debian = $(TEST_SDK_OTEL)
$(foreach build,$(CONFORMANCE_MINI),\
	$(eval CONFORMANCE_LIB_$(build) := $(CONFORMANCE_OTELCPP)/$(build)/libmini.so)\
	$(eval CONFORMANCE_LIBS_$(build) := -L$(CONFORMANCE_OTELCPP)/$(build) -lmini \
		-Wl,-rpath,'$$$$ORIGIN/../../otelcpp/$(build)'))
$(foreach build,debian $(CONFORMANCE_MINI),$(eval $(call conformance_cpp,$(build))))

# The small SDKs inside the plugin, and inside the program: there they have no symbols.
CONFORMANCE_STATIC_static := -fPIE
CONFORMANCE_STATIC_nopie := -fno-pic -fno-pie
CONFORMANCE_LDFLAGS_static := -pie
CONFORMANCE_LDFLAGS_nopie := -no-pie -Wl,-z,separate-code
define conformance_inside
$(CONFORMANCE_DIR)/$(1)/inside.so: $(CONFORMANCE_DIR)/$(1)/driver.o $(CONFORMANCE_OTELCPP)/$(1)/mini_sdk.o
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) -shared $$(OTELCPP_LDFLAGS_$(1)) -o $$@ $$^ $$(LDFLAGS)
$(CONFORMANCE_DIR)/$(1)/hidden.so: $(CONFORMANCE_DIR)/$(1)/driver.o $(CONFORMANCE_OTELCPP)/$(1)/mini_sdk.o \
		test/conformance/hidden.map
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) -shared -s -Wl,--version-script=test/conformance/hidden.map \
		-o $$@ $$(filter %.o,$$^) $$(LDFLAGS)
$(foreach mode,static nopie,
$(CONFORMANCE_DIR)/$(1)/$(mode)-driver.o: test/conformance/driver_otelcpp.cc $(CONFORMANCE_HDRS) \
		$$(OTELCPP_API_$(1)) | $$(call otelcpp_first,$(CONFORMANCE_STATIC_$(mode)))
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(1)) $$(CONFORMANCE_HIDDEN) \
		$(CONFORMANCE_STATIC_$(mode)) $$(OTELCPP_DRIVER) -c -o $$@ $$<
$(CONFORMANCE_DIR)/$(1)/$(mode)-sdk.o: test/otelcpp/mini_sdk.cc $$(OTELCPP_API_$(1)) \
		| $$(call otelcpp_first,$(CONFORMANCE_STATIC_$(mode)))
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(1)) $$(CONFORMANCE_HIDDEN) \
		$(CONFORMANCE_STATIC_$(mode)) -c -o $$@ $$<
$(CONFORMANCE_DIR)/$(1)/$(mode): $(CONFORMANCE_DIR)/$(1)/$(mode)-driver.o \
		$(CONFORMANCE_DIR)/$(1)/$(mode)-sdk.o $(CONFORMANCE_HOST)
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) $(CONFORMANCE_LDFLAGS_$(mode)) -s -Wl,--gc-sections -Wl,-z,now -Wl,-z,relro \
		-o $$@ $$^ -ldl -lpthread $$(LDFLAGS)
)
CONFORMANCE_PROGRAMS += $(addprefix $(CONFORMANCE_DIR)/$(1)/,inside.so hidden.so static nopie)
endef
CONFORMANCE_HIDDEN := -fvisibility=hidden -fvisibility-inlines-hidden -ffunction-sections -fdata-sections
$(foreach build,$(CONFORMANCE_MINI),$(eval $(call conformance_inside,$(build))))

# A wrapper and its SDK inside the program.
define conformance_wrapper
$(foreach mode,static nopie,
$(CONFORMANCE_DIR)/$(1)/$(mode)-driver.o: test/conformance/driver_$(CONFORMANCE_DRIVER_$(1)).c $(CONFORMANCE_HDRS)
	@mkdir -p $$(@D)
	$$(call say,HOST,$$@)
	$$(Q)$$(CC) $$(CONFORMANCE_CFLAGS) $(CONFORMANCE_DEFS_$(1)) $$(CONFORMANCE_HIDDEN_C) \
		$(CONFORMANCE_STATIC_$(mode)) -c -o $$@ $$<
$(CONFORMANCE_DIR)/$(1)/$(mode)-wrapper.o: test/haproxy/wrapper.cc test/haproxy/wrapper.h \
		| $$(call otelcpp_first,$(CONFORMANCE_STATIC_$(mode)))
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(2)) $$(HAPROXY_DEFS_$(3)) $$(CONFORMANCE_HIDDEN) \
		$(CONFORMANCE_STATIC_$(mode)) -c -o $$@ $$<
$(CONFORMANCE_DIR)/$(1)/$(mode): $(CONFORMANCE_DIR)/$(1)/$(mode)-driver.o \
		$(CONFORMANCE_DIR)/$(1)/$(mode)-wrapper.o $(CONFORMANCE_DIR)/$(2)/$(mode)-sdk.o $(CONFORMANCE_HOST)
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) $(CONFORMANCE_LDFLAGS_$(mode)) -s -Wl,--gc-sections -Wl,-z,now -Wl,-z,relro \
		-o $$@ $$^ -ldl -lpthread $$(LDFLAGS)
)
CONFORMANCE_PROGRAMS += $(addprefix $(CONFORMANCE_DIR)/$(1)/,static nopie)
endef
CONFORMANCE_HIDDEN_C := -ffunction-sections -fdata-sections
$(foreach sdk,haproxy22 haproxy33,$(eval $(call conformance_wrapper,$(sdk),$(CONFORMANCE_SDK_$(sdk)),$(CONFORMANCE_GENERATION_$(sdk)))))

TEST_PROGRAMS += $(CONFORMANCE_PROGRAMS)
MATRIX_TESTS += test/conformance/matrix.sh test/conformance/work.sh
