# SPDX-License-Identifier: Apache-2.0
#
# A stand-in for haproxytech/opentelemetry-c-wrapper in the layouts of its releases, with the name
# and the version that each of them had, a host for each, releases that are not known, and a library
# that only shares a name.

HAPROXY_DIR := $(B)/test/haproxy
HAPROXY_STEM := libopentelemetry-c-wrapper.so
HAPROXY_LIB_SRCS := $(addprefix test/haproxy/,record.c spans.c tracer.c)
HAPROXY_HOST_SRCS := $(addprefix test/haproxy/,stories.c tell.c)
HAPROXY_HDRS := $(wildcard test/haproxy/*.h) test/hosts/host.h $(addprefix test/common/,fixture.h story.h)

# $(call haproxy_link,flags)
define haproxy_link
@mkdir -p $(@D)
$(call say,HOST,$@)
$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $(filter %.c,$^) $(1) $(LDFLAGS)
endef

# $(call haproxy_release,folder,functions of a tracer,version,number of the SONAME,more flags): linked
# as the original is. The script hides all but the creators, as the original's does.
define haproxy_release
HAPROXY_LIBS += $(HAPROXY_DIR)/$(1)/$(HAPROXY_STEM).$(4)
HAPROXY_HOSTS += $(HAPROXY_DIR)/$(1)/stories
$(HAPROXY_DIR)/$(1)/$(HAPROXY_STEM).$(4): $(HAPROXY_LIB_SRCS) $(HAPROXY_HDRS) test/haproxy/wrapper.map
	$$(call haproxy_link,-shared -DFIXTURE_API=$(2) '-DFIXTURE_RELEASE="$(3)"' $(5) \
		-Wl$$(comma)-soname$$(comma)$(HAPROXY_STEM).$(4) \
		-Wl$$(comma)--version-script=test/haproxy/wrapper.map \
		-Wl$$(comma)-z$$(comma)nodelete -Wl$$(comma)-z$$(comma)relro -lpthread)
$(HAPROXY_DIR)/$(1)/stories: $(HAPROXY_HOST_SRCS) $(HAPROXY_HDRS) $(HAPROXY_DIR)/$(1)/$(HAPROXY_STEM).$(4)
	$$(call haproxy_link,-DFIXTURE_API=$(2) $(5) $(HAPROXY_DIR)/$(1)/$(HAPROXY_STEM).$(4) \
		-Wl$$(comma)--enable-new-dtags$$(comma)-rpath$$(comma)'$$$$ORIGIN' -lpthread)
endef

$(eval $(call haproxy_release,1.0,9,1.0.2-17,0,))
$(eval $(call haproxy_release,2.2,9,2.2.1-204,5,))
$(eval $(call haproxy_release,3.2,10,3.2.0-1001,7,))
$(eval $(call haproxy_release,3.3,11,3.3.0-1234,9,))
$(eval $(call haproxy_release,4.0,40,4.0.0-2000,10,))
$(eval $(call haproxy_release,unversioned,9,none,0,-DFIXTURE_NO_VERSION))

$(HAPROXY_DIR)/libforeign.so: test/haproxy/foreign.c
	$(call haproxy_link,-shared)

$(HAPROXY_DIR)/foreign: test/haproxy/foreign.c $(HAPROXY_DIR)/libforeign.so
	$(call haproxy_link,-DHOST $(HAPROXY_DIR)/libforeign.so -Wl$(comma)-rpath$(comma)'$$ORIGIN')

# The host of 3.3 finds it by LD_LIBRARY_PATH.
HAPROXY_OVER_CPP := $(HAPROXY_DIR)/over_cpp/$(HAPROXY_STEM).9
HAPROXY_CPP_SDK := $(B)/test/otelcpp/v2_stl17/libmini.so

$(HAPROXY_OVER_CPP): test/haproxy/over_cpp.cc test/haproxy/wrapper.h $(HAPROXY_CPP_SDK)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) $(OTELCPP_CXXFLAGS) $(OTELCPP_FLAGS_v2_stl17) -fvisibility=hidden $(LDFLAGS) -shared \
		-MF $(@D)/over_cpp.d -o $@ $< $(HAPROXY_CPP_SDK) -Wl,-soname,$(@F) \
		-Wl,-rpath,'$$ORIGIN/../../otelcpp/v2_stl17'

TEST_PROGRAMS += $(HAPROXY_LIBS) $(HAPROXY_HOSTS) $(HAPROXY_DIR)/foreign \
	$(HAPROXY_OVER_CPP)

# test/stress/haproxy_table.c
define haproxy_stress
$(B)/$(1)/test/stress/haproxy_table: $(B)/$(1)/preload.a
endef
$(foreach flavour,release tsan,$(eval $(call haproxy_stress,$(flavour))))
