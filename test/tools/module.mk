# SPDX-License-Identifier: Apache-2.0
#
# Viewers of other projects. They read files, so they are not built for another processor.

ifeq ($(findstring --sysroot,$(CC)),)
E2E_TESTS += test/tools/run.sh
endif

.PHONY: tools
tools: all test-programs ## go's pprof tool and speedscope (from npm) open what we write
	@$(RUN) e2e=test/tools/run.sh
