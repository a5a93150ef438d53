# SPDX-License-Identifier: Apache-2.0
#
# Programs that others wrote, in roots of their own, with and without the profiler. Six that are quick run on the
# machine itself as a part of test (quick.sh).

UNDER := $(B)/test/under

# Static: it runs in roots of other releases.
$(UNDER): test/programs/under.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -D_GNU_SOURCE= -O2 -Wall -Wextra -static -o $@ $<

TEST_PROGRAMS += $(UNDER)
E2E_TESTS += test/programs/quick.sh

.PHONY: programs
programs: ## sixty programs of Debian 12, Debian sid, PyPI, npm and Maven with and without the profiler (needs root, network, 6 GB and an hour; PROGRAMS="--only nginx,go --rounds 1")
	$(call install_deps,build test carrier)
	@$(MAKE) --no-print-directory all $(UNDER) $(CARRIER).done
	python3 test/programs/programs.py $(PROGRAMS); status=$$?; python3 test/programs/programs.py --table && exit $$status
