# SPDX-License-Identifier: Apache-2.0
#
# The small SDK of test/otelcpp inside programs and plugins, linked in all forms in which these are shipped.
# forms.conf has the expected results.

FORMS_DIR := $(B)/test/forms
FORMS_SDKS := v1 v2

# Kinds of objects: $(FORMS_OBJECTS_<kind>_<sdk>). Most of them also serve other tests.
FORMS_OBJECTS_pie_v1 := $(FORMS_DIR)/v1/pie-driver.o $(B)/test/otelcpp/static_v1/mini_sdk.o
FORMS_OBJECTS_pie_v2 := $(FORMS_DIR)/v2/pie-driver.o $(B)/test/otelcpp/static_v2/mini_sdk.o
FORMS_OBJECTS_nopie_v1 := $(addprefix $(CONFORMANCE_DIR)/bsymbolic/,nopie-driver.o nopie-sdk.o)
FORMS_OBJECTS_nopie_v2 := $(addprefix $(CONFORMANCE_DIR)/v2_24/,nopie-driver.o nopie-sdk.o)
FORMS_OBJECTS_pic_v1 := $(CONFORMANCE_DIR)/bsymbolic/driver.o $(B)/test/otelcpp/bsymbolic/mini_sdk.o
FORMS_OBJECTS_pic_v2 := $(CONFORMANCE_DIR)/v2_24/driver.o $(B)/test/otelcpp/v2_24/mini_sdk.o

# A compiler that makes no position-independent code by default, with an archive of position-independent code.
FORMS_OBJECTS_archive_v1 := $(CONFORMANCE_DIR)/bsymbolic/nopie-driver.o $(B)/test/otelcpp/bsymbolic/mini_sdk.o
FORMS_OBJECTS_archive_v2 := $(CONFORMANCE_DIR)/v2_24/nopie-driver.o $(B)/test/otelcpp/static_v2/mini_sdk.o

# Kinds that are compiled for this: the compiler, the flags, and the SDKs, because compiling is most of the work.
FORMS_CLANGXX ?= clang++
FORMS_KINDS := attach cet libcxx lto clang clang_lto clang_vtables clang_attach relative
FORMS_CXXFLAGS_pie :=
# A class of storages overrides only attach.
FORMS_CXXFLAGS_attach := -DDRIVER_ATTACH_ALONE
FORMS_CXXFLAGS_cet := -fcf-protection=full
FORMS_CXXFLAGS_lto := -flto
FORMS_CXXFLAGS_libcxx := -DMINI_LIBCXX
FORMS_CXXFLAGS_clang := -faddrsig
FORMS_CXXFLAGS_clang_lto := -flto
FORMS_CXXFLAGS_clang_vtables := -flto -fwhole-program-vtables -DDRIVER_ONE_STORAGE
# Here attach is called through the vtable and detach directly.
FORMS_CXXFLAGS_clang_attach := -flto -fwhole-program-vtables -DDRIVER_ATTACH_ALONE
# The library's classes have the usual vtables, so the program does not use them.
FORMS_CXXFLAGS_relative := -fexperimental-relative-c++-abi-vtables -DDRIVER_OWN_CLASSES
FORMS_ONLY_attach := v1
FORMS_ONLY_cet := v1
FORMS_ONLY_lto := v2
FORMS_ONLY_libcxx := v1
FORMS_ONLY_clang := v1
FORMS_ONLY_clang_lto := v2
FORMS_ONLY_clang_vtables := v1
FORMS_ONLY_clang_attach := v1
FORMS_ONLY_relative := v1
FORMS_CXX_clang = $(FORMS_CLANGXX)
FORMS_CXX_clang_lto = $(FORMS_CLANGXX)
FORMS_CXX_clang_vtables = $(FORMS_CLANGXX)
FORMS_CXX_clang_attach = $(FORMS_CLANGXX)
FORMS_CXX_relative = $(FORMS_CLANGXX)

