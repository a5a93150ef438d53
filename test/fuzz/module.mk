# SPDX-License-Identifier: Apache-2.0
#
# Fuzzers of all code that reads foreign data. "make test" runs each on its corpus and for a second, "make fuzz" for a
# minute.

FUZZ_DIR := $(B)/fuzz
FUZZ_NAMES := $(patsubst test/fuzz/%.c,%,$(wildcard test/fuzz/*.c))
FUZZERS := $(FUZZ_NAMES:%=$(FUZZ_DIR)/%)
FUZZ_SECONDS ?= 60
FUZZ_CFLAGS := -std=gnu11 -g -O1 -fno-omit-frame-pointer -fsanitize=address,undefined \
	-fno-sanitize-recover=all -Wall -Wextra -Werror

$(FUZZ_DIR)/%.o: %.c | $(GEN_HDRS)
	@mkdir -p $(@D)
	$(call say,FUZZ,$<)
	$(Q)$(CLANG) $(CPPFLAGS_ALL) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

$(FUZZ_DIR)/gen/%.o: $(B)/gen/%.c
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(CPPFLAGS_ALL) $(FUZZ_CFLAGS) -fsanitize=fuzzer-no-link -w -c -o $@ $<

# The linker takes the needed parts of the product from an archive of all of it, so no file lists are needed and "make
# test" does not compile everything once more. The archive is thin: it has only the names of the objects.
FUZZ_PRODUCT := $(filter-out export/exporter/main.c export/report/main.c preload/hooks/%,$(SAMPLER_SRCS) \
	$(PRELOAD_SRCS) $(EXPORT_SRCS) $(EXPORTER_SRCS) $(REPORT_SRCS))
$(FUZZ_DIR)/product.a: $(FUZZ_PRODUCT:%.c=$(B)/release/%.o) $(GEN_SRCS:$(B)/gen/%.c=$(B)/release/gen/%.o)
	@mkdir -p $(@D)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcsDT $@ $^

# Stand-ins for the rest of the exporter.
FUZZ_HELPERS_answer := $(FUZZ_DIR)/test/unit/export/core_double.o

define fuzz_parts
$(FUZZ_DIR)/$(1).parts: $(FUZZ_DIR)/test/fuzz/$(1).o $(FUZZ_HELPERS_$(1)) $(FUZZ_DIR)/product.a
	$$(Q)ld -r -t -t -o $$@.linked $$^ | \
		sed -n 's|^$(FUZZ_DIR)/\.\./release/|$(FUZZ_DIR)/|p' >$$@ && rm -f $$@.linked
endef
$(foreach name,$(FUZZ_NAMES),$(eval $(call fuzz_parts,$(name))))

# In one command, because two of them may need the same object.
$(FUZZ_DIR)/parts: $(FUZZERS:%=%.parts)
	@+$(MAKE) --no-print-directory $$(sort -u $^) && touch $@

$(FUZZERS): $(FUZZ_DIR)/%: $(FUZZ_DIR)/%.parts $(FUZZ_DIR)/parts
	$(call say,LD,$@)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $(FUZZ_DIR)/test/fuzz/$*.o $(FUZZ_HELPERS_$*) $$(cat $<) \
		$(EXPORT_LIBS) -lpthread

# They are about bytes, so they are not built for another processor.
ifeq ($(findstring --sysroot,$(CC)),)
TEST_PROGRAMS += $(FUZZERS)
E2E_TESTS += test/fuzz/run.sh
endif

.PHONY: fuzz
fuzz: ## each fuzzer for a minute (FUZZ_SECONDS=n; installs its packages first)
	$(call install_deps,build test)
	@$(MAKE) --no-print-directory $(FUZZERS)
	@FUZZ_SECONDS=$(FUZZ_SECONDS) test/fuzz/run.sh $(FUZZ_NAMES)

-include $(shell find $(FUZZ_DIR) -name '*.d' 2>/dev/null)
