# SPDX-License-Identifier: Apache-2.0
#
# mutants: sources that are broken in one place at a time, to see whether the unit tests notice.

MUTANTS ?= 20

.PHONY: mutants mutants-all mutants-base
mutants: $(UNIT_TESTS) ## break MUTANTS=20 of the changed lines, one at a time: a unit test notices each (a minute or two)
	@python3 test/mutants/mutants.py --count $(MUTANTS)

mutants-all: $(UNIT_TESTS) ## the same in all of the product; MUTANT_SEED=... draws others
	@python3 test/mutants/mutants.py --all --count $(MUTANTS) --seed '$(MUTANT_SEED)'

mutants-base: ## what is committed by now is no change any more for "make mutants"
	@git rev-parse HEAD >test/mutants/base
