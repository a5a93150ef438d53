# SPDX-License-Identifier: Apache-2.0
#
# mutants: sources broken in one place at a time. That each mutant still applies is a gate.

MUTANTS ?= 50
MUTANT_SEED ?= 1

.PHONY: mutants mutants-chosen
mutants: all test-programs ## break the sources in one place at a time: each mutant is killed by a test (minutes)
	@test/mutants/run.sh

mutants-chosen: all test-programs ## the same with MUTANTS=50 that are drawn by MUTANT_SEED=1 (an hour)
	@test/mutants/run.sh --chosen $(MUTANTS) $(MUTANT_SEED)
