# SPDX-License-Identifier: Apache-2.0
#
# The signal suite: its cases in one program, and Go in two.

SIGNAL_SRCS := $(filter-out %/goshared.c,$(wildcard test/signals/*.c))
GO_BUILD = CGO_ENABLED=1 GOFLAGS=-mod=mod GO111MODULE=off go build -trimpath

$(B)/test/signals/cases: $(SIGNAL_SRCS) test/signals/cases.h test/common/take.h test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -o $@ $(SIGNAL_SRCS) -lpthread

$(B)/test/signals/goshared: test/signals/goshared.c test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -o $@ $< -ldl

$(B)/test/signals/libshared-go.so: test/signals/go/shared/shared.go
	@mkdir -p $(@D)
	$(call say,GO,$@)
	$(Q)$(GO_BUILD) -buildmode=c-shared -o $@ $<

$(B)/test/signals/gohost: test/signals/go/host/host.go
	@mkdir -p $(@D)
	$(call say,GO,$@)
	$(Q)$(GO_BUILD) -o $@ $<

SIGNAL_PROGRAMS := $(addprefix $(B)/test/signals/,cases goshared libshared-go.so gohost)
TEST_PROGRAMS += $(SIGNAL_PROGRAMS)

.PHONY: signals
signals: all $(SIGNAL_PROGRAMS) ## all cases of the signal suite, and the table of sampler/README.md
	test/signals/table.sh
