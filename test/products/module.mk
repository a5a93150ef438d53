# SPDX-License-Identifier: Apache-2.0
#
# Programs that people use, with opentelemetry-cpp inside, as their users get them. They exist for this processor
# only, so they are not built for others.

ifeq ($(findstring --sysroot,$(CC)),)
E2E_TESTS += test/products/pyarrow.sh
endif

.PHONY: products
products: ## MySQL, PyArrow and TangoTest, unmodified, under the profiler (minutes; installs and downloads; PRODUCT="mysql pyarrow tango mysql+alloc pyarrow+alloc")
	$(call install_deps,build test products)
	@$(MAKE) --no-print-directory all
	@bash test/products/run.sh $(PRODUCT)
