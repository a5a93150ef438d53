# SPDX-License-Identifier: Apache-2.0
#
# Parts of host programs besides test/hosts/<name>.c: the libraries of test/hosts/lib and the test SDK. Hosts that
# only need some span link with the stand-in, which loads quickly.

HOST_FIXTURE := $(B)/test/libfixture-otelc.so
HOST_BURN := $(B)/test/libburn.so
HOST_PLUGIN := $(B)/test/libplugin.so
HOST_RPATH := -L$(B)/test -Wl,-rpath,'$$ORIGIN/..' -lpthread

HOSTS_WITH_FIXTURE := alternate blocked busy calls close_fds confines context ending family forgetful fork_list forks handlers inheritor itimer labels leaks leaves names outside pending \
	pointers race_free raw_fork renewed requests sandbox setxid small_stack spawn spend \
	taker tasks vfork_mask waits
HOSTS_WITH_SDK := causes latencies phases prefork slow spans traced

$(foreach h,$(HOSTS_WITH_FIXTURE),$(eval HOST_LIBS_$(h) = -lfixture-otelc $$(HOST_RPATH)))
$(foreach h,$(HOSTS_WITH_SDK),$(eval HOST_LIBS_$(h) = $$(TEST_SDK_LDLIBS) $$(HOST_RPATH)))
HOST_LIBS_spans += -lburn
HOST_LIBS_allocs = -lpthread
HOST_LIBS_operators_opener = -ldl
HOST_LIBS_plugin_host = -ldl
HOST_LIBS_labels_opener = -ldl
HOST_LIBS_copies = -ldl -rdynamic
HOST_LIBS_reload = -ldl
HOST_LIBS_kernels = -ldl
HOST_LIBS_fileless = -ldl
HOST_LIBS_goshared = -ldl
HOST_LIBS_fork_list += -ldl
HOST_LIBS_absent = -ldl -Wl,--no-as-needed -labsent $(HOST_RPATH)
HOST_LIBS_loading = -ldl -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/..'
HOST_CFLAGS_labels = -DLABELS_WITH_SPANS

$(HOSTS_WITH_FIXTURE:%=$(B)/test/hosts/%): $(HOST_FIXTURE)
$(HOSTS_WITH_SDK:%=$(B)/test/hosts/%): $(B)/test/libopentelemetry-c.so
$(B)/test/hosts/spans: $(HOST_BURN)
$(B)/test/hosts/plugin_host: | $(HOST_PLUGIN)

# The same programs with real spans.
$(B)/test/hosts/waits_sdk: test/hosts/waits.c test/hosts/waits.h
$(B)/test/hosts/leaks_sdk: test/hosts/leaks.c
$(B)/test/hosts/waits_sdk $(B)/test/hosts/leaks_sdk: test/hosts/host.h $(B)/test/libopentelemetry-c.so
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) -std=gnu11 -O2 -g -Wall -Wextra -o $@ $(filter %.c,$^) $(TEST_SDK_LDLIBS) $(HOST_RPATH)

TEST_PROGRAMS += $(addprefix $(B)/test/hosts/,waits_sdk leaks_sdk)

HOST_FIXTURE_SRCS := $(addprefix test/hosts/lib/,fixture_otelc.c fixture_spans.c)

$(HOST_FIXTURE): $(HOST_FIXTURE_SRCS) test/sdk/opentelemetry_c.h test/otelc/otelc.h test/common/fixture.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^)

$(HOST_BURN): test/hosts/lib/burn.cc
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) -O2 -g -fPIC -Wall -Wextra -shared -Wl,-soname,$(@F) -o $@ $<

$(HOST_PLUGIN): test/hosts/lib/plugin.c test/hosts/host.h $(B)/test/libopentelemetry-c.so
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -shared -Wl,-soname,$(@F) -o $@ $< \
		-L$(B)/test -lopentelemetry-c -Wl,-rpath,'$$ORIGIN'

# Opened with RTLD_DEEPBIND.
HOST_OWN_THREADS := $(B)/test/libown_threads.so
HOST_LIBS_deepbind = -ldl
$(B)/test/hosts/deepbind: | $(HOST_OWN_THREADS)
$(HOST_OWN_THREADS): test/hosts/lib/own_threads.c test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -shared -Wl,-soname,$(@F) -o $@ $< -lpthread

# Preloaded before the profiler.
HOST_WRAPPER := $(B)/test/libwrapper.so
$(HOST_WRAPPER): test/hosts/lib/wrapper.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -D_GNU_SOURCE -O2 -g -Wall -Wextra -fPIC -shared -Wl,-soname,$(@F) -o $@ $< -ldl -lpthread

TEST_PROGRAMS += $(HOST_WRAPPER)

