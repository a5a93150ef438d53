# SPDX-License-Identifier: Apache-2.0
#
# Fuzzers of everything that reads what others wrote. "make test" runs each on its corpus and for a
# few seconds, "make fuzz" for a minute each.

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

# What each one needs of the product, so that "make test" need not compile everything once more.
fuzz_objects = $(patsubst %.c,$(FUZZ_DIR)/%.o,$(filter-out $(1),$(wildcard $(2))))
FUZZ_CONFIG := $(call fuzz_objects,,sampler/config/config*.c sampler/base/log.c \
	sampler/base/process.c sampler/base/text.c)
FUZZ_OBJECTS := $(call fuzz_objects,export/objects/unwind_snapshot.c,export/objects/*.c) $(call fuzz_objects,, \
	export/util/containers.c export/util/clock.c sampler/base/text.c)
FUZZ_ELF := $(call fuzz_objects,,export/util/containers.c export/symbols/builds.c export/symbols/elf_file.c \
	export/symbols/lines.c sampler/base/text.c sampler/unwind/ehframe_sig.c)
FUZZ_HTTP := $(call fuzz_objects,,export/push/http.c export/push/libcurl.c export/push/http_request.c \
	export/push/http_answer.c export/push/backlog.c export/push/backoff.c export/push/push.c \
	export/push/push_news.c export/push/reply.c export/util/losses.c export/push/request.c export/push/ingest.c \
	export/profile/pprof_request.c export/profile/gzip.c export/util/containers.c export/profile/interval.c \
	export/profile/stack_map.c export/push/address.c export/push/credentials.c export/push/secret.c \
	export/push/tls_files.c export/util/user_file.c export/push/headers_json.c export/util/clock.c \
	export/util/log.c test/unit/export/core_double.c) $(FUZZ_DIR)/gen/push.pb-c.o
FUZZ_REPORT := $(call fuzz_objects,export/report/main.c,export/report/*.c) $(call \
	fuzz_objects,,export/util/containers.c export/profile/gzip.c export/util/log.c export/util/losses.c \
	sampler/base/text.c) $(FUZZ_DIR)/gen/profile.pb-c.o

$(FUZZ_DIR)/config: $(FUZZ_CONFIG)
$(FUZZ_DIR)/profile_url: $(call fuzz_objects,,preload/sdk/profile_url.c sampler/base/text.c)
$(FUZZ_DIR)/headers: $(call fuzz_objects,,export/push/headers_json.c)
$(FUZZ_DIR)/elf: $(FUZZ_ELF)
$(FUZZ_DIR)/frames: $(call fuzz_objects,,sampler/unwind/cfi_sig.c sampler/unwind/ehframe_sig.c \
	sampler/unwind/stack_bounds_sig.c sampler/base/readable_sig.c sampler/base/process.c sampler/base/text.c)
$(FUZZ_DIR)/pprof: $(FUZZ_REPORT)
$(FUZZ_DIR)/answer: $(FUZZ_HTTP) $(FUZZ_CONFIG)
$(FUZZ_DIR)/address: $(call fuzz_objects,,export/push/address.c export/push/libcurl.c export/util/log.c \
	sampler/base/text.c)
$(FUZZ_DIR)/loaded: $(FUZZ_OBJECTS) $(call fuzz_objects,,sampler/unwind/object_sig.c \
	sampler/unwind/ehframe_sig.c sampler/region/ring.c sampler/region/ring_sig.c sampler/base/process.c \
	sampler/base/arena.c)
$(FUZZ_DIR)/maps: $(FUZZ_OBJECTS)
$(FUZZ_DIR)/names: $(FUZZ_OBJECTS) $(FUZZ_ELF) $(call fuzz_objects,,export/symbols/symbolize.c)
$(FUZZ_DIR)/region: $(call fuzz_objects,,export/exporter/view.c export/exporter/name_texts.c \
	export/util/containers.c sampler/region/ring.c sampler/region/ring_sig.c sampler/base/process.c \
	sampler/base/text.c sampler/base/arena.c)
$(FUZZ_DIR)/sections: $(FUZZ_ELF)
$(FUZZ_DIR)/status: $(FUZZ_REPORT)
$(FUZZ_DIR)/typeinfo: $(call fuzz_objects,,preload/sdk/sdk_typeinfo.c preload/elf/elf_walk.c \
	sampler/base/process.c sampler/base/text.c)
$(FUZZ_DIR)/unwind: $(call fuzz_objects,,sampler/unwind/cfi_sig.c sampler/unwind/ehframe_sig.c \
	sampler/base/readable_sig.c sampler/base/process.c sampler/base/text.c sampler/unwind/stack_bounds_sig.c \
	sampler/unwind/object_sig.c sampler/region/ring_sig.c sampler/unwind/rule_cache_sig.c sampler/base/arena.c)

$(FUZZERS): $(FUZZ_DIR)/%: $(FUZZ_DIR)/test/fuzz/%.o
	$(call say,LD,$@)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $(sort $(filter %.o,$^)) $(EXPORT_LIBS) -lpthread

# They are about bytes, so nothing is learnt from building them for another processor.
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
