# SPDX-License-Identifier: Apache-2.0
#
# oracle: the single-step oracle, x86-64 only, because it needs a trap flag that a program can set itself.
# The workloads are ordinary code: no frame pointers, no builtins that would replace library calls,
# and lazy binding, so that the loader's resolver is walked too.
# gaps: a program that is mapped with gaps between its segments.
# reload: a library that is replaced by another build of itself; the sizes make the same code.

STEP_DIR := $(B)/test/step
STEP_CFLAGS := -std=gnu11 -O2 -g -Wall -Wextra -Wshadow -I. -D_GNU_SOURCE= -fno-builtin \
	-fomit-frame-pointer -U_FORTIFY_SOURCE -MMD -MP
STEP_OBJECTS := $(addprefix $(STEP_DIR)/,oracle.o stepper.o reference.o workloads.o crypto.o throw.o)
STEP_PROGRAMS := $(STEP_DIR)/oracle $(STEP_DIR)/gaps $(STEP_DIR)/reload

$(STEP_DIR)/%.o: test/step/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(STEP_CFLAGS) -c -o $@ $<

$(STEP_DIR)/%.o: test/step/%.cc
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -std=gnu++17 -O2 -g -Wall -Wextra -I. -MMD -MP -c -o $@ $<

# Exports dl_iterate_phdr, which reference.c replaces for libunwind.
$(STEP_DIR)/oracle: $(STEP_OBJECTS) $(B)/release/sampler.a
	$(call say,LD,$@)
	$(Q)$(CXX) -rdynamic -Wl,-z,lazy -o $@ $(STEP_OBJECTS) $(B)/release/sampler.a -lm

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