# $(call forms_compile,sdk,kind,suffix,source)
define forms_compile
$(FORMS_DIR)/$(1)/$(2)-$(3).o: $(4) $(CONFORMANCE_HDRS) test/otelcpp/libcxx_block.h $$(OTELCPP_API_static_$(1)) \
		| $$(call otelcpp_first,$$(OTELCPP_FLAGS_static_$(1)))
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$(or $(FORMS_CXX_$(2)),$$(CXX)) $$(OTELCPP_CXXFLAGS) $$(OTELCPP_FLAGS_static_$(1)) -g0 \
		-DDRIVER_MINI $(FORMS_CXXFLAGS_$(2)) -c -o $$@ $$<
endef
# $(call forms_kind,sdk,kind)
define forms_kind
$(call forms_compile,$(1),$(2),driver,test/conformance/driver_otelcpp.cc)
$(call forms_compile,$(1),$(2),sdk,test/otelcpp/mini_sdk.cc)
FORMS_OBJECTS_$(2)_$(1) := $(FORMS_DIR)/$(1)/$(2)-driver.o $(FORMS_DIR)/$(1)/$(2)-sdk.o
endef
$(foreach sdk,$(FORMS_SDKS),$(eval $(call forms_compile,$(sdk),pie,driver,test/conformance/driver_otelcpp.cc))\
	$(foreach kind,$(FORMS_KINDS),$(eval $(call forms_kind,$(sdk),$(kind)))))
# $(call forms_sdks,form)
forms_sdks = $(or $(FORMS_ONLY_$(FORMS_KIND_$(1))),$(FORMS_SDKS))

# The objects and flags of a form, and its linker unless that is the C++ compiler.
FORMS_STATIC := -static-libstdc++ -static-libgcc -Wl,--gc-sections
FORMS_RUN := static plain relr norelro attach cet libcxx lto nopie nopie_code nopie_archive
FORMS_KIND_static := pie
FORMS_FLAGS_static := -pie $(FORMS_STATIC) -Wl,-z,now
FORMS_KIND_plain := pie
FORMS_FLAGS_plain := -pie -Wl,-z,lazy
FORMS_KIND_relr := pie
FORMS_FLAGS_relr := -pie -Wl,-z,pack-relative-relocs
FORMS_KIND_norelro := pie
FORMS_FLAGS_norelro := -pie -Wl,-z,norelro -Wl,-z,noseparate-code
FORMS_KIND_attach := attach
FORMS_FLAGS_attach := -pie
FORMS_KIND_cet := cet
FORMS_FLAGS_cet := -pie -fcf-protection=full -Wl,-z,ibtplt,-z,shstk
FORMS_KIND_libcxx := libcxx
FORMS_FLAGS_libcxx := -pie $(FORMS_STATIC)
FORMS_KIND_lto := lto
FORMS_FLAGS_lto := -pie -O2 -flto -flto-partition=one -fvisibility=hidden -Wl,--gc-sections
FORMS_KIND_nopie := nopie
FORMS_FLAGS_nopie := -no-pie $(FORMS_STATIC)
FORMS_KIND_nopie_archive := archive
FORMS_FLAGS_nopie_archive := -no-pie $(FORMS_STATIC)
FORMS_KIND_nopie_code := nopie
FORMS_FLAGS_nopie_code := -no-pie -Wl,-z,noseparate-code

FORMS_RUN += $(if $(shell command -v ld.gold),gold gold_safe gold_icf)
$(foreach form,gold gold_safe gold_icf,$(eval FORMS_KIND_$(form) := pie))
FORMS_FLAGS_gold := -pie -fuse-ld=gold
FORMS_FLAGS_gold_safe := -pie -fuse-ld=gold -Wl,--icf=safe,--gc-sections
FORMS_FLAGS_gold_icf := -pie -fuse-ld=gold $(FORMS_STATIC) -Wl,--icf=all

FORMS_RUN += $(if $(shell command -v ld.lld),lld lld_icf lld_nopie lld_nopie_code)
$(foreach form,lld lld_icf,$(eval FORMS_KIND_$(form) := pie))
$(foreach form,lld_nopie lld_nopie_code,$(eval FORMS_KIND_$(form) := nopie))
FORMS_FLAGS_lld := -pie -fuse-ld=lld
FORMS_FLAGS_lld_icf := -pie -fuse-ld=lld $(FORMS_STATIC) -Wl,--icf=all
FORMS_FLAGS_lld_nopie := -no-pie -fuse-ld=lld
FORMS_FLAGS_lld_nopie_code := -no-pie -fuse-ld=lld -Wl,--no-rosegment

