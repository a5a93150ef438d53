# SPDX-License-Identifier: Apache-2.0
#
# Debian's own programs, unmodified, with the profiler. Installs servers, so it is not part of test, except the tests
# of test/e2e/rooted.sh and test/e2e/neutral.sh with installed programs.

OBSERVER := $(B)/test/libobserver.so

$(OBSERVER): test/corpus/observer.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -fPIC -shared -o $@ $<

# Labels the threads of programs without spans.
LABELLED := $(B)/test/liblabelled.so

$(LABELLED): test/corpus/labelled.c preload/spanprof.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -fPIC -shared -I. -o $@ $<

TEST_PROGRAMS += $(OBSERVER)

.PHONY: corpus corpus-rooted corpus-neutral corpus-waits
# Not two prerequisites, because each of them keeps all processors busy.
corpus: ## Debian programs and servers under the profiler (long; installs its packages first)
	$(call install_deps,build test corpus)
	@$(MAKE) --no-print-directory all $(OBSERVER) $(LABELLED)
	bash test/corpus/rooted.sh; rooted=$$?; bash test/corpus/rooted.sh --waits; waits=$$?; \
		bash test/corpus/neutral.sh && exit $$((rooted + waits))

corpus-rooted corpus-neutral: corpus-%:
	$(call install_deps,build test corpus)
	@$(MAKE) --no-print-directory all $(OBSERVER)
	bash test/corpus/$*.sh

corpus-waits:
	$(call install_deps,build test corpus)
	@$(MAKE) --no-print-directory all $(LABELLED)
	bash test/corpus/rooted.sh --waits