# Allocators: one that handlers may call, and one that calls its own functions by name.
HOST_OWN_ALLOCATORS := $(B)/test/libbump.so $(B)/test/libnested.so
$(HOST_OWN_ALLOCATORS): $(B)/test/lib%.so: test/hosts/lib/%.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -fno-builtin -fPIC -shared -Wl,-soname,$(@F) -o $@ $<

# A program with a sanitizer, and one that searches for its leaks at its end.
HOST_SANITIZED := $(addprefix $(B)/test/hosts/allocs_,sanitized leaky)
$(B)/test/hosts/allocs_sanitized: HOST_SANITIZER := address
$(B)/test/hosts/allocs_leaky: HOST_SANITIZER := leak

$(HOST_SANITIZED): test/hosts/allocs.c test/hosts/host.h preload/spanprof.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O1 -g -Wall -Wextra -I. -fsanitize=$(HOST_SANITIZER) -o $@ $< -lpthread

TEST_PROGRAMS += $(HOST_OWN_ALLOCATORS) $(HOST_SANITIZED)

# C++'s operators: of the C++ library, and of installed allocators with which the program is linked.
HOST_ALLOCATORS := $(foreach l,libjemalloc.so.2 libtcmalloc_minimal.so.4 libmimalloc.so.2,\
	$(if $(filter /%,$(shell $(CXX) -print-file-name=$(l) 2>/dev/null)),$(l)))
HOST_OPERATORS := $(B)/test/hosts/operators $(HOST_ALLOCATORS:%=$(B)/test/hosts/operators_%)

$(HOST_OPERATORS): test/hosts/operators.cc test/hosts/host.h preload/spanprof.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) -std=c++17 -O2 -g -Wall -Wextra -I. -o $@ $< -pthread -Wl,--no-as-needed \
		$(patsubst operators_%,-l:%,$(filter operators_%,$(@F)))

# Plugins with their own operators, with a C++ library inside, and with the shared one.
HOST_OPERATOR_PLUGINS := $(addprefix $(B)/test/liboperators_,a.so b.so inside.so shared.so)
HOST_OPERATOR_FLAGS_a := '-DOPERATORS_OWN="a"' -static-libstdc++ -static-libgcc
HOST_OPERATOR_FLAGS_b := '-DOPERATORS_OWN="b"'
HOST_OPERATOR_FLAGS_inside := -static-libstdc++ -static-libgcc

$(HOST_OPERATOR_PLUGINS): $(B)/test/liboperators_%.so: test/hosts/lib/operators_plugin.cc
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) -std=c++17 -O2 -g -fPIC -Wall -Wextra -shared -Wl,-z,lazy -o $@ $< $(HOST_OPERATOR_FLAGS_$*)

TEST_PROGRAMS += $(HOST_OPERATORS) $(HOST_OPERATOR_PLUGINS)

# Replaces the program that the object starts.
EXPORTER_STUB := $(B)/test/exporter-stub

$(EXPORTER_STUB): test/hosts/lib/exporter_stub.c sampler/region/region.h sampler/base/counters.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) -std=gnu11 -O2 -g -Wall -Wextra -o $@ $<

TEST_PROGRAMS += $(EXPORTER_STUB)

# A Go program with cgo, and a Go library.
GO_BUILD = CGO_ENABLED=1 CC='$(CC)' $(if $(filter aarch64-linux-gnu-%,$(CC)),GOARCH=arm64) GOFLAGS=-mod=mod GO111MODULE=off \
	go build -trimpath

$(B)/test/go/libshared.so: test/hosts/go/shared/shared.go
	@mkdir -p $(@D)
	$(call say,GO,$@)
	$(Q)$(GO_BUILD) -buildmode=c-shared -o $@ $<

$(B)/test/go/host: test/hosts/go/host/host.go
	@mkdir -p $(@D)
	$(call say,GO,$@)
	$(Q)$(GO_BUILD) -o $@ $<

TEST_PROGRAMS += $(addprefix $(B)/test/go/,libshared.so host)

# The same program, linked statically, so that no loader preloads anything.
$(B)/test/hosts/static: test/hosts/plain.c test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -static -o $@ $<

TEST_PROGRAMS += $(HOST_FIXTURE) $(HOST_BURN) $(HOST_PLUGIN) $(HOST_OWN_THREADS) $(B)/test/hosts/static

# Lists the variables that test/e2e/bad_config.sh has to try.
$(B)/test/print-config: $(B)/release/scripts/print-config.o $(B)/release/sampler.a
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^

TEST_PROGRAMS += $(B)/test/print-config

