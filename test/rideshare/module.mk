# SPDX-License-Identifier: Apache-2.0
#
# The ride-sharing demo: server, load generator and the program that compares the server's profile with its own
# measurements.

RIDESHARE_DIR := $(B)/test/rideshare
RIDESHARE_PROGRAMS := $(addprefix $(RIDESHARE_DIR)/,server loadgen summary)
RIDESHARE_OBJECTS := $(patsubst test/rideshare/%.c,$(RIDESHARE_DIR)/%.o,$(wildcard test/rideshare/*.c))

$(RIDESHARE_OBJECTS): $(RIDESHARE_DIR)/%.o: test/rideshare/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -MMD -MP -c -o $@ $<

$(RIDESHARE_PROGRAMS):
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(RIDESHARE_LIBS_$(@F))

$(RIDESHARE_DIR)/server: $(RIDESHARE_DIR)/server.o $(RIDESHARE_DIR)/ride.o $(RIDESHARE_DIR)/bank.o
$(RIDESHARE_DIR)/loadgen: $(RIDESHARE_DIR)/loadgen.o
$(RIDESHARE_DIR)/summary: $(RIDESHARE_DIR)/summary.o $(RIDESHARE_DIR)/input.o $(RIDESHARE_DIR)/outside.o \
	$(RIDESHARE_DIR)/waits.o $(RIDESHARE_DIR)/sentences.o
$(RIDESHARE_DIR)/server $(RIDESHARE_DIR)/loadgen: $(B)/test/libopentelemetry-c.so

RIDESHARE_LIBS_server = $(TEST_SDK_LDLIBS) -lmicrohttpd -lm -lpthread
RIDESHARE_LIBS_loadgen = $(TEST_SDK_LDLIBS) -lcurl -lpthread
RIDESHARE_LIBS_summary = -ljansson -lm

DEMO_PROGRAMS += $(RIDESHARE_PROGRAMS)
TEST_PROGRAMS += $(RIDESHARE_PROGRAMS)
E2E_TESTS += test/rideshare/summary_test.sh test/rideshare/demo_test.sh

-include $(RIDESHARE_OBJECTS:.o=.d)
