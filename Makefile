# SPDX-License-Identifier: Apache-2.0
# Builds, tests and checks spanprof. "make help" lists the targets; sources are found by wildcard,
# and a folder with special needs brings its own rules in test/<folder>/module.mk.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
.DELETE_ON_ERROR:
.SUFFIXES:
MAKEFLAGS += --no-builtin-rules
.DEFAULT_GOAL := all

# One job per processor unless the caller chose a number.
ifeq ($(MAKELEVEL),0)
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
endif

B := build

# By processor: the linker's name of its 32-bit format, and Debian's folders of 32-bit libraries.
STUB_EMULATION_x86_64 := elf_i386
STUB_EMULATION_aarch64 := armelf_linux_eabi
LIB_32_x86_64 := lib32 lib/i386-linux-gnu
LIB_32_aarch64 := lib/arm-linux-gnueabihf lib/arm-linux-gnueabi

# Only for this make: programs under test would take it for a misspelt variable of the profiler.
unexport SPANPROF_SKIP_DEPS
PREFIX ?= /usr/local
ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := g++
endif
ifeq ($(origin AR),default)
AR := $(if $(filter aarch64-linux-gnu-%,$(CC)),aarch64-linux-gnu-ar,ar)
endif
PKG_CONFIG ?= pkg-config
PROTOC_C ?= protoc-c
CLANG ?= clang-14
CLANG_FORMAT ?= clang-format-14
CLANG_TIDY ?= clang-tidy-14

Q := $(if $(V),,@)
say = @printf '  %-6s %s\n' '$(1)' '$(2)'

# --- Flags ---------------------------------------------------------------------------------------

IS_CLANG := $(findstring clang,$(shell $(CC) --version 2>/dev/null))

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
	-Wold-style-definition -Wpointer-arith -Wcast-qual -Wcast-align -Wwrite-strings -Wundef -Wvla \
	-Wformat=2 -Wconversion -Wsign-conversion -Wimplicit-fallthrough -Wswitch-enum \
	-Wdouble-promotion -Wnull-dereference
ifeq ($(IS_CLANG),)
WARNINGS += -Wlogical-op -Wduplicated-cond -Wduplicated-branches -Wjump-misses-init
endif
ifneq ($(DEV)$(CI),)
WARNINGS += -Werror
endif

# _GNU_SOURCE is empty, so that a file may define it again in the usual form. The prefix map keeps
# build paths out of the objects.
CPPFLAGS_ALL = -I. -I$(B)/gen -D_GNU_SOURCE= $(CPPFLAGS)
CFLAGS_ALL = -std=gnu11 -g -fPIC -fvisibility=hidden -fno-omit-frame-pointer \
	-ffile-prefix-map=$(CURDIR)=. $(WARNINGS)

CFLAGS_release = -O2
# With less optimization and debug information, compiling takes two thirds of the time, and running hardly longer.
CFLAGS_asan = -Og -g1 -fsanitize=address,undefined -fno-sanitize-recover=all
# The sanitizer does not know fences: it would report a race if a fence orders accesses that are not atomic.
CFLAGS_tsan = -O1 -g1 -fsanitize=thread -Wno-tsan

# The preloaded object runs in every process of a container, so it must not need symbols of new
# glibc versions (fortify) nor abort its host (stack protector), and its thread-local storage must
# be readable inside a signal handler. The exporter is a process of its own and gets the usual hardening.
CFLAGS_core = -ftls-model=initial-exec -fno-stack-protector -U_FORTIFY_SOURCE
CFLAGS_export = -fstack-protector-strong
# Handlers may run on small stacks. Without jump tables every indirect jump is a call through a
# pointer, which check-sigsafe.sh then sees.
CFLAGS_sig = -fno-jump-tables
# These functions jump to the real function without a frame of their own; and the compiler must not treat them as
# malloc().
CFLAGS_alloc = -fomit-frame-pointer -fno-builtin
# Host threads may have small stacks too. Each variable has a section of its own, so that the linker can put all
# except large arrays side by side: the first write to each page costs a forked child 3 us.
CFLAGS_release_core = -Wframe-larger-than=4096 -fdata-sections
CFLAGS_release_sig = $(if $(IS_CLANG),,-Wstack-usage=2048)
CFLAGS_release_export = -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
# Tests of optimized objects: the tests themselves need no optimization, and compile in a third of the time.
CFLAGS_release_unit = -Og -g1
# The sanitizer shall find faults of the objects, including accesses to the tests' memory.
CFLAGS_asan_unit = -fno-sanitize=undefined

# $(call source_flags,flavour,source). Packagers ask for optimization at link time, which does not see symbols that
# assembler outside of functions defines; and gates examine single objects.
source_flags = $(CFLAGS_$(1)) \
	$(if $(filter sampler/% preload/%,$(2)),$(CFLAGS_core) $(call CFLAGS_$(1)_core,$(1),$(2))) \
	$(if $(filter export/% scripts/%,$(2)),$(CFLAGS_export) $(CFLAGS_$(1)_export)) \
	$(if $(filter preload/alloc/%,$(2)),$(CFLAGS_alloc)) \
	$(if $(filter test/unit/%,$(2)),$(CFLAGS_$(1)_unit)) \
	$(if $(filter %_sig.c,$(2)),$(CFLAGS_sig) $(CFLAGS_$(1)_sig)) $(CFLAGS) -fno-lto