# Programs that label their own work, in each form of executable; linked without any file of ours.
HOST_LABELS := $(addprefix $(B)/test/hosts/labels_,pie exec static cxx noplt libplugin.so)
HOST_LABELS_FLAGS_pie := -std=c99 -fPIE -pie -D_GNU_SOURCE
HOST_LABELS_FLAGS_exec := -std=gnu11 -fno-pic -no-pie
HOST_LABELS_FLAGS_static := -std=gnu11 -static
HOST_LABELS_FLAGS_cxx := -x c++ -std=c++11
HOST_LABELS_FLAGS_noplt := -std=gnu11 -fno-plt
HOST_LABELS_FLAGS_libplugin.so := -std=gnu11 -fPIC -shared -DLABELS_PLUGIN

$(HOST_LABELS): $(B)/test/hosts/labels_%: test/hosts/labels.c test/hosts/host.h preload/spanprof.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(if $(filter cxx,$*),$(CXX),$(CC)) -O2 -g -Wall -Wextra -Werror -I. \
		$(HOST_LABELS_FLAGS_$*) -o $@ $<

TEST_PROGRAMS += $(HOST_LABELS)

# Plugins that each contain a copy of the SDK, one with a lazy PLT and one without a PLT.
HOST_COPIES := $(addprefix $(B)/test/libcopy_,a.so b.so)
HOST_COPY_FLAGS_a := -Wl,-z,lazy
HOST_COPY_FLAGS_b := -fno-plt -Wl,-z,now

$(HOST_COPIES): $(B)/test/libcopy_%.so: test/hosts/lib/copy_plugin.c $(HOST_FIXTURE_SRCS) \
		test/hosts/host.h test/sdk/opentelemetry_c.h test/otelc/otelc.h test/common/fixture.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) \
		$(HOST_COPY_FLAGS_$*) '-DFIXTURE_COPY="$* "' -shared -Wl,-soname,$(@F) -o $@ $(filter %.c,$^)

TEST_PROGRAMS += $(HOST_COPIES)

# The same library four times: two of one size, one larger, and one without a build id.
HOST_RELOADS := $(addprefix $(B)/test/libreload_,a.so b.so c.so d.so)
HOST_RELOAD_FLAGS_a := -DRELOAD_BYTES=64
HOST_RELOAD_FLAGS_b := -DRELOAD_BYTES=64
HOST_RELOAD_FLAGS_c := -DRELOAD_BYTES=40000
HOST_RELOAD_FLAGS_d := -DRELOAD_BYTES=64 -Wl,--build-id=none

$(HOST_RELOADS): $(B)/test/libreload_%.so: test/hosts/lib/reload.c test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -DRELOAD_NAME=$* $(HOST_RELOAD_FLAGS_$*) \
		-shared -Wl,-soname,$(@F) -o $@ $<

TEST_PROGRAMS += $(HOST_RELOADS)

$(B)/test/libabsent.so: test/hosts/absent.c test/hosts/host.h
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -O2 $(CFLAGS) -DABSENT_LIBRARY -shared \
		-Wl,-soname,$(@F) -o $@ $< -ldl

$(B)/test/hosts/absent: $(B)/test/libabsent.so

# Only if the compiler has Boost.Context; otherwise test/e2e/fibers.sh says so.
$(B)/test/hosts/fibers: test/hosts/fibers.cc
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) -std=c++17 -O2 -g -Wall -Wextra -o $@ $< -lboost_context

ifneq ($(wildcard $(shell $(CXX) -print-sysroot 2>/dev/null)/usr/include/boost/context/fiber.hpp),)
TEST_PROGRAMS += $(B)/test/hosts/fibers
endif

$(B)/test/hosts/locks: test/hosts/locks.cc test/hosts/host.h test/sdk/opentelemetry_c.h $(B)/test/libopentelemetry-c.so
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CXX) -std=c++17 -O2 -g -Wall -Wextra -I. -o $@ $< $(TEST_SDK_LDLIBS) $(HOST_RPATH) -ldl

TEST_PROGRAMS += $(B)/test/hosts/locks

# Our code that starts the exporter's process, and the stand-in for the exporter.
HOST_STARTER_OBJS := $(addprefix $(B)/release/,$(addprefix preload/exporter/,exporter_process.o) \
	$(addprefix sampler/base/,process.o syscall_sig.o text.o))

$(B)/test/hosts/starter: $(HOST_STARTER_OBJS)
HOST_LIBS_starter = $(HOST_STARTER_OBJS) -lpthread

$(B)/test/exporter-stand-in: test/hosts/lib/exporter_stand_in.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. -D_GNU_SOURCE= -MMD -MP -MF $@.d -o $@ $<

TEST_PROGRAMS += $(B)/test/exporter-stand-in
