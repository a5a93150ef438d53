# SPDX-License-Identifier: Apache-2.0
#
# The test SDK: libopentelemetry-c.so.1, the C interface that test hosts and the demo use, over the distribution's
# opentelemetry-cpp. Programs that use it link with $(TEST_SDK_LDLIBS) and depend on $(B)/test/libopentelemetry-c.so.
# That name is spelled out, because prerequisites of a module that is read before this one cannot use the variable.

TEST_SDK_LIB := $(B)/test/libopentelemetry-c.so.1
TEST_SDK_DEV := $(B)/test/libopentelemetry-c.so

# For programs in a folder directly below $(B)/test; with the rpath they run from anywhere.
TEST_SDK_LDLIBS := -L$(B)/test -lopentelemetry-c -Wl,-rpath,'$$ORIGIN/..'

# Debian builds opentelemetry-cpp with its Abseil, and the variant type is part of the ABI.
TEST_SDK_CXXFLAGS := -std=gnu++17 -O2 -fPIC -fno-omit-frame-pointer -Wall -Wextra -Wshadow \
	-I. $(OTELCPP_FIRST) -DHAVE_ABSEIL -DOPENTELEMETRY_ABI_VERSION_NO=1 -MMD -MP
# Abseil of 2025 and newer uses std::variant, and has no library for its own variant.
TEST_SDK_VARIANT = $(call lazy,TEST_SDK_VARIANT,$(if \
	$(filter /%,$(shell $(CXX) -print-file-name=libabsl_bad_variant_access.so)),-labsl_bad_variant_access))
TEST_SDK_OTEL = -lopentelemetry_trace -lopentelemetry_resources -lopentelemetry_common \
	-lopentelemetry_exporter_ostream_span -lopentelemetry_exporter_otlp_http \
	$(TEST_SDK_VARIANT)

TEST_SDK_OBJECTS := $(patsubst test/sdk/%.cc,$(B)/test/sdk/%.o,$(wildcard test/sdk/*.cc))

$(TEST_SDK_OBJECTS): $(B)/test/sdk/%.o: test/sdk/%.cc | $(call otelcpp_first)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(TEST_SDK_CXXFLAGS) $(CXXFLAGS) -c -o $@ $<

$(TEST_SDK_LIB): $(TEST_SDK_OBJECTS)
	$(call say,LD,$@)
	$(Q)$(CXX) $(CXXFLAGS) $(LDFLAGS) -shared -Wl,-z,defs \
		-Wl,-soname,libopentelemetry-c.so.1 -o $@ $^ $(TEST_SDK_OTEL)

$(TEST_SDK_DEV): $(TEST_SDK_LIB)
	$(Q)ln -sf libopentelemetry-c.so.1 $@

-include $(TEST_SDK_OBJECTS:.o=.d)