LDFLAGS_shared = -shared -Wl,-z,defs,-z,now,-z,relro,-z,noexecstack,-z,nodelete \
	-Wl,--exclude-libs,ALL -Wl,--build-id=sha1 -Wl,--as-needed -static-libgcc \
	-Wl,--sort-section=alignment $(NO_TLS_TAG)

# With binutils 2.45 and newer, an object with a TLS descriptor requires a loader of glibc 2.42 or newer, whose functions
# for descriptors preserve vector registers. Older loaders lose these registers only for storage that is made at first
# use. Ours is not, because our object is loaded at the program's start.
NO_TLS_TAG = $(call lazy,NO_TLS_TAG,$(if \
	$(findstring --no-gnu2-tls-tag,$(shell $(CC) -Wl,--help 2>/dev/null)),-Wl$(comma)--no-gnu2-tls-tag))

# All functions that a program calls are looked up before it begins, and then the table is read-only.
LDFLAGS_program = -pie -Wl,-z,now,-z,relro,-z,noexecstack,--as-needed

# Looked up once, at first use: this very make may install the packages.
lazy = $(eval $(1) := $(2))$($(1))
EXPORT_PKGS = libcurl libprotobuf-c jansson libmicrohttpd libdw libelf liblzma zlib \
	$(if $(shell grep -rl --include='*.c' '<libunwind' export 2>/dev/null),libunwind-generic)
# Without the local half of libunwind, which brings slow C++ exceptions of its own that take locks, and without
# libcurl, which export/push/libcurl.c loads at the first request. Before glibc 2.34 dlopen() and threads
# were not in libc itself.
EXPORT_LIBS = $(call lazy,EXPORT_LIBS,$(filter-out -lunwind -lcurl,$(shell $(PKG_CONFIG) --libs $(EXPORT_PKGS))) \
	-l:libiberty.a -ldl -lm -lpthread)
CRITERION_LIBS = $(call lazy,CRITERION_LIBS,$(shell $(PKG_CONFIG) --libs criterion))
# A whole run links some four hundred unit programs; LLVM's linker takes a third of the time.
TEST_LINKER = $(call lazy,TEST_LINKER,$(if $(findstring LLD,$(shell $(CC) -fuse-ld=lld -Wl,--version 2>/dev/null)),-fuse-ld=lld))

# --- Sources -------------------------------------------------------------------------------------

