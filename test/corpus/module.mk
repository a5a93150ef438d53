# SPDX-License-Identifier: Apache-2.0
#
# Debian's own programs, unmodified, under the profiler. Installs servers, so it is not part of test.

.PHONY: corpus
corpus:
	$(call install_deps,build test corpus)
	@$(MAKE) --no-print-directory all
	bash test/corpus/corpus.sh
