# SPDX-License-Identifier: Apache-2.0
#
# A reader of the process and thread context, and the publishers that it reads.

CONTEXT_READER := $(B)/test/context-reader

$(CONTEXT_READER): $(wildcard test/context/*.c) $(wildcard test/context/*.h)
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -o $@ $(filter %.c,$^)

TEST_PROGRAMS += $(CONTEXT_READER)

.PHONY: context-long
context-long: all test-programs ## the thread context read at 1,000,000 stops of eight threads (a minute, or an hour)
	@CONTEXT_STOPS=1000000 CONTEXT_SECONDS=3600 bash test/e2e/thread_context.sh

# Another publisher: in a library, and in a program itself.
PUBLISHER := $(B)/test/libpublisher.so
PUBLISHER_EARLY := $(B)/test/libpublisher_early.so
PUBLISHER_HOSTS := $(addprefix $(B)/test/hosts/publisher_,linked opens opens_early)

$(PUBLISHER) $(PUBLISHER_EARLY): $(B)/test/lib%.so: test/hosts/lib/%.c test/hosts/lib/publisher.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -fPIC -shared -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN' -o $@ $< -ldl

$(B)/test/hosts/publisher: test/hosts/lib/publisher.c test/hosts/lib/publisher.h
HOST_LIBS_publisher = test/hosts/lib/publisher.c -rdynamic -lpthread -ldl

$(PUBLISHER_HOSTS): test/hosts/publisher.c test/hosts/lib/publisher.h test/hosts/host.h $(PUBLISHER) \
		$(PUBLISHER_EARLY)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. $(if $(findstring opens,$@),-DPUBLISHER_OPENS) -o $@ $< \
		-Wl,-rpath,'$$ORIGIN/..' -L$(B)/test $(if $(findstring linked,$@),-lpublisher) \
		$(if $(findstring early,$@),-Wl$(comma)--no-as-needed -lpublisher_early) -lpthread -ldl

TEST_PROGRAMS += $(PUBLISHER) $(PUBLISHER_EARLY) $(PUBLISHER_HOSTS)
