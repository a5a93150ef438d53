# SPDX-License-Identifier: Apache-2.0
#
# The test suites of other projects, with and without the profiler. They are long and download Debian's source
# packages, so they are no part of test: test/e2e/neutral.sh is the short form there.

.PHONY: peers
peers: ## other projects' test suites with and without the profiler (long; installs and downloads; PEERS="python libuv redis postgresql posix", PEERS_ALLOC=1 PEERS="python redis leveldb")
	$(call install_deps,build test peers)
	@$(MAKE) --no-print-directory all
	bash test/peers/run.sh $(PEERS)
