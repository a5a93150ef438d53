# SPDX-License-Identifier: Apache-2.0
#
# The exporter on recorded rings (test/e2e/replayed.sh).

C_SRCS += test/replay/record.c test/replay/replay.c
REPLAY_PROGRAMS := $(addprefix $(B)/test/replay/,record replay)

# The recorder is the exporter with another loop.
$(B)/test/replay/record: $(B)/release/test/replay/record.o $(B)/release/export/exporter/main.o $(B)/release/exporter.a
$(B)/test/replay/replay: $(addprefix $(B)/release/test/,replay/replay.o unit/export/core_double.o)
$(REPLAY_PROGRAMS): $(B)/release/export.a $(B)/release/sampler.a
	@mkdir -p $(@D)
	$(call link_program,release)
# The results of looks at threads are recorded instead of added up.
$(B)/test/replay/record: private LDFLAGS += -Wl,--wrap=sp_off_cpu_new

TEST_PROGRAMS += $(REPLAY_PROGRAMS)
