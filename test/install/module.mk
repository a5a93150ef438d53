# SPDX-License-Identifier: Apache-2.0
#
# The profiler in containers: programs for the tests in test/e2e/{entrypoint,run, container,musl,doctor}.sh, and
# targets for the long ones.

INSTALL_DIR := $(B)/test/install

# The same program with the sanitizers, for the hostile files of run.sh.
RUNNER_ASAN := $(INSTALL_DIR)/spanprof-run-asan
$(RUNNER_ASAN): $(RUNNER_SRCS:%.c=$(B)/asan/%.o) $(B)/asan/sampler.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS_asan) $(CFLAGS) $(LDFLAGS) -o $@ $^

TEST_PROGRAMS += $(RUNNER_ASAN)

.PHONY: roots
roots: all test-programs ## the objects in Debian 11 and 13, made by debootstrap (needs root, network and minutes)
	@bash test/install/roots.sh || test $$? = 77

.PHONY: sid
sid: ## the product built without a warning and its demo, in Debian sid made by debootstrap (needs root, network and minutes)
	@test/install/sid.sh

.PHONY: fresh-root
fresh-root: ## the two commands of README in a bare Debian 12 made by debootstrap, to their last line (needs root, network and an hour)
	@test/install/fresh_root.sh

# Programs that run here make the carrier and the man pages, so a build for another machine has none.
ifeq ($(B),build)
TEST_PROGRAMS += $(CARRIER).done $(MAN_PAGES)
endif
