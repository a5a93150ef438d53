# SPDX-License-Identifier: Apache-2.0
#
# Everything once more for aarch64: built by the cross compiler against Debian's arm64 packages, which are unpacked
# into a folder, and run by qemu's user emulation. A test that needs one processor or its own kernel says so and is
# skipped.

ARM_ROOT := $(B)/aarch64-root
ARM_SYSROOT := $(abspath $(ARM_ROOT))/root
ARM_B := $(B)/aarch64
ARM_EXEC := $(ARM_B)/test/exec.so
ARM_TRIPLET := aarch64-linux-gnu
ARM_PKG := $(ARM_SYSROOT)/usr/lib/$(ARM_TRIPLET)/pkgconfig:$(ARM_SYSROOT)/usr/share/pkgconfig

ARM_E2E := $(addprefix test/,$(addsuffix .sh,e2e/exporter_process e2e/otelc_calls e2e/otelcpp_builds conformance/work))
# The host programs of these take a minute to compile.
ARM_E2E_LONG := $(addprefix test/e2e/,otelcpp_instances.sh otelcpp_layouts.sh otelcpp_static.sh)
# The exporter reads its host's /proc, which is the emulator's here.
ARM_UNIT_TESTS := $(filter-out $(ARM_B)/release/test/unit/exporter/%,$(UNIT_SRCS:%.c=$(ARM_B)/release/%))
# An emulator has its own threads, which would be counted, and cannot single-step. It also has its own locks, which
# are not prepared for forks of programs with many threads.
ARM_STRESS_TESTS := $(patsubst %.c,$(ARM_B)/release/%, \
	$(filter-out %_step.c %/thread_churn.c %/vtable_slots.c,$(STRESS_SRCS)))

arm_make = env PKG_CONFIG_SYSROOT_DIR='$(ARM_SYSROOT)' PKG_CONFIG_LIBDIR='$(ARM_PKG)' \
	$(MAKE) --no-print-directory B=$(ARM_B) CC='$(ARM_TRIPLET)-gcc --sysroot=$(ARM_SYSROOT)' \
	CXX='$(ARM_TRIPLET)-g++ --sysroot=$(ARM_SYSROOT)'

# The facts about the emulator for the test runner and the scripts.
define ARM_EMULATOR
TEST_BUILD='$(abspath $(ARM_B))'
TEST_EMULATOR='qemu-aarch64 -L $(ARM_SYSROOT)'
TEST_EMULATOR_ROOT='$(ARM_SYSROOT)'
TEST_EMULATOR_EXEC='$(abspath $(ARM_EXEC))'
endef
export ARM_EMULATOR

# The mirror of this machine may have no arm64 packages; evaluated after the build was tried.
arm_there = $(shell test -e $(ARM_ROOT)/.done && echo there)
arm_items = $(if $(arm_there),$(call as,unit,$(1)) $(call as,stress,$(2)) \
	$(call as,cross,$(3)),'skip=aarch64: no arm64 packages to be had')
# The short form: tests that depend on the processor.
arm_short = $(call arm_items,$(ARM_SHORT_UNIT_TESTS),,$(ARM_E2E))

# Registers, frames, relocations, numbers of system calls, layouts of the kernel and of SDKs.
ARM_SHORT_UNIT_TESTS := $(patsubst %,$(ARM_B)/release/test/unit/%, \
	$(addprefix core/test_,foreign_context handler signals span_table thread thread_context) \
	$(addprefix sampler/test_,cfi fast_path snapshot stack_bounds unwind unwind_coroutine unwind_hostile) \
	$(addprefix preload/test_,elf_image elf_walk exporter_process otelcpp trial))
# Exactly the programs that it runs, because most host programs take seconds each to compile.
ARM_SHORT_PROGRAMS = $(patsubst $(B)/%,$(ARM_B)/%,$(CORE_SO) $(EXPORTER) $(OTELC_OLD) $(OTELC_DIR)/foreign $(OTELCPP_DIR)/stranger \
	$(patsubst %,$(CONFORMANCE_DIR)/%/lazy,otelc debian) $(patsubst %,$(OTELCPP_DIR)/%/stories,$(filter-out $(OTELCPP_FOREIGN),$(OTELCPP_STORIES)) own_vtable) \
	$(addprefix $(B)/test/,hosts/starter exporter-stand-in))

.PHONY: aarch64 aarch64-all aarch64-build aarch64-short
aarch64: ## cross-compile everything and run all that can run under qemu's user emulation (installs its packages first)
	$(call install_deps,build demo test cross)
	@$(MAKE) --no-print-directory aarch64-all

aarch64-all: all aarch64-build
	@$(RUN) $(call arm_items,$(ARM_UNIT_TESTS),$(ARM_STRESS_TESTS),$(ARM_E2E) $(ARM_E2E_LONG))

# $(call arm_build,targets)
define arm_build
+@[[ ! -e $(ARM_ROOT)/.done ]] || $(arm_make) $(ARM_EXEC) $(1)
@[[ ! -e $(ARM_ROOT)/.done ]] || echo "$$ARM_EMULATOR" >$(ARM_B)/emulator
endef

aarch64-build: $(ARM_ROOT)/.tried
	$(call arm_build,all test-programs $(ARM_UNIT_TESTS) $(ARM_STRESS_TESTS))

aarch64-short: $(ARM_ROOT)/.tried
	$(call arm_build,$(ARM_SHORT_PROGRAMS) $(ARM_SHORT_UNIT_TESTS))

$(ARM_ROOT)/.tried: scripts/arm64-root.sh
	@mkdir -p $(@D)
	$(call say,ROOT,$(ARM_ROOT))
	$(Q)scripts/arm64-root.sh $(ARM_ROOT) >$(ARM_ROOT)/log 2>&1 && touch $(ARM_ROOT)/.done \
		|| { rm -f $(ARM_ROOT)/.done; tail -n 3 $(ARM_ROOT)/log; }
	@touch $@

$(B)/test/exec.so: test/aarch64/exec.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O2 -Wall -Wextra -fPIC -shared -o $@ $<
