# SPDX-License-Identifier: Apache-2.0
#
# The exporter and the double in one program: the double judges the exporter's results for hostile input.

HOSTILE_TEST_SRCS := $(wildcard test/hostile/test_*.c)
HOSTILE_HELPER_SRCS := $(filter-out $(HOSTILE_TEST_SRCS),$(wildcard test/hostile/*.c))
C_SRCS += $(HOSTILE_TEST_SRCS) $(HOSTILE_HELPER_SRCS)

define hostile_unit
$$(HOSTILE_TEST_SRCS:%.c=$$(B)/$(1)/%): $$(B)/$(1)/%: $$(B)/$(1)/%.o \
		$$(patsubst %.c,$$(B)/$(1)/%.o,$$(UNIT_MAIN_SRCS) $$(HOSTILE_HELPER_SRCS) \
			$$(filter-out test/pyroscope/main.c,$$(wildcard test/pyroscope/*.c))) \
		$$(B)/$(1)/export.a $$(B)/$(1)/sampler.a
	@mkdir -p $$(@D)
	$$(call link_program,$(1),$$(CRITERION_LIBS) -lmicrohttpd $$(TEST_LINKER))
endef
$(eval $(call hostile_unit,release))
$(eval $(call hostile_unit,asan))

UNIT_TESTS += $(HOSTILE_TEST_SRCS:%.c=$(B)/release/%)
ASAN_TESTS += $(HOSTILE_TEST_SRCS:%.c=$(B)/asan/%)
