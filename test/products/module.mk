# SPDX-License-Identifier: Apache-2.0
#
# Programs that people run, with opentelemetry-cpp inside, as their users get them. They are of this processor, so
# nothing is learnt from building for another one.

ifeq ($(findstring --sysroot,$(CC)),)
E2E_TESTS += test/products/pyarrow.sh
endif

.PHONY: products
products: ## MySQL, PyArrow and TangoTest, unmodified, under the profiler (minutes; installs and downloads; PRODUCT="mysql pyarrow tango mysql+alloc pyarrow+alloc")
	$(call install_deps,build test products)
	@$(MAKE) --no-print-directory all
	@bash test/products/run.sh $(PRODUCT)
