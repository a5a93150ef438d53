# SPDX-License-Identifier: Apache-2.0
#
# The storm (test/e2e/storm.sh runs it for some 20 seconds in all, make soak for ten minutes each).

STORM_DEPS := $(wildcard test/storm/*.h) test/hosts/host.h
STORM_FLAGS := -O2 -g -Wall -Wextra -I.

$(B)/test/storm/%.o: test/storm/%.c $(STORM_DEPS)
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 $(STORM_FLAGS) -c -o $@ $<

$(B)/test/storm/throws.o: test/storm/throws.cc $(STORM_DEPS)
	@mkdir -p $(@D)
	$(Q)$(CXX) $(STORM_FLAGS) -fPIC -c -o $@ $<

$(B)/test/storm/libstorm-plugin.so: $(B)/test/storm/throws.o
	$(call say,HOST,$@)
	$(Q)$(CXX) -shared -Wl,-soname,$(@F) -o $@ $<

$(B)/test/storm/storm: $(addprefix $(B)/test/storm/,storm.o workers.o throws.o)
	$(call say,HOST,$@)
	$(Q)$(CXX) -o $@ $^ -lpthread -ldl

# The exporter with the sanitizers, for overwritten memory. They need more memory than the exporter allows itself, so
# setting that limit is replaced.
EXPORTER_ASAN := $(B)/asan/test/spanprof-exporter
$(EXPORTER_ASAN): $(B)/asan/export/exporter/main.o $(B)/asan/exporter.a $(B)/asan/export.a $(B)/asan/sampler.a
	@mkdir -p $(@D)
	$(call link_program,asan,-Wl$(comma)--wrap=sp_limits_memory$(comma)--defsym=__wrap_sp_limits_memory=sp_limits_offer)

TEST_PROGRAMS += $(B)/test/storm/storm $(B)/test/storm/libstorm-plugin.so $(EXPORTER_ASAN)

.PHONY: soak
soak: ## three storms and three ways to scribble on a region, ten minutes each, exporters killed at each step, then accuracy at length (over an hour; installs its packages first)
	$(call install_deps,build demo test)
	@$(MAKE) --no-print-directory all test-programs $(B)/asan/test/unit/exporter/test_program
	SOAK_SECONDS=$${SOAK_SECONDS:-600} bash test/e2e/storm.sh
	ASAN_OPTIONS=abort_on_error=1 SCRIBBLE_SECONDS=$${SOAK_SECONDS:-600} \
		$(B)/asan/test/unit/exporter/test_program --filter 'program/survives_a_host_that_writes*'
	SOAK_SECONDS=$${SOAK_SECONDS:-600} bash test/e2e/scribbled.sh
	KILL_AT=steps bash test/e2e/exporter_killed.sh
	SOAK_SECONDS=$${SOAK_SECONDS:-600} bash test/e2e/accuracy.sh
	@echo "soak: clean"
