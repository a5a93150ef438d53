# SPDX-License-Identifier: Apache-2.0
#
# mutants: sources broken in one place at a time. That each mutant still applies is a gate.

.PHONY: mutants
mutants: all test-programs ## break the sources in one place at a time: each mutant is killed by a test (minutes)
	@test/mutants/run.sh
