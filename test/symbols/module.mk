# SPDX-License-Identifier: Apache-2.0
#
# Names and lines of addresses compared with binutils. "make test" asks about 1,000 addresses of each program, "make
# symbols" about 10,000.

SYMBOLS_DIR := $(B)/test/symbols
SYMBOLS_LOOKUP := $(SYMBOLS_DIR)/lookup
SYMBOLS_BENCH := $(SYMBOLS_DIR)/bench
SYMBOLS_CC := $(addprefix $(SYMBOLS_DIR)/,templates templates-split templates-dwarf4 templates-types templates-clang)
SYMBOLS_SHAPES := $(SYMBOLS_DIR)/shapes

$(SYMBOLS_DIR)/%.o: test/symbols/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) -Itest/symbols $(CFLAGS_ALL) -O2 $(CFLAGS) -MMD -MP -c -o $@ $<

$(SYMBOLS_LOOKUP) $(SYMBOLS_BENCH): %: %.o $(SYMBOLS_DIR)/image.o $(B)/release/export.a \
		$(B)/release/sampler.a
	$(call link_program,release)

# The same program with each kind of debug information. This binutils reads no inlined functions of
# clang's DWARF 5.
SYMBOLS_CXX_templates := $(CXX) -g
SYMBOLS_CXX_templates-split := $(CXX) -g -gsplit-dwarf
SYMBOLS_CXX_templates-dwarf4 := $(CXX) -gdwarf-4
SYMBOLS_CXX_templates-types := $(CXX) -g -fdebug-types-section
SYMBOLS_CXX_templates-clang := $(CLANG:clang%=clang++%) -gdwarf-4

$(SYMBOLS_CC): test/symbols/templates.cc
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(SYMBOLS_CXX_$(@F)) -std=gnu++17 -O2 -Wall -Wextra -o $@ $<

$(SYMBOLS_SHAPES): test/symbols/shapes.cc
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -g -std=gnu++17 -O2 -Wall -Wextra -o $@ $<

# These questions are about files, so they are not asked for another processor.
ifeq ($(findstring --sysroot,$(CC)),)
TEST_PROGRAMS += $(SYMBOLS_LOOKUP) $(SYMBOLS_BENCH) $(SYMBOLS_CC) $(SYMBOLS_SHAPES)
endif

.PHONY: symbols
symbols: ## names and lines of 10,000 addresses a program against binutils (installs its packages first)
	$(call install_deps,build demo test symbols)
	@$(MAKE) --no-print-directory all test-programs demo-programs
	@SYMBOLS_ADDRESSES=10000 $(RUN) $(call as,e2e,$(wildcard test/e2e/symbols*.sh))

# The compiled programs stay, and the README's table is written if NAMES_README is set.
.PHONY: names
names: ## functions, files and lines of 10,000 addresses against gdb, for each compiler that is installed (installs its packages first)
	$(call install_deps,build test symbols names)
	@$(MAKE) --no-print-directory all test-programs
	@$(PYTHON) test/symbols/names.py faults $(SYMBOLS_DIR)/templates 200
	@$(PYTHON) test/symbols/names.py all 10000 $(SYMBOLS_DIR)/names $(if $(NAMES_README),--readme)

-include $(SYMBOLS_LOOKUP).d $(SYMBOLS_BENCH).d $(SYMBOLS_DIR)/image.d