# The sources of a folder, of its folders, and of their folders.
files_in = $(wildcard $(addprefix $(1)/,*.$(2) */*.$(2) */*/*.$(2)))
sources_in = $(call files_in,$(1),c)
SAMPLER_SRCS := $(call sources_in,sampler)
# The second preloaded object: its own sources, and those that it shares with the first object.
ALLOC_SRCS := $(wildcard preload/alloc/*.c)
ALLOC_SHARED_SRCS := preload/elf/elf_walk.c $(addprefix sampler/base/,process.c readable_sig.c syscall_sig.c text.c)
PRELOAD_SRCS := $(filter-out $(ALLOC_SRCS),$(call sources_in,preload))
EXPORT_SRCS := $(filter-out export/exporter/% export/report/%,$(call sources_in,export))
# The program spanprof-exporter: its main(), rings, rights and confinement.
EXPORTER_SRCS := $(call sources_in,export/exporter)
REPORT_SRCS := $(call sources_in,export/report)
RUNNER_SRCS := $(wildcard scripts/run/*.c)
LAUNCHER_SRCS := $(wildcard scripts/carrier/*.c)
PROTOS := $(wildcard export/proto/*.proto)
GEN_SRCS := $(PROTOS:export/proto/%.proto=$(B)/gen/%.pb-c.c)
GEN_HDRS := $(GEN_SRCS:.c=.h) $(B)/gen/region_version.h
PRODUCT_SRCS := $(SAMPLER_SRCS) $(PRELOAD_SRCS) $(ALLOC_SRCS) $(EXPORT_SRCS) $(EXPORTER_SRCS) $(REPORT_SRCS) $(RUNNER_SRCS) $(LAUNCHER_SRCS)

# A unit test program is one test_<noun>.c; other .c files of its folder are linked into it too.
UNIT_SRCS := $(wildcard test/unit/*/test_*.c)
UNIT_HELPER_SRCS := $(filter-out $(UNIT_SRCS),$(wildcard test/unit/*/*.c))
UNIT_MAIN_SRCS := $(wildcard test/common/unit_*.c)
STRESS_SRCS := $(wildcard test/stress/*.c)
HOST_SRCS := $(wildcard test/hosts/*.c)
C_SRCS := $(PRODUCT_SRCS) $(UNIT_SRCS) $(UNIT_HELPER_SRCS) $(UNIT_MAIN_SRCS) $(STRESS_SRCS)

CORE_SO := $(B)/libspanprof.so
ALLOC_SO := $(B)/libspanprof-alloc.so
EXPORTER := $(B)/spanprof-exporter
REPORT := $(B)/spanprof-report
RUNNER := $(B)/spanprof-run
# Other names of it: the ENTRYPOINT of an image, and the command for /etc/ld.so.preload.
RUNNER_NAMES := $(B)/spanprof-entrypoint $(B)/spanprof-preload
# Not installed: in the carrier it starts our programs with a loader of their own.
LAUNCHER := $(B)/launcher
# An empty object for 32-bit programs under /etc/ld.so.preload (see spanprof-preload). It needs no 32-bit compiler,
# but a linker that knows the 32-bit format; without one it is not made.
STUB_LD := $(if $(filter aarch64-linux-gnu-%,$(CC)),aarch64-linux-gnu-ld,ld)
STUB_CPU := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
STUB_EMULATION := $(filter $(STUB_EMULATION_$(STUB_CPU)),$(shell $(STUB_LD) -V 2>/dev/null))
STUB := $(if $(STUB_EMULATION),$(B)/libspanprof-stub32.so)
DOCTOR := $(B)/spanprof-doctor
PRODUCTS := $(CORE_SO) $(ALLOC_SO) $(EXPORTER) $(REPORT) $(RUNNER) $(RUNNER_NAMES) $(DOCTOR) $(LAUNCHER) $(STUB)

# Names that loaders of this processor put for $LIB: Debian's, and those of other distributions.
LIB_64 := lib64 lib/$(STUB_CPU)-linux-gnu
LIB_32 := lib $(LIB_32_$(STUB_CPU))

# Prints the variables for sampler/config/README.md and spanprof(7).
PRINT_CONFIG := $(B)/print-config

PROGRAMS := $(REPORT) $(RUNNER) $(wildcard scripts/spanprof-*)
MAN_PAGES := $(patsubst scripts/man/%,$(B)/man/%,$(wildcard scripts/man/*.[1-8]))
MAN_SECTIONS := $(sort $(subst .,,$(suffix $(MAN_PAGES))))
CARRIER := $(B)/carrier
DIST := $(B)/dist
# Commands whose options bash completes.
COMPLETED := spanprof-run spanprof-report spanprof-doctor spanprof-preload

# Appended to by test/*/module.mk: programs to build for tests or demo, and tests to run.
TEST_PROGRAMS := $(PRINT_CONFIG) $(HOST_SRCS:test/hosts/%.c=$(B)/test/hosts/%)
DEMO_PROGRAMS :=
E2E_TESTS := $(sort $(wildcard test/e2e/*.sh))
MATRIX_TESTS :=
GATE_TESTS := $(sort $(wildcard test/gates/*.sh))
UNIT_TESTS = $(UNIT_SRCS:%.c=$(B)/release/%)
STRESS_TESTS = $(STRESS_SRCS:%.c=$(B)/release/%)
ASAN_TESTS = $(UNIT_SRCS:%.c=$(B)/asan/%)
# A whole run has the unit tests once, with sanitizers, which find more; and without sanitizers the tests that do less under them.
PLAIN_TESTS = $(filter $(patsubst %.c,$(B)/release/%,$(shell grep -rl -e __SANITIZE_ADDRESS__ -e test/common/rounds.h --include='test_*.c' test)),$(UNIT_TESTS))
# Single-stepping and the thread sanitizer exclude each other.
TSAN_TESTS = $(patsubst %.c,$(B)/tsan/%,$(filter-out %_step.c,$(STRESS_SRCS)))

# test/otelcpp first: other folders compile with headers that it makes, and make expands the names of prerequisites
# when it reads a rule.
include $(wildcard test/otelcpp/module.mk) $(filter-out test/otelcpp/module.mk,$(wildcard test/*/module.mk))

RUN := test/run.sh
as = $(addprefix $(1)=,$(2))

.PHONY: FORCE
FORCE:

## Build
.PHONY: all deps install uninstall man carrier deb deb-test rpm rpm-test dist reproducible clean
all: $(PRODUCTS) ## the object, the exporter and the tools, in build/ (V=1 prints commands, DEV=1 adds -Werror)

deps: ## install the Debian packages of all but the long targets (SPANPROF_SKIP_DEPS=1 skips this everywhere)
	$(call install_deps,build demo test lint bench carrier deb cross)

LIBDIR = $(PREFIX)/lib/spanprof
MANDIR = $(PREFIX)/share/man
COMPLETIONS = $(PREFIX)/share/bash-completion/completions
install: all $(MAN_PAGES) ## copy into $(DESTDIR)$(PREFIX)/lib/spanprof, bin, include and share
	install -d $(addprefix '$(DESTDIR)$(PREFIX)/,bin' include') '$(DESTDIR)$(LIBDIR)' \
		'$(DESTDIR)$(COMPLETIONS)' $(foreach s,$(MAN_SECTIONS),'$(DESTDIR)$(MANDIR)/man$(s)')
	$(call put_in,0644,preload/spanprof.h,$(DESTDIR)$(PREFIX)/include)
	$(call put_in,0755,$(EXPORTER),$(DESTDIR)$(LIBDIR))
	$(call put_in,0644,$(CORE_SO) $(ALLOC_SO) $(STUB),$(DESTDIR)$(LIBDIR))
ifneq ($(STUB),)
	$(foreach d,$(LIB_32),$(call link_in,$(d),$(notdir $(STUB)),$(notdir $(CORE_SO))) &&) \
		$(foreach d,$(LIB_64),$(foreach f,$(CORE_SO) $(EXPORTER),$(call link_in,$(d),$(notdir $(f)),$(notdir $(f))) &&)) :
endif
	$(call put_in,0755,$(PROGRAMS),$(DESTDIR)$(PREFIX)/bin)
	$(foreach n,$(RUNNER_NAMES),ln -sfn $(notdir $(RUNNER)) '$(DESTDIR)$(PREFIX)/bin/$(notdir $(n))' &&) :
	$(foreach s,$(MAN_SECTIONS),$(call put_in,0644,$(filter %.$(s),$(MAN_PAGES)),$(DESTDIR)$(MANDIR)/man$(s)) &&) :
	$(foreach n,$(COMPLETED),$(call put,0644,scripts/completion/spanprof,$(DESTDIR)$(COMPLETIONS)/$(n)) &&) :
	sed -i 's|@LIBDIR@|$(LIBDIR)|g' '$(DESTDIR)$(MANDIR)/man7/spanprof.7'

# $(call put,mode,file,path): copies the file beside path and renames it. install(1) by itself removes the former file, and
# then writes a new one: a program that loads or executes it meanwhile finds no file or a part of it, and SIGBUS ends a
# program that has such a part in its LD_PRELOAD. The exporter is put before the object: a program that loads the new
# object finds the new exporter.
put = install -m $(1) $(2) '$(3).new' && mv -fT '$(3).new' '$(3)'
put_in = $(foreach f,$(2),$(call put,$(1),$(f),$(3)/$(notdir $(f))) &&) :

# $(call link_in,folder,file,name): makes a relative link to the file in the folder of this name beside the file.
link_in = install -d '$(DESTDIR)$(LIBDIR)/$(1)' && \
	ln -sfn $(subst $() ,,$(patsubst %,../,$(subst /, ,$(1))))$(2) '$(DESTDIR)$(LIBDIR)/$(1)/$(3)'

man: $(MAN_PAGES) ## the man pages, in build/man

uninstall: ## remove what "make install" copied with the same DESTDIR and PREFIX
	rm -f '$(DESTDIR)$(PREFIX)/include/spanprof.h' \
		$(foreach f,$(CORE_SO) $(ALLOC_SO) $(EXPORTER) $(STUB),'$(DESTDIR)$(LIBDIR)/$(notdir $(f))') \
		$(foreach f,$(PROGRAMS) $(RUNNER_NAMES),'$(DESTDIR)$(PREFIX)/bin/$(notdir $(f))') \
		$(foreach f,$(MAN_PAGES),'$(DESTDIR)$(MANDIR)/man$(subst .,,$(suffix $(f)))/$(notdir $(f))') \
		$(foreach f,$(COMPLETED),'$(DESTDIR)$(COMPLETIONS)/$(f)')
	rm -rf $(foreach d,lib lib32 lib64,'$(DESTDIR)$(LIBDIR)/$(d)')
	[ ! -d '$(DESTDIR)$(LIBDIR)' ] || rmdir '$(DESTDIR)$(LIBDIR)'

carrier: ## all our files and the libraries that we need, for images without them (scripts/deploy; installs its tools first)
	$(call install_deps,build carrier)
	@$(MAKE) --no-print-directory $(CARRIER).done

# One folder, which can be copied to any path.
$(CARRIER).done: $(PRODUCTS) scripts/bundle.sh $(wildcard scripts/spanprof-*) LICENSE
	$(call say,BUNDLE,$(CARRIER))
	$(Q)rm -rf $(CARRIER) && scripts/bundle.sh $(CARRIER) && install -m 0644 LICENSE $(CARRIER) && touch $@

deb: ## the Debian package, in build/dist (installs its tools first)
	$(call install_deps,build deb)
	@rm -rf $(DIST) && scripts/build-deb.sh $(DIST)
	lintian --fail-on error,warning $(DIST)/spanprof_*.deb

deb-test: deb test-programs ## the package in a root of its own: installed, upgraded, removed (needs root)
	@bash test/install/package.sh deb || test $$? = 77

rpm: all $(MAN_PAGES) carrier ## the RPM package, which brings its own libraries, in build/dist (installs its tools first)
	$(call install_deps,rpm)
	@rm -f $(DIST)/spanprof-*.rpm && scripts/build-rpm.sh $(DIST)

rpm-test: rpm test-programs ## the same as deb-test, with the RPM package
	@bash test/install/package.sh rpm || test $$? = 77

dist: deb carrier ## packages, carrier, SBOM (SPDX 2.3) and SHA256SUMS, in build/dist
	@$(MAKE) --no-print-directory rpm
	@scripts/dist.sh $(DIST)

reproducible: ## build everything of dist twice, in different folders: the same bytes (minutes)
	@bash test/install/reproducible.sh

clean: ## remove build/
	rm -rf $(B)

install_deps = $(if $(SPANPROF_SKIP_DEPS),@true,@scripts/install-deps.sh $(1))

## Try
.PHONY: demo demo-programs
demo: ## build and run the ride-sharing demo (installs its packages first)
	$(call install_deps,build demo)
	@$(MAKE) --no-print-directory all demo-programs
	@test/rideshare/demo.sh

## Test
.PHONY: test test-all test-programs unit stress stress-long model-long memory-long owners-long e2e docs-test gates san tsan bench
test: ## all tests, the long ones in a short form, then one line of counts (installs the packages it needs first)
	$(call install_deps,build demo test cross)
	@$(MAKE) --no-print-directory test-all

unit: $(UNIT_TESTS) ## all unit tests (Criterion), without sanitizers
	@$(RUN) $(call as,unit,$(UNIT_TESTS))

gates: all $(PRINT_CONFIG) $(MAN_PAGES) ## exports, imports, NEEDED, symbol versions, TLS, signal safety, layers, circles; and that each gate bites
	@$(RUN) $(call as,gate,$(GATE_TESTS))

.PHONY: lines
lines: ## lines of the product, of the tests, and of their data; pages apart
	@all=$$(git ls-files sampler preload export scripts test | grep -v '\.md$$'); \
	data='^test/fuzz/corpus/|\.(png|json|dict)$$'; \
	count() { grep -E "$$1" <<<"$$all" | grep -vE "$$2" | xargs -r cat | wc -l; }; \
	echo "product $$(count '^(sampler|preload|export|scripts)/' '^$$')"; \
	echo "tests $$(count '^test/' "$$data")"; \
	echo "data of tests $$(count "$$data" '^(sampler|preload|export|scripts)/')"; \
	for folder in test/*/; do echo "  $$folder $$(count "^$$folder" "$$data")"; done | sort -rnk 2

.PHONY: messages
messages: ## every sentence that the programs can print, with file and line
	@python3 test/gates/messages.py --list

stress: $(STRESS_TESTS) ## stress programs: threads against ring, table and hooks
	@$(RUN) $(call as,stress,$(STRESS_TESTS))

e2e: all test-programs ## host programs run under the preloaded object
	@$(RUN) $(call as,e2e,$(E2E_TESTS))

docs-test: all $(PRINT_CONFIG) $(addprefix $(B)/test/,hosts/spend pyroscope-double) ## the commands of README and man pages work (part of e2e)
	@$(RUN) $(call as,e2e,test/e2e/docs.sh)

matrix: all test-programs ## stories x SDKs x ways of loading: each with its labels, without harm
	@$(RUN) $(call as,matrix,$(MATRIX_TESTS))

san: $(ASAN_TESTS) ## unit tests under the address and undefined-behaviour sanitizers
	@$(RUN) $(call as,unit,$(ASAN_TESTS))

STRESS_LONG := 10000000
stress-long: $(B)/release/test/stress/span_storm $(B)/tsan/test/stress/span_storm ## ten million spans on 64 threads, plain and under the thread sanitizer (minutes)
	@for program in $^; do time "$$program" $(STRESS_LONG) || exit 1; done

model-long: $(B)/release/test/unit/core/test_span_model ## ten thousand random sequences of spans beside the model of their rules (minutes); MODEL_SEED=... for others
	MODEL_SEQUENCES=10000 $<

memory-long: $(B)/asan/test/unit/export/test_short_memory ## lets each allocation of the exporter and of the report fail once (a minute)
	SHORT_MEMORY=all $<

owners-long: all $(B)/test/hosts/locks ## owners of locks against the truth in 20,000 contended sections (a minute)
	@LOCK_SECTIONS=1000 $(RUN) e2e=test/e2e/lock_owners.sh

tsan: $(TSAN_TESTS) ## stress programs under the thread sanitizer
	@$(RUN) $(call as,stress,$(TSAN_TESTS))

bench: ## measure the overhead (installs its packages first)
	$(call install_deps,build demo test bench)
	@$(MAKE) --no-print-directory all test-programs
	@test/bench/run.sh

test-all: all test-programs $(PLAIN_TESTS) $(STRESS_TESTS) $(ASAN_TESTS) $(TSAN_TESTS) aarch64-short
	@$(RUN) $(call as,gate,$(GATE_TESTS)) $(call as,unit,$(PLAIN_TESTS) $(ASAN_TESTS)) \
		$(call as,stress,$(STRESS_TESTS) $(TSAN_TESTS)) $(call as,matrix,$(MATRIX_TESTS)) \
		$(arm_short) $(call as,e2e,$(E2E_TESTS))

## Check
.PHONY: lint lint-all lint-gates compile compile-gcc compile-clang compile-apart-gcc compile-apart-clang
.PHONY: format format-check tidy shellcheck layers
lint: ## all static checks below (installs the packages they need first)
	$(call install_deps,build demo test lint)
	@$(MAKE) --no-print-directory --keep-going lint-all

lint-all: format-check shellcheck layers lint-gates compile-gcc compile-clang tidy
	@echo 'lint: clean'

lint-gates: all
	@for gate in exports imports deps symver tls sigsafe circles; do scripts/check-$$gate.sh || exit 1; done

compile-gcc: ## compile everything with warnings as errors
compile-clang: ## the same with clang
# Objects that gcc built with DEV=1 have no warnings, so they need not be compiled again to check that.
ifeq ($(and $(DEV),$(if $(IS_CLANG),,gcc)),gcc)
compile-gcc: compile
else
compile-gcc: compile-apart-gcc
endif
compile-clang: compile-apart-clang
# Only clang's warnings are needed; it prints them before it makes an object.
compile-apart-gcc compile-apart-clang: compile-apart-%:
	@$(MAKE) --no-print-directory DEV=1 CC='$(if $(filter clang,$*),$(CLANG) -fsyntax-only -Wno-unused-command-line-argument,gcc)' B=$(B)/lint-$* compile

compile: $(C_SRCS:%.c=$(B)/release/%.o)

format: ## rewrite the C files the way .clang-format says
	$(Q)$(CLANG_FORMAT) -i $(FORMAT_SRCS)

format-check: ## fail if "make format" would change something
	$(call say,FORMAT,$(words $(FORMAT_SRCS)) files)
	$(Q)status=0; for file in $(FORMAT_SRCS); do \
		$(CLANG_FORMAT) "$$file" | cmp -s - "$$file" || { echo "  not formatted: $$file"; status=1; }; \
	done; exit $$status

tidy: $(PRODUCT_SRCS:%=$(B)/tidy/%.ok) ## clang-tidy on the shipped sources

shellcheck: ## shell scripts
	$(call say,SHELL,$(words $(SHELL_SRCS)) files)
	$(Q)shellcheck -x -P . -S style -e SC2016 $(SHELL_SRCS)

layers: ## which files include which headers
	@scripts/check-layers.sh

FORMAT_SRCS = $(sort $(shell find sampler preload export scripts test -name '*.[ch]' -o -name '*.cc'))
SHELL_SRCS = .ci/run $(sort $(shell find scripts test -name '*.sh' -o -name '*.bash') scripts/completion/spanprof $(wildcard scripts/spanprof-*))
HEADERS := $(foreach folder,sampler export preload,$(call files_in,$(folder),h)) $(wildcard scripts/*/*.h)

## Help
.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":[^#]*## " } /^## / { printf "\n%s\n", substr($$0, 4) } \
		FNR == 1 && NR > 1 && !folders++ { printf "\nFolders of test/\n" } \
		/^[a-z][a-z0-9 -]*:[^=].*## / { printf "  %-14s %s\n", $$1, $$2 }' \
		$(filter Makefile %/module.mk,$(MAKEFILE_LIST))

# --- Rules ---------------------------------------------------------------------------------------

# Linked files depend on .link. It changes with the flags of linking; with the list of sources, because a file that was
# deleted must disappear from archives and programs; and with this Makefile, which has the commands. Programs that are
# linked with an archive depend on the archive.
$(CORE_SO) $(ALLOC_SO) $(LAUNCHER): $(B)/.link
LINK_STATE = $(CC) $(CFLAGS) $(LDFLAGS) $(PRODUCT_SRCS) $(GEN_SRCS) $(UNIT_HELPER_SRCS) $(UNIT_MAIN_SRCS)
$(B)/.link: FORCE
	@mkdir -p $(@D)
	@[[ $@ -nt Makefile ]] && echo '$(LINK_STATE)' | cmp -s - $@ || echo '$(LINK_STATE)' >$@

# Each flavour has its own tree of objects; .flags changes when the compiler or its flags do.
define flavour_rules
.PRECIOUS: $(B)/$(1)/%.o
$(B)/$(1)/.flags: FORCE
	@mkdir -p $$(@D)
	@echo '$$(CC) $$(CPPFLAGS_ALL) $$(CFLAGS_ALL) $$(call source_flags,$(1),sampler/ export/ _sig.c test/unit/)' \
		| cmp -s - $$@ || echo '$$(CC) $$(CPPFLAGS_ALL) $$(CFLAGS_ALL) \
		$$(call source_flags,$(1),sampler/ export/ _sig.c test/unit/)' >$$@

$(B)/$(1)/%.o: %.c $(B)/$(1)/.flags | $(GEN_HDRS)
	@mkdir -p $$(@D)
	$$(call say,CC,$$(@:$(B)/release/%=%))
	$$(Q)$$(CC) $$(CPPFLAGS_ALL) $$(CFLAGS_ALL) $$(call source_flags,$(1),$$<) -MMD -MP -c -o $$@ $$<
	$(if $(filter -fsyntax-only,$(CC)),@touch $$@)

$(B)/$(1)/gen/%.o: $(B)/gen/%.c $(B)/$(1)/.flags
	@mkdir -p $$(@D)
	$$(call say,CC,$$@)
	$$(Q)$$(CC) $$(CPPFLAGS_ALL) $$(CFLAGS_ALL) -w $$(CFLAGS_$(1)) -c -o $$@ $$<

$(B)/$(1)/sampler.a: $(SAMPLER_SRCS:%.c=$(B)/$(1)/%.o)
	$$(call archive)
$(B)/$(1)/export.a: $(EXPORT_SRCS:%.c=$(B)/$(1)/%.o) $(GEN_SRCS:$(B)/gen/%.c=$(B)/$(1)/gen/%.o)
	$$(call archive)
# The programs without their main().
$(B)/$(1)/exporter.a: $(patsubst %.c,$(B)/$(1)/%.o,$(filter-out export/exporter/main.c,$(EXPORTER_SRCS)))
	$$(call archive)
$(B)/$(1)/report.a: $(patsubst %.c,$(B)/$(1)/%.o,$(filter-out export/report/main.c,$(REPORT_SRCS)))
	$$(call archive)
# Without the exported hooks: a test program shall start and end by the C library's own functions.
$(B)/$(1)/preload.a: $(patsubst %.c,$(B)/$(1)/%.o,$(filter-out preload/hooks/%,$(PRELOAD_SRCS)))
	$$(call archive)

$(patsubst %,$(B)/$(1)/%.a,sampler export exporter report preload): $(B)/.link

$(filter $(B)/$(1)/test/unit/preload/%,$(UNIT_SRCS:%.c=$(B)/$(1)/%)): $(B)/$(1)/preload.a
$(filter $(B)/$(1)/test/unit/export/%,$(UNIT_SRCS:%.c=$(B)/$(1)/%)): $(B)/$(1)/report.a
$(filter $(B)/$(1)/test/unit/exporter/%,$(UNIT_SRCS:%.c=$(B)/$(1)/%)): $(B)/$(1)/exporter.a
$(UNIT_SRCS:%.c=$(B)/$(1)/%): $(B)/$(1)/%: $(B)/$(1)/%.o $(UNIT_MAIN_SRCS:%.c=$(B)/$(1)/%.o) \
		$(B)/$(1)/export.a $(B)/$(1)/sampler.a
	$$(call link_program,$(1),$$(CRITERION_LIBS) $$(TEST_LINKER))
$(foreach src,$(UNIT_SRCS),$(eval $(B)/$(1)/$(src:.c=): \
	$(patsubst %.c,$(B)/$(1)/%.o,$(filter $(dir $(src))%,$(UNIT_HELPER_SRCS)))))
# Its allocations can fail.
$(B)/$(1)/test/unit/export/test_short_memory: private LDFLAGS += \
	$$(foreach function,malloc calloc realloc strdup,-Wl,--wrap=$$(function))
$(STRESS_SRCS:%.c=$(B)/$(1)/%): $(B)/$(1)/%: $(B)/$(1)/%.o $(B)/$(1)/export.a $(B)/$(1)/sampler.a
	$$(call link_program,$(1),$$(TEST_LINKER))
endef

define archive
$(call say,AR,$@)
@rm -f $@
$(Q)$(AR) rcsD $@ $(filter %.o,$^)
endef

# This object contains the files of spanprof-report's pages; the compiler does not list them as dependencies.
$(foreach f,release asan tsan,$(B)/$(f)/export/report/page.o): $(wildcard export/report/page/*)

# $(call link_program,flavour,libraries): the archives of export and sampler may need each other.
define link_program
$(call say,LD,$@)
$(Q)$(CC) $(CFLAGS_$(1)) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) \
	-Wl,--start-group $(filter %.a,$^) -Wl,--end-group $(2) $(EXPORT_LIBS)
endef

$(foreach flavour,release asan tsan,$(eval $(call flavour_rules,$(flavour))))

$(B)/gen/%.pb-c.c $(B)/gen/%.pb-c.h: export/proto/%.proto
	@mkdir -p $(@D)
	$(call say,PROTO,$<)
	$(Q)$(PROTOC_C) --proto_path=export/proto --c_out=$(B)/gen $<

# Written only if the version of the region has changed, so that no file is compiled again without need.
$(B)/gen/region_version.h: $(HEADERS) $(EXPORT_SRCS) $(EXPORTER_SRCS) $(REPORT_SRCS) scripts/region-version.sh
	@mkdir -p $(@D)
	@CC='$(CC)' scripts/region-version.sh >$@.$$$$ && { cmp -s $@.$$$$ $@ || mv $@.$$$$ $@; } && rm -f $@.$$$$

.SECONDARY: $(GEN_SRCS) $(GEN_HDRS)

CORE_OBJS := $(patsubst %.c,$(B)/release/%.o,$(PRELOAD_SRCS) $(SAMPLER_SRCS))

$(CORE_SO): $(CORE_OBJS) scripts/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(LDFLAGS_shared) -Wl,-soname,$(@F) \
		-Wl,--version-script=scripts/exports.map -o $@ $(CORE_OBJS)

ALLOC_OBJS := $(patsubst %.c,$(B)/release/%.o,$(ALLOC_SRCS) $(ALLOC_SHARED_SRCS))

$(ALLOC_SO): $(ALLOC_OBJS) scripts/exports-alloc.map
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $(LDFLAGS_shared) -Wl,-z,separate-code -Wl,-soname,$(@F) \
		-Wl,--version-script=scripts/exports-alloc.map -o $@ $(ALLOC_OBJS)

# Linked from an empty object file, without the linker's symbols for its ends. An ARM loader takes only objects of version 5
# of the ABI (in e_flags), which the linker cannot know from such a file, and no object that declares the other ABI for
# floating point arguments; this one has none.
$(STUB): Makefile
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)trap 'rm -f $@.o' EXIT && $(STUB_LD) -m $(STUB_EMULATION) -r -b binary -o $@.o /dev/null && \
		$(STUB_LD) -m $(STUB_EMULATION) -shared -s -soname $(notdir $(CORE_SO)) -z noexecstack \
		--build-id=none --hash-style=both --version-script=<(echo '{ local: *; };') -o $@ $@.o && chmod a-x $@
ifneq ($(filter arm%,$(STUB_EMULATION)),)
	$(Q)printf '\0' | dd of=$@ bs=1 seek=7 conv=notrunc status=none && \
		printf '\0\0\0\5' | dd of=$@ bs=1 seek=36 conv=notrunc status=none
endif

$(EXPORTER): $(EXPORTER_SRCS:%.c=$(B)/release/%.o) $(B)/release/export.a $(B)/release/sampler.a
	$(call link_program,release,$(LDFLAGS_program))

$(REPORT): $(REPORT_SRCS:%.c=$(B)/release/%.o) $(B)/release/export.a $(B)/release/sampler.a
	$(call link_program,release,$(LDFLAGS_program))

# For images with any C library, or none.
$(RUNNER): $(RUNNER_SRCS:%.c=$(B)/release/%.o) $(B)/release/sampler.a
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -static-pie -Wl,-z,relro,-z,now,-z,noexecstack -o $@ $^

$(RUNNER_NAMES): $(RUNNER)
	$(Q)ln -sfn $(notdir $<) $@

# The doctor uses the other tools in its own folder, so it is built into the same one.
$(DOCTOR): scripts/spanprof-doctor
	@mkdir -p $(@D)
	$(Q)install -m 0755 $< $@

$(LAUNCHER): $(LAUNCHER_SRCS:%.c=$(B)/release/%.o)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -static-pie -Wl,-z,relro,-z,now,-z,noexecstack -o $@ $(filter %.o,$^)

$(PRINT_CONFIG): $(B)/release/scripts/print-config.o $(B)/release/sampler.a
	$(call link_program,release,-Wl$(comma)--as-needed)

# Inserts the version, and in spanprof.7 the table of variables.
$(B)/man/%: scripts/man/% $(PRINT_CONFIG) sampler/base/compiler.h
	@mkdir -p $(@D)
	$(call say,MAN,$@)
	$(Q)version=$$(sed -n 's/.*SP_VERSION "\(.*\)"/\1/p' sampler/base/compiler.h) && \
		$(PRINT_CONFIG) --man >$@.table && \
		sed -e "s/@VERSION@/$$version/" -e '/^\.\\" config$$/{' -e 'r $@.table' -e 'd' -e '}' $< >$@ && \
		rm $@.table

# Prints one line instead of a compiler's first complaint. Only needed by a plain "make": "make demo", "make test" and
# similar targets have installed the packages before.
define missing_for_build
$(strip $(shell for program in $(firstword $(CC)) $(PROTOC_C) $(PKG_CONFIG); do \
	command -v $$program >/dev/null || echo $$program; done; \
	for package in $(EXPORT_PKGS); do $(PKG_CONFIG) --exists $$package 2>/dev/null || echo $$package; done))
endef
ifneq ($(filter all install,$(or $(MAKECMDGOALS),all)),)
ifneq ($(missing_for_build),)
$(error not installed: $(missing_for_build). On Debian and Ubuntu: sudo scripts/install-deps.sh build)
endif
endif

comma := ,

$(B)/tidy/%.ok: % .clang-tidy $(HEADERS) | $(GEN_HDRS)
	@mkdir -p $(@D)
	$(call say,TIDY,$<)
	$(Q)$(CLANG_TIDY) --quiet $< -- -std=gnu11 $(CPPFLAGS_ALL) 2>$@.err || \
		{ cat $@.err >&2; exit 1; }
	@touch $@

# Host programs represent users' programs, so they get ordinary flags.
$(B)/test/hosts/%: test/hosts/%.c
	@mkdir -p $(@D)
	$(call say,HOST,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g -Wall -Wextra -I. $(HOST_CFLAGS_$*) -MMD -MP -MF $@.d -o $@ $< $(HOST_LIBS_$*)

# For another processor, only the programs that test/aarch64 runs.
test-programs: $(if $(filter aarch64-linux-gnu-%,$(CC)),$(filter $(addprefix $(B)/test/,conformance/% exporter-stand-in go/% hosts/% \
	lib% otelc/% otelcpp/% print-config),$(TEST_PROGRAMS)),$(TEST_PROGRAMS))
demo-programs: $(DEMO_PROGRAMS)

-include $(foreach f,release asan tsan,$(C_SRCS:%.c=$(B)/$(f)/%.d)) $(TEST_PROGRAMS:%=%.d)
