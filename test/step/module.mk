# SPDX-License-Identifier: Apache-2.0
#
# oracle: the single-step oracle, x86-64 only, because it needs a trap flag that a program can set itself. The
# workloads are ordinary code: no frame pointers, no builtins that would replace library calls, and lazy binding, so
# that the walk also passes the loader's resolver.
# gaps: a program that is mapped with gaps between its segments.
# reload: a library that another build of itself replaces; with these sizes both have the same code.

STEP_DIR := $(B)/test/step
STEP_CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra -Wshadow -I. -D_GNU_SOURCE= -fno-builtin \
	-fomit-frame-pointer -U_FORTIFY_SOURCE -MMD -MP
# The workloads are compiled in many ways, and the rest once.
STEP_WORK := workloads crypto throw
STEP_OBJECTS := $(addprefix $(STEP_DIR)/,oracle.o stepper.o reference.o second.o)
STEP_LIBS := $(B)/release/export.a $(B)/release/sampler.a
STEP_PROGRAMS := $(STEP_DIR)/oracle $(STEP_DIR)/gaps $(STEP_DIR)/reload

$(STEP_DIR)/%.o: test/step/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(STEP_CFLAGS) -c -o $@ $<

# $(call step_variant,directory,C compiler,C++ compiler,flags). The program exports dl_iterate_phdr,
# which reference.c replaces for libunwind.
define step_variant
$(1)/work/%.o: test/step/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$(2) $(STEP_CFLAGS) $(4) -c -o $$@ $$<

$(1)/work/%.o: test/step/%.cc
	@mkdir -p $$(@D)
	$$(call say,CXX,$$@)
	$$(Q)$(3) -std=gnu++17 -O2 -g -Wall -Wextra -I. -MMD -MP $(4) -c -o $$@ $$<

$(1)/oracle: $(STEP_OBJECTS) $(STEP_WORK:%=$(1)/work/%.o) $(STEP_LIBS)
	$$(call say,LD,$$@)
	$$(Q)$(CXX) -rdynamic -Wl,-z,lazy,--as-needed -o $$@ $$(filter %.o,$$^) \
		-Wl,--start-group $(STEP_LIBS) -Wl,--end-group $$(EXPORT_LIBS) -lm

-include $(STEP_WORK:%=$(1)/work/%.d)
endef

$(eval $(call step_variant,$(STEP_DIR),$(CC),$(CXX),))

# Every compiler and level of optimization, with and without frame pointers and with marked targets of indirect jumps.
ORACLE_VARIANTS := $(foreach cc,gcc clang,$(foreach level,O0 O1 O2 O3, \
	$(foreach frame,omit keep,$(foreach cf,none full,$(cc)-$(level)-$(frame)-$(cf)))))
ORACLE_FLAGS_omit := -fomit-frame-pointer
ORACLE_FLAGS_keep := -fno-omit-frame-pointer
oracle_word = $(word $(2),$(subst -, ,$(1)))
oracle_flags = -$(call oracle_word,$(1),2) $(ORACLE_FLAGS_$(call oracle_word,$(1),3)) \
	-fcf-protection=$(call oracle_word,$(1),4)
ORACLE_C_gcc := $(CC)
ORACLE_CXX_gcc := $(CXX)
ORACLE_C_clang := $(CLANG)
ORACLE_CXX_clang := $(CLANG:clang%=clang++%)
$(foreach v,$(ORACLE_VARIANTS),$(eval $(call step_variant,$(STEP_DIR)/$(v), \
	$(ORACLE_C_$(call oracle_word,$(v),1)),$(ORACLE_CXX_$(call oracle_word,$(v),1)), \
	$(call oracle_flags,$(v)))))
ORACLES := $(ORACLE_VARIANTS:%=$(STEP_DIR)/%/oracle)

# The libraries are the same in all variants: their code is stepped thoroughly once.
ORACLE_STEPS_ONCE := 150000
ORACLE_STEPS := 20000

.PHONY: oracle
oracle: $(STEP_DIR)/oracle $(ORACLES) ## the single-step oracle, over 32 ways to compile the workloads
	@for program in '$(STEP_DIR)/oracle all $(ORACLE_STEPS_ONCE)' $(ORACLES:%='% all $(ORACLE_STEPS)'); do \
		echo "$$program"; $$program || exit 1; done

$(STEP_DIR)/gaps: $(STEP_DIR)/gaps.o $(B)/release/sampler.a
	$(call say,LD,$@)
	$(Q)$(CC) -Wl,-z,max-page-size=0x200000,-z,separate-code -o $@ $^

$(STEP_DIR)/reload_a.so: RELOAD_BYTES := 1000
$(STEP_DIR)/reload_b.so: RELOAD_BYTES := 2000
$(STEP_DIR)/reload_a.so $(STEP_DIR)/reload_b.so: test/step/reload_lib.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(filter-out -MMD -MP,$(STEP_CFLAGS)) -DRELOAD_BYTES=$(RELOAD_BYTES) -fPIC -shared \
		-Wl,--build-id -o $@ $<

$(STEP_DIR)/reload: $(STEP_DIR)/reload.o $(B)/release/sampler.a | $(STEP_DIR)/reload_a.so \
		$(STEP_DIR)/reload_b.so
	$(call say,LD,$@)
	$(Q)$(CC) -Wl,-rpath,'$$ORIGIN' -o $@ $^

ifneq ($(findstring x86_64,$(shell $(CC) -dumpmachine 2>/dev/null)),)
TEST_PROGRAMS += $(STEP_PROGRAMS)
STRESS_TESTS += $(STEP_PROGRAMS)
stress: $(STEP_PROGRAMS)
endif

-include $(STEP_OBJECTS:.o=.d) $(STEP_DIR)/gaps.d $(STEP_DIR)/reload.d
