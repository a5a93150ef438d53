# SPDX-License-Identifier: Apache-2.0
#
# The stories with Debian's newest opentelemetry-cpp, its own loader and its own C library. Needs the network, so it
# is no part of "make test".

LATEST_DIR := $(B)/test/sdk-latest
LATEST_ROOT := $(abspath $(LATEST_DIR))/root
LATEST_LIBS := $(LATEST_ROOT)/usr/lib/x86_64-linux-gnu
# fetch.sh rewrites it when a package changed.
LATEST_STAMP := $(LATEST_DIR)/version

LATEST_CXXFLAGS = -std=gnu++17 -O2 -g -fPIC -fno-omit-frame-pointer -Wall -I. -isystem $(LATEST_ROOT)/include \
	-DOPENTELEMETRY_ABI_VERSION_NO=1 -MMD -MP $(CXXFLAGS)
# As if it were installed: that loader, and its libraries for all objects that the program opens. This machine's
# linker only knows older versions of the libraries below the SDK.
LATEST_LDFLAGS := -Wl,--dynamic-linker=$(LATEST_ROOT)/usr/lib64/ld-linux-x86-64.so.2 \
	-Wl,--disable-new-dtags,-rpath,$(LATEST_LIBS),-rpath,$(abspath $(LATEST_DIR)) \
	-Wl,--allow-shlib-undefined -L$(LATEST_LIBS)
LATEST_OTEL := -lopentelemetry_trace -lopentelemetry_resources -lopentelemetry_common \
	-lopentelemetry_exporter_ostream_span -lopentelemetry_exporter_otlp_http

LATEST_SDK_OBJECTS := $(patsubst test/sdk/%.cc,$(LATEST_DIR)/sdk/%.o,$(wildcard test/sdk/*.cc))
LATEST_PROVIDER := $(LATEST_DIR)/otelcpp/provider.o $(LATEST_DIR)/sdk/json_exporter.o
LATEST_WRAPPER := $(LATEST_DIR)/libopentelemetry-c.so.1

$(LATEST_DIR)/%.o: test/%.cc $(LATEST_STAMP)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(LATEST_CXXFLAGS) -c -o $@ $<

$(LATEST_DIR)/conformance/driver_otelcpp-noplt.o: test/conformance/driver_otelcpp.cc $(LATEST_STAMP)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(LATEST_CXXFLAGS) -fno-plt -c -o $@ $<

$(LATEST_WRAPPER): $(LATEST_SDK_OBJECTS)
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LATEST_LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ $(LATEST_OTEL)

$(LATEST_DIR)/opener: $(CONFORMANCE_HOST)
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CFLAGS) $(LATEST_LDFLAGS) -o $@ $^ -ldl -lpthread

# The other SDK of a process with two.
$(LATEST_DIR)/otelc: | $(LATEST_STAMP)
	$(Q)ln -sfn ../conformance/otelc $@

# $(call latest_mode,mode)
define latest_mode
$(LATEST_DIR)/latest/$(1): $(LATEST_DIR)/conformance/driver_otelcpp$(if $(filter noplt,$(1)),-noplt).o \
		$(CONFORMANCE_HOST) $(LATEST_PROVIDER)
	@mkdir -p $$(@D)
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) $$(filter-out -fno-plt,$(CONFORMANCE_FLAGS_$(1))) $$(LATEST_LDFLAGS) \
		-o $$@ $$(filter %.o,$$^) $$(LATEST_OTEL) -ldl -lpthread
$(LATEST_DIR)/wrapper/$(1): test/conformance/driver_dorsal.c $(CONFORMANCE_HOST) $(LATEST_WRAPPER)
	@mkdir -p $$(@D)
	$$(call say,HOST,$$@)
	$$(Q)$$(CC) $$(CONFORMANCE_CFLAGS) $(CONFORMANCE_FLAGS_$(1)) $$(LATEST_LDFLAGS) -o $$@ $$< \
		$(CONFORMANCE_HOST) $(LATEST_WRAPPER) -ldl -lpthread
LATEST_PROGRAMS += $(LATEST_DIR)/latest/$(1) $(LATEST_DIR)/wrapper/$(1)
endef
LATEST_PROGRAMS := $(LATEST_DIR)/opener $(LATEST_DIR)/otelc
$(foreach mode,lazy now noplt,$(eval $(call latest_mode,$(mode))))

$(LATEST_DIR)/latest/plugin.so: $(LATEST_DIR)/conformance/driver_otelcpp.o $(LATEST_PROVIDER)
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LATEST_LDFLAGS) -shared -o $@ $^ $(LATEST_OTEL)

$(LATEST_DIR)/wrapper/plugin.so: test/conformance/driver_dorsal.c $(LATEST_WRAPPER)
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CONFORMANCE_CFLAGS) $(LATEST_LDFLAGS) -shared -o $@ $< $(LATEST_WRAPPER)

LATEST_PROGRAMS += $(LATEST_DIR)/latest/plugin.so $(LATEST_DIR)/wrapper/plugin.so

# Built from its sources as in most programs: linked in, hidden and stripped. All files of its core are one
# compilation unit, because each would take as long to compile.
LATEST_SOURCE := $(abspath $(LATEST_DIR))/source

$(LATEST_DIR)/static/sdk.cc: $(LATEST_STAMP)
	@mkdir -p $(@D)
	$(Q)printf '#include "%s"\n' \
		$(LATEST_SOURCE)/sdk/src/{common,resource,trace,trace/samplers,version}/*.cc \
		$(LATEST_SOURCE)/sdk/src/common/platform/*_unix.cc >$@

$(LATEST_DIR)/static/%.o: LATEST_CXXFLAGS += $(CONFORMANCE_HIDDEN)
$(LATEST_DIR)/static/sdk.o: $(LATEST_DIR)/static/sdk.cc
	$(call say,CXX,$@)
	$(Q)$(CXX) $(LATEST_CXXFLAGS) -I$(LATEST_SOURCE)/sdk -I$(LATEST_SOURCE) -w -c -o $@ $<

$(LATEST_DIR)/static/%.o: test/%.cc $(LATEST_STAMP)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(LATEST_CXXFLAGS) -c -o $@ $<

LATEST_STATIC := $(addprefix $(LATEST_DIR)/static/,sdk.o conformance/driver_otelcpp.o otelcpp/provider.o \
	sdk/json_exporter.o)

$(LATEST_DIR)/latest/static: $(CONFORMANCE_HOST) $(LATEST_STATIC)
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LATEST_LDFLAGS) -s -Wl,--gc-sections -o $@ $^ -ldl -lpthread

$(LATEST_DIR)/latest/hidden.so: $(LATEST_STATIC) test/conformance/hidden.map
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LATEST_LDFLAGS) -shared -s -Wl,--version-script=test/conformance/hidden.map \
		-o $@ $(LATEST_STATIC)

LATEST_PROGRAMS += $(if $(wildcard $(LATEST_SOURCE)/sdk/src), \
	$(LATEST_DIR)/latest/static $(LATEST_DIR)/latest/hidden.so)

.PHONY: sdk-latest sdk-latest-programs
sdk-latest-programs: $(LATEST_PROGRAMS)

sdk-latest: all test-programs ## the stories on the newest opentelemetry-cpp that Debian has (needs network and minutes)
	@bash test/sdk-latest/fetch.sh $(LATEST_DIR)
	@$(MAKE) --no-print-directory sdk-latest-programs
	@bash test/sdk-latest/run.sh

-include $(wildcard $(LATEST_DIR)/*/*.d)
