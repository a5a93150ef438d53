# SPDX-License-Identifier: Apache-2.0
#
# Debian's kernels in emulated machines. The short form is test/e2e/yama.sh on the kernel of this machine.

.PHONY: kernels
kernels: ## tests under Debian's kernels, with Yama, for both processors, in emulated machines (an hour or more; installs its packages first)
	$(call install_deps,build demo test cross kernels)
	@$(MAKE) --no-print-directory all test-programs $(UNIT_TESTS) $(STRESS_TESTS) aarch64-build
	test/kernels/kernels.sh
