# SPDX-License-Identifier: Apache-2.0
#
# A reader of the process and thread context, and what it reads.

CONTEXT_READER := $(B)/test/context-reader

$(CONTEXT_READER): $(wildcard test/context/*.c) $(wildcard test/context/*.h)
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -o $@ $(filter %.c,$^)

TEST_PROGRAMS += $(CONTEXT_READER)

.PHONY: context-long
context-long: all test-programs ## the thread context read at 1,000,000 stops of eight threads (a minute, or an hour)
	@CONTEXT_STOPS=1000000 CONTEXT_SECONDS=3600 bash test/e2e/thread_context.sh
