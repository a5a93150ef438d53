# SPDX-License-Identifier: Apache-2.0
#
# Programs for "make bench". They are built with the test programs, so that they always compile.

$(B)/test/bench/loop.o: test/bench/loop.c test/bench/loop.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -c -o $@ $<

$(B)/test/bench/pairs: test/bench/pairs.c $(B)/test/bench/loop.o test/sdk/opentelemetry_c.h \
		$(B)/test/libopentelemetry-c.so
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $< $(@D)/loop.o $(TEST_SDK_LDLIBS) \
		-lpthread

$(B)/test/bench/direct: test/bench/direct.cc $(B)/test/bench/loop.o test/sdk/exporters.h \
		$(B)/test/sdk/drop_exporter.o
	$(Q)$(CXX) $(TEST_SDK_CXXFLAGS) $(CXXFLAGS) $(LDFLAGS) -o $@ $< $(@D)/loop.o \
		$(B)/test/sdk/drop_exporter.o $(TEST_SDK_OTEL) -lpthread

$(B)/test/bench/ours: test/bench/ours.c $(B)/test/bench/loop.o $(B)/release/sampler.a
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) $(LDFLAGS) -o $@ $< $(@D)/loop.o \
		$(B)/release/sampler.a -lpthread

$(B)/test/bench/allocs: test/bench/allocs.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $<

$(B)/test/bench/rounds: test/bench/rounds.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $<

$(B)/test/bench/execs: test/bench/execs.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $<

$(B)/test/bench/cpu: test/bench/cpu.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $< -lm

# Preloaded before a profiler, in any host.
$(B)/test/bench/libinside.so: test/bench/inside.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -fvisibility=default -O2 $(CFLAGS) $(LDFLAGS) -shared -o $@ $<

$(B)/test/bench/threads: test/bench/threads.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $< -lpthread

$(B)/test/bench/waits: test/bench/waits.c preload/spanprof.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $< -lpthread

$(B)/test/bench/wait_names: test/bench/wait_names.c preload/spanprof.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -o $@ $< -lpthread

$(B)/test/bench/life: test/bench/life.c test/hosts/host.h test/sdk/opentelemetry_c.h \
		$(B)/test/libopentelemetry-c.so
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. $(CFLAGS) -o $@ $< $(TEST_SDK_LDLIBS) -lpthread

$(B)/test/bench/requests: test/bench/requests.c test/sdk/opentelemetry_c.h \
		$(B)/test/libopentelemetry-c.so
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. $(CFLAGS) -o $@ $< $(TEST_SDK_LDLIBS)

# Once as most programs are built, and once with frame pointers.
BENCH_HANDLERS := $(B)/test/bench/handler $(B)/test/bench/handler-fp
$(B)/test/bench/handler-fp: BENCH_FRAMES := -fno-omit-frame-pointer
$(B)/test/bench/handler: BENCH_FRAMES := -fomit-frame-pointer
$(BENCH_HANDLERS): test/bench/handler.c $(B)/release/sampler.a
	@mkdir -p $(@D)
	$(call say,BENCH,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -D_GNU_SOURCE= $(BENCH_FRAMES) -o $@ $^

TEST_PROGRAMS += $(B)/test/bench/libcurled.so

# The cost of a profiler that needs libcurl in its preloaded object.
$(B)/test/bench/libcurled.so: test/bench/curled.c
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) $(LDFLAGS) -shared -o $@ $< -lcurl

$(B)/test/bench/links: test/bench/links.c test/hosts/host.h test/sdk/opentelemetry_c.h $(B)/test/libopentelemetry-c.so
	@mkdir -p $(@D)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. $(CFLAGS) -o $@ $< $(TEST_SDK_LDLIBS)

.PHONY: bench-links
bench-links: all demo-programs $(B)/test/bench/links ## how many spans have samples behind their link
	@test/bench/links.sh

.PHONY: bench-execs
bench-execs: all $(B)/test/bench/execs $(B)/test/bench/libcurled.so ## what a preload costs each program that is started, alone
	@test/bench/execs.sh

.PHONY: bench-allocs
bench-allocs: all $(B)/test/bench/allocs ## what profiles of allocations cost, beside other profilers (a part of bench)
	@test/bench/allocs.sh

.PHONY: bench-wait-names
bench-wait-names: all $(B)/test/bench/wait_names ## waiting time by span name beside the program's own clocks (three minutes)
	@test/bench/wait_names.sh

.PHONY: bench-exporter
bench-exporter: all $(B)/test/bench/export $(B)/test/bench/threads $(addprefix $(B)/test/hosts/,spans family) ## memory and CPU time of the exporter and of the report (some six minutes)
	@test/bench/exporter.sh

$(B)/test/bench/export: test/bench/export.c $(B)/release/test/unit/export/core_double.o \
		$(B)/release/export.a $(B)/release/sampler.a
	@mkdir -p $(@D)
	$(call say,BENCH,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.c %.o,$^) \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(EXPORT_LIBS)

$(B)/test/bench/modules: test/bench/modules.c test/hosts/host.h test/sdk/opentelemetry_c.h \
		$(B)/test/libopentelemetry-c.so
	@mkdir -p $(@D)
	$(call say,BENCH,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. $(CFLAGS) -o $@ $< $(TEST_SDK_LDLIBS) -ldl

TEST_PROGRAMS += $(addprefix $(B)/test/bench/,libinside.so allocs export modules pairs direct ours rounds execs \
	cpu threads requests waits wait_names life) $(BENCH_HANDLERS)
