# SPDX-License-Identifier: Apache-2.0
#
# Files that are searched for classes of opentelemetry-cpp (test/e2e/classes.sh).

SCAN := $(B)/test/scan/classes
$(SCAN): test/scan/classes.c $(B)/release/preload/sdk/sdk_typeinfo.o $(B)/release/preload/elf/elf_walk.o \
		$(B)/release/sampler.a
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $^ $(LDFLAGS)

TEST_PROGRAMS += $(SCAN)

.PHONY: scan
scan: $(SCAN) test-programs ## look into every ELF file of the machine for classes of opentelemetry-cpp
	@SCAN_FOLDERS='/usr /opt' $(RUN) e2e=test/e2e/classes.sh
