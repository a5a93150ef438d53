# SPDX-License-Identifier: Apache-2.0
#
# The Pyroscope double that the end-to-end tests push to, the program that makes its profiles, and
# the double's own unit tests. None of it links the exporter: it must not share its mistakes.

PYROSCOPE_SRCS := $(filter-out test/pyroscope/main.c,$(wildcard test/pyroscope/*.c))
PYROSCOPE_TEST_SRCS := $(wildcard test/pyroscope/tests/test_*.c)
PYROSCOPE_BUILD_SRCS := test/pyroscope/tests/builder.c
PYROSCOPE_HELPER_SRCS := $(PYROSCOPE_BUILD_SRCS) test/pyroscope/tests/fixture.c
PYROSCOPE_LIBS := -lmicrohttpd -ljansson -lz
C_SRCS += $(PYROSCOPE_SRCS) $(PYROSCOPE_TEST_SRCS) $(PYROSCOPE_HELPER_SRCS) \
	test/pyroscope/main.c test/pyroscope/tests/make_profile.c

# $(call pyroscope_link,libraries)
define pyroscope_link
@mkdir -p $(@D)
$(call say,LD,$@)
$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(1)
endef

$(B)/test/pyroscope-double: $(patsubst %.c,$(B)/release/%.o,$(PYROSCOPE_SRCS) test/pyroscope/main.c)
	$(call pyroscope_link,$(PYROSCOPE_LIBS))

$(B)/test/pyroscope-profile: $(patsubst %.c,$(B)/release/%.o,$(PYROSCOPE_BUILD_SRCS) \
		test/pyroscope/base.c test/pyroscope/tests/make_profile.c)
	$(call pyroscope_link,-lz)

define pyroscope_unit
$$(PYROSCOPE_TEST_SRCS:%.c=$$(B)/$(1)/%): $$(B)/$(1)/%: $$(B)/$(1)/%.o \
		$$(patsubst %.c,$$(B)/$(1)/%.o,$$(PYROSCOPE_SRCS) $$(PYROSCOPE_HELPER_SRCS) \
		$$(UNIT_MAIN_SRCS))
	$$(call pyroscope_link,$$(CFLAGS_$(1)) $$(CRITERION_LIBS) $$(PYROSCOPE_LIBS))
endef
$(eval $(call pyroscope_unit,release))
$(eval $(call pyroscope_unit,asan))

TEST_PROGRAMS += $(B)/test/pyroscope-double $(B)/test/pyroscope-profile
UNIT_TESTS += $(PYROSCOPE_TEST_SRCS:%.c=$(B)/release/%)
ASAN_TESTS += $(PYROSCOPE_TEST_SRCS:%.c=$(B)/asan/%)