FORMS_RUN += $(if $(shell command -v $(FORMS_CLANGXX)),clang relative)
FORMS_RUN += $(if $(and $(shell command -v ld.lld),$(shell command -v $(FORMS_CLANGXX))),clang_safe clang_lto clang_vtables clang_attach)
$(foreach form,clang clang_safe,$(eval FORMS_KIND_$(form) := clang))
$(foreach form,clang clang_safe clang_lto clang_vtables clang_attach relative,$(eval FORMS_LD_$(form) = $(FORMS_CLANGXX)))
FORMS_KIND_relative := relative
FORMS_KIND_clang_lto := clang_lto
FORMS_KIND_clang_vtables := clang_vtables
FORMS_KIND_clang_attach := clang_attach
FORMS_FLAGS_clang := -pie
FORMS_FLAGS_clang_safe := -pie -fuse-ld=lld -Wl,--icf=safe,--gc-sections
FORMS_FLAGS_clang_lto := -pie -fuse-ld=lld -O2 -flto
FORMS_FLAGS_clang_vtables := -pie -fuse-ld=lld -O2 -flto -fwhole-program-vtables
FORMS_FLAGS_clang_attach := $(FORMS_FLAGS_clang_vtables)
FORMS_FLAGS_relative := -pie

FORMS_PLUGINS := plugin_static $(if $(shell command -v ld.gold),plugin_gold) \
	$(if $(shell command -v ld.lld),plugin_lld)
FORMS_FLAGS_plugin_static := $(FORMS_STATIC) -Wl,-z,now
FORMS_FLAGS_plugin_gold := -fuse-ld=gold $(FORMS_STATIC) -Wl,--icf=all
FORMS_FLAGS_plugin_lld := -fuse-ld=lld $(FORMS_STATIC) -Wl,--icf=all

# $(call form_program,sdk,form)
define form_program
$(FORMS_DIR)/$(1)/$(2): $(FORMS_OBJECTS_$(FORMS_KIND_$(2))_$(1)) $(CONFORMANCE_HOST)
	@mkdir -p $$(@D)
	$$(call say,HOST,$$@)
	$$(Q)$(or $(FORMS_LD_$(2)),$$(CXX)) $$(CXXFLAGS) $$(FORMS_FLAGS_$(2)) -s -o $$@ $$^ -ldl -lpthread $$(LDFLAGS)
FORMS_PROGRAMS += $(FORMS_DIR)/$(1)/$(2)
endef
# $(call form_plugin,sdk,form): a plugin that exports one symbol
define form_plugin
$(FORMS_DIR)/$(1)/$(2).so: $(FORMS_OBJECTS_pic_$(1)) test/conformance/hidden.map
	@mkdir -p $$(@D)
	$$(call say,HOST,$$@)
	$$(Q)$$(CXX) $$(CXXFLAGS) -shared $$(FORMS_FLAGS_$(2)) -s \
		-Wl,--version-script=test/conformance/hidden.map -o $$@ $$(filter %.o,$$^) -lpthread $$(LDFLAGS)
FORMS_PROGRAMS += $(FORMS_DIR)/$(1)/$(2).so
endef
$(foreach form,$(FORMS_RUN),$(foreach sdk,$(call forms_sdks,$(form)),$(eval $(call form_program,$(sdk),$(form)))))
$(foreach form,$(FORMS_PLUGINS),$(foreach sdk,$(FORMS_SDKS),$(eval $(call form_plugin,$(sdk),$(form)))))

$(FORMS_DIR)/opener: $(CONFORMANCE_DIR)/opener
	@mkdir -p $(@D)
	$(Q)ln -f $< $@
FORMS_PROGRAMS += $(FORMS_DIR)/opener

TEST_PROGRAMS += $(FORMS_PROGRAMS)
E2E_TESTS += test/forms/forms.sh
-include $(wildcard $(FORMS_DIR)/*/*.d)
