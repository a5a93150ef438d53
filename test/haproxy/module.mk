# SPDX-License-Identifier: Apache-2.0
#
# A stand-in for haproxytech/opentelemetry-c-wrapper over the small SDK of test/otelcpp. The SDK is inside the
# library, which exports only the creators, as in the original's usual build, with the interface of two generations;
# or beside it, as a separate shared library. Their hosts are those of test/conformance.

HAPROXY_DIR := $(B)/test/haproxy
HAPROXY_STEM := libopentelemetry-c-wrapper.so

# $(call haproxy_generation,folder,functions of a tracer,version,number of the SONAME,build of the SDK)
define haproxy_generation
HAPROXY_DEFS_$(1) := -DFIXTURE_API=$(2) '-DFIXTURE_RELEASE="$(3)"'
$(HAPROXY_DIR)/$(1)/wrapper.o: test/haproxy/wrapper.cc test/haproxy/wrapper.h test/otelcpp/provider.h | $(call otelcpp_first)
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$$(CXX) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_$(5)) $$(HAPROXY_DEFS_$(1)) -c -o $$@ $$<
$(HAPROXY_DIR)/$(1)/$(HAPROXY_STEM).$(4): $(HAPROXY_DIR)/$(1)/wrapper.o $(B)/test/otelcpp/$(5)/mini_sdk.o \
		test/haproxy/wrapper.map
	$$(call say,LD,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) $$(LDFLAGS) -shared -s -Wl,--version-script=test/haproxy/wrapper.map \
		-Wl,-soname,$(HAPROXY_STEM).$(4) -Wl,-z,nodelete -Wl,-z,relro -o $$@ $$(filter %.o,$$^)
endef

$(eval $(call haproxy_generation,2.2,9,2.2.1-204,5,v2_nostd))
$(eval $(call haproxy_generation,3.3,11,3.3.0-1234,9,v2_stl17))

HAPROXY_SHARED := $(HAPROXY_DIR)/shared/$(HAPROXY_STEM).9

$(HAPROXY_SHARED): $(HAPROXY_DIR)/3.3/wrapper.o $(B)/test/otelcpp/v2_stl17/libmini.so
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -shared -Wl,-soname,$(@F) -o $@ $^ \
		-Wl,-rpath,'$$ORIGIN/../../otelcpp/v2_stl17'
