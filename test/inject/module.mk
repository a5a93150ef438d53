# SPDX-License-Identifier: Apache-2.0
#
# Failing system calls and allocations, one in each run (test/e2e/inject.sh: a few; make inject: a thousand).

INJECT_PROGRAMS := $(addprefix $(B)/test/inject/,inject host libmalloc-fails.so)

$(B)/test/inject/inject: test/inject/inject.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -o $@ $<

$(B)/test/inject/host: test/inject/host.c test/hosts/host.h test/sdk/opentelemetry_c.h $(HOST_FIXTURE)
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -o $@ $< -L$(B)/test -lfixture-otelc \
		-Wl,-rpath,'$$ORIGIN/..' -lpthread -ldl

$(B)/test/inject/libmalloc-fails.so: test/inject/malloc_fails.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -fPIC -shared -Wl,-soname,$(@F) -o $@ $< -ldl

TEST_PROGRAMS += $(INJECT_PROGRAMS)

INJECT_POINTS ?= 1000

.PHONY: inject
inject: ## 1,000 failures of system calls and allocations in object and exporter (minutes; INJECT_POINTS=n)
	$(call install_deps,build test)
	@$(MAKE) --no-print-directory all $(INJECT_PROGRAMS)
	@INJECT_POINTS=$(INJECT_POINTS) bash test/e2e/inject.sh
