/* SPDX-License-Identifier: Apache-2.0 */
/* sp_export_run() from the outside: samples go in, files come out. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core_double.h"
#include "export/export.h"
#include "export/loop/worker.h"
#include "export/profile/gzip.h"
#include "export/util/clock.h"
#include "export/util/turn.h"
#include "profile_reader.h"
#include "sampler/base/compiler.h"
#include "test/unit/descriptors.h"
#include "test/unit/scratch.h"

static int64_t clock_set_by_s;
static _Atomic uint64_t mono_ahead_ns;
static uint64_t mono_still_at_ns; /* 0 = the clock runs */
static uint64_t look_takes_ns;    /* how much the clock advances each time the worker reads it */
static pthread_t collector;

/* Replaces the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	int err = (int)syscall(SYS_clock_gettime, id, t);
	uint64_t ns = (uint64_t)t->tv_sec * SP_NS_PER_S + (uint64_t)t->tv_nsec;

	if (id == CLOCK_REALTIME)
		t->tv_sec += clock_set_by_s;
	if (id != CLOCK_MONOTONIC)
		return err;
	if (look_takes_ns != 0 && !pthread_equal(pthread_self(), collector))
		mono_ahead_ns += look_takes_ns;
	ns = (mono_still_at_ns != 0 ? mono_still_at_ns : ns) + mono_ahead_ns;
	*t = (struct timespec){(time_t)(ns / SP_NS_PER_S), (long)(ns % SP_NS_PER_S)};
	return err;
}

static unsigned done_with; /* how often the loop was done with a process */
static unsigned waits;     /* how often the loop waited for the family */

static unsigned asks_at; /* the number of the wait after which it asks for something */

static void wait_for_family(void *self, uint32_t timeout_ms)
{
	core_family.wait(self, timeout_ms);
	if (++waits == asks_at)
		core.due_ns = 0;
}

static void left(void *self, const struct sp_core_ops *ops, int error)
{
	(void)self;
	(void)ops;
	(void)error;
	done_with++;
}

static uint64_t begun_ns;
static bool ends_process;

static int run_family(void (*wait)(void *self, uint32_t timeout_ms),
		      const struct sp_core_ops *(*first)(void *self))
{
	struct sp_export_family family = core_family;

	family.ends_process = ends_process;
	family.wait = wait;
	family.next = first;
	family.left = left;
	return sp_export_run(&family);
}

/* Runs the exporter for a family with this process only. */
static int core_run(void)
{
	begun_ns = sp_clock_mono_ns();
	core.has_come = false;
	return run_family(wait_for_family, core_family.next);
}

static void set_up(void)
{
	core_reset();
	core.ops.pid = (uint32_t)getpid();
	scratch_make();
	core.config.output_dir = scratch;
}

TestSuite(run, .init = set_up, .fini = scratch_remove);

static unsigned flush_then_stop(unsigned call)
{
	return call == 0 ? SP_WAIT_FLUSH : SP_WAIT_STOP;
}

static profile *read_profile(const char *path)
{
	struct sp_bytes plain;
	uint8_t *data;
	profile *p;
	FILE *f = fopen(path, "rb");
	long len;

	cr_assert_not_null(f);
	fseek(f, 0, SEEK_END);
	len = ftell(f);
	rewind(f);
	data = malloc((size_t)len);
	cr_assert_eq(fread(data, 1, (size_t)len, f), (size_t)len);
	fclose(f);
	cr_assert_eq(sp_gzip_unpack(data, (size_t)len, 1 << 24, &plain), 0);
	p = profile_read(plain.data, plain.len);
	free(plain.data);
	free(data);
	return p;
}

/* The written files, sorted by name. */
static glob_t written(const char *names)
{
	char pattern[128];
	glob_t g;

	(void)snprintf(pattern, sizeof(pattern), "%s/%s", scratch, names);
	cr_assert_eq(glob(pattern, 0, NULL, &g), 0, "no profile");
	return g;
}

/* The only profile that was written. */
static profile *read_only_profile(void)
{
	glob_t g = written("*.pb.gz");
	profile *p;

	cr_assert_eq(g.gl_pathc, 1);
	p = read_profile(g.gl_pathv[0]);
	globfree(&g);
	return p;
}

Test(run, writes_what_a_flush_finds, .timeout = 20)
{
	unsigned fds = open_descriptors();
	struct sp_sample *s;
	profile *p;

	core.script = flush_then_stop;
	core.label[0] = "GET /";
	s = core_sample(0, 1, (void *)core_reset, dlsym(RTLD_DEFAULT, "malloc"), NULL);
	memcpy(&s->span_id, "\x01\x02\x03\x04\x05\x06\x07\xff", 8);
	memset(s->trace_id, 0xab, 16);
	s->weight = 3;
	core_sample(0, 0, (void *)core_logged, NULL);

	cr_assert_eq(core_run(), 0);

	p = read_only_profile();
	cr_expect_eq(p->n_sample, 2);
	cr_expect_str_eq(profile_label(p, p->sample[0], "span_id"), "01020304050607ff");
	cr_expect_str_eq(profile_label(p, p->sample[0], "span_name"), "GET /");
	cr_expect_str_eq(profile_label(p, p->sample[0], "trace_id"),
			 "abababababababababababababababab");
	cr_expect_str_eq(profile_frame(p, p->sample[0], 0), "core_reset");
	cr_expect_eq(p->sample[0]->value[0], 1);
	cr_expect_eq(p->sample[0]->value[1], 30000000);
	cr_expect_eq(p->sample[1]->n_label, 0);
	cr_expect_str_eq(profile_frame(p, p->sample[1], 0), "core_logged");
	cr_expect_eq(p->period, 10000000);
	cr_expect_eq(core.flushed, 1);
	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 1);
	cr_expect_eq(open_descriptors(), fds, "a descriptor is still open");
	profile_done(p);
}

/* The samples of a flush stand for 40 ms and one record of CPU time for 10. */
static int64_t flushed_ns(struct sp_core_cpu cpu)
{
	int64_t ns = 0;
	profile *p;

	core.script = flush_then_stop;
	core_sample(0, 0, (void *)core_reset, NULL)->weight = 3;
	core_sample(0, 0, (void *)core_logged, NULL);
	core_cpu_time(0, NULL, 10000000);
	core.cpu = cpu;

	cr_assert_eq(core_run(), 0);

	p = read_only_profile();
	cr_expect_eq(p->n_sample, 3);
	cr_expect_eq(p->sample[0]->value[0] + p->sample[1]->value[0], 2);
	for (size_t i = 0; i < p->n_sample; i++)
		ns += p->sample[i]->value[1];
	profile_done(p);
	return ns;
}

Test(run, the_last_profile_has_no_more_than_the_process_has_used, .timeout = 20)
{
	cr_expect_eq(flushed_ns((struct sp_core_cpu){
			     .own_ns = 32000000, .before_ns = 2000000, .is_live = true}),
		     30000000);
}

Test(run, samples_that_no_clock_explains_stay, .timeout = 20)
{
	cr_expect_eq(flushed_ns((struct sp_core_cpu){.own_ns = 29999999, .is_live = true}),
		     50000000);
}

Test(run, a_process_that_used_more_than_its_samples_keeps_them, .timeout = 20)
{
	cr_expect_eq(flushed_ns((struct sp_core_cpu){.own_ns = 50000001, .is_live = true}),
		     50000000);
}

Test(run, an_old_time_of_a_process_changes_no_profile, .timeout = 20)
{
	cr_expect_eq(flushed_ns((struct sp_core_cpu){.own_ns = 37000000}), 50000000);
}

Test(run, the_time_that_an_earlier_exporter_sent_changes_no_profile, .timeout = 20)
{
	core.counter[SP_COUNT_SAMPLES_DRAINED] = 5;
	cr_expect_eq(flushed_ns((struct sp_core_cpu){.own_ns = 37000000, .is_live = true}),
		     50000000);
}

Test(run, children_without_a_sample_are_in_the_profile_of_their_parent_once, .timeout = 20)
{
	profile *p;

	core.script = flush_then_stop;
	core.counter[SP_COUNT_BRIEF_CHILDREN] = 7000;
	core.counter[SP_COUNT_BRIEF_CHILDREN_DRAINED] = 2000;

	cr_assert_eq(core_run(), 0);

	p = read_only_profile();
	cr_assert_eq(p->n_sample, 1);
	cr_expect_eq(p->sample[0]->value[0], 0);
	cr_expect_eq(p->sample[0]->value[1], 5000000);
	cr_expect_eq(p->sample[0]->n_label, 0);
	cr_expect_str_eq(profile_frame(p, p->sample[0], 0), "[unsampled cpu]");
	cr_expect_eq(core.counter[SP_COUNT_BRIEF_CHILDREN_DRAINED], 7000);
	profile_done(p);
}

Test(run, asks_for_the_thread_of_cpu_time_where_its_record_has_no_name, .timeout = 20)
{
	static const char *const expected[] = {"own", "thread 42", "(unknown)", "(unknown)"};
	profile *p;

	core.config.thread_name = true;
	core.script = flush_then_stop;
	strcpy(core_cpu_time(1, (void *)core_reset, 5)->thread_name, "own");
	core_cpu_time(2, (void *)core_reset, 5)->tid = 42;
	core_cpu_time(3, NULL, 5);
	core_sample(4, 0, (void *)core_reset, NULL)->tid = 42;

	cr_assert_eq(core_run(), 0);

	p = read_only_profile();
	cr_assert_eq(p->n_sample, 4);
	for (size_t i = 0; i < 4; i++)
		cr_expect_str_eq(profile_label(p, p->sample[i], "thread_name"), expected[i]);
	profile_done(p);
}

Test(run, walks_the_stacks_that_come_as_snapshots, .timeout = 20)
{
	static struct sp_snapshot snap;
	static const struct sp_sample head = {.weight = 5};
	profile *p;

	memcpy(snap.sample, &head, sizeof(snap.sample));
	snap.reg[SP_ARCH_REG_PC] = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "malloc");
	snap.reg[SP_ARCH_REG_SP] = UINT64_C(0x7ffff0000000);
#ifdef __aarch64__
	snap.reg[30] = 16; /* where a leaf has its return address */
#endif
	core.snapshot = &snap;
	core.script = flush_then_stop;

	cr_assert_eq(core_run(), 0);
	p = read_only_profile();
	cr_assert_eq(core.drained, 1);
	cr_assert_eq(core.counter[SP_COUNT_UNWIND_FAILED], 1, "its stack is empty");
	cr_expect(core.has_no_frame_tables, "libraries of Debian have tables in memory");
	cr_assert_eq(p->n_sample, 1);
	cr_assert_eq(p->sample[0]->value[1], 50000000);
	cr_assert_str_eq(profile_frame(p, p->sample[0], 0), "malloc");
	profile_done(p);
}

static unsigned rest_then_flush(unsigned call)
{
	if (call == 1)
		core_sample(1, 0, (void *)core_reset, NULL);
	if (call == 3)
		cr_expect_eq(core.drained, 0, "the rings of a process that has done nothing");
	return call == 0 ? 0 : call < 3 ? SP_WAIT_RESTS : call == 3 ? SP_WAIT_FLUSH : SP_WAIT_STOP;
}

Test(run, looks_into_no_rings_of_a_process_that_rests, .timeout = 20)
{
	core.script = rest_then_flush;

	cr_assert_eq(core_run(), 0);
	cr_expect_eq(core.drained, 1);
	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 1);
}

static struct sp_sample *allocate(uint64_t span_id, uint64_t block)
{
	struct sp_sample *s = core_sample(span_id, 1, (void *)core_reset, NULL);

	s->allocated = 1 << 20;
	s->block = block;
	return s;
}

static void tell(enum sp_record_kind kind, uint64_t word)
{
	core.record[core.records].kind = kind;
	core.record[core.records++].word = word;
}

static struct sp_snapshot freed_early;

/* Four intervals: a block comes, a part is freed, its span ends, the rest is freed. Then nothing happens. */
static unsigned allocate_and_free(unsigned call)
{
	static const struct sp_sample head = {.allocated = 1 << 20, .block = 3};

	(void)call;
	/* The requested flush ends an interval. */
	if (core.pending)
		return 0;
	switch (core.flushed) {
	case 0:
		allocate(7, 1);
		allocate(7, 2);
		tell(SP_RECORD_FREED, 3);
		tell(SP_RECORD_FREED, 99);
		memcpy(freed_early.sample, &head, sizeof(freed_early.sample));
		core.snapshot = &freed_early;
		break;
	case 1:
		tell(SP_RECORD_FREED, 1);
		break;
	case 2:
		tell(SP_RECORD_SPAN_ENDED, 7);
		break;
	case 3:
		tell(SP_RECORD_FREED, 2);
		break;
	default:
		break;
	}
	return core.flushed < 5 ? SP_WAIT_FLUSH : SP_WAIT_STOP;
}

Test(run, shows_at_the_end_of_each_interval_what_is_there_of_what_was_allocated, .timeout = 20)
{
	static const struct {
		size_t samples;
		int64_t blocks;
		bool is_open;
	} expected[] = {{1, 2, true}, {1, 1, true}, {1, 1, false}, {0, 0, false}};
	glob_t g;

	core.script = allocate_and_free;
	core.config.alloc = true;
	core.config.alloc_interval = 1024;
	core.label[0] = "GET /";

	cr_assert_eq(core_run(), 0);

	g = written("*-inuse.pb.gz");
	cr_assert_eq(g.gl_pathc, 4, "%zu", g.gl_pathc);
	for (size_t i = 0; i < 4; i++) {
		profile *p = read_profile(g.gl_pathv[i]);

		cr_expect_str_eq(profile_string(p, p->sample_type[0]->type), "inuse_objects");
		cr_expect_str_eq(profile_string(p, p->sample_type[1]->type), "inuse_space");
		cr_expect_str_eq(profile_string(p, p->period_type->type), "space");
		cr_assert_eq(p->n_sample, expected[i].samples);
		cr_expect_eq(profile_total(p, 0), expected[i].blocks);
		cr_expect_eq(profile_total(p, 1), expected[i].blocks << 20);
		if (p->n_sample != 0) {
			cr_expect_str_eq(profile_label(p, p->sample[0], "span_name"), "GET /");
			cr_expect_eq(profile_label(p, p->sample[0], "span_id") != NULL,
				     expected[i].is_open);
		}
		profile_done(p);
	}
	globfree(&g);
	/* Each allocation counts once, and blocks in use do not count again. */
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 3);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 0);
	cr_expect_eq(core.counter[SP_COUNT_BLOCKS_NO_ROOM], 0);
}

/* The end of a block comes through another ring, in which nothing is hidden. */
static unsigned free_what_is_hidden(unsigned call)
{
	static const struct sp_sample head = {.allocated = 1 << 20, .block = 3};

	if (call == 0) {
		memcpy(freed_early.sample, &head, sizeof(freed_early.sample));
		core.snapshot = &freed_early;
		core.is_stalled = true;
		tell(SP_RECORD_FREED, 3);
		return 0;
	}
	core.is_stalled = false;
	return flush_then_stop(call - 1);
}

Test(run, shows_no_block_that_was_freed_before_its_hidden_snapshot_came, .timeout = 20)
{
	glob_t g;

	core.script = free_what_is_hidden;
	core.config.alloc = true;
	core.config.alloc_interval = 1024;

	cr_assert_eq(core_run(), 0);
	cr_expect_eq(core.drained, 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1);
	g = written("*.pb.gz");
	cr_expect_eq(g.gl_pathc, 1, "%zu", g.gl_pathc);
	cr_expect_not_null(strstr(g.gl_pathv[0], "-memory.pb.gz"), "%s", g.gl_pathv[0]);
	globfree(&g);
}

/* Comes with libc, and no program loads it. */
#define RARE_LIB "libBrokenLocale.so.1"

static struct sp_snapshot late;

/* A library that is loaded while the exporter runs already, and that no handler announces. */
static unsigned load_then_flush_then_stop(unsigned call)
{
	void *at;

	if (call != 0)
		return flush_then_stop(call - 1);
	/*
	 * The exporter reads the mappings again after a time 50 times as long as the first reading. The first reading
	 * took less time than has passed since begun_ns.
	 */
	usleep((useconds_t)(50 * (sp_clock_mono_ns() - begun_ns) / 1000));
	at = dlsym(dlopen(RARE_LIB, RTLD_NOW), "__ctype_get_mb_cur_max");
	cr_assert_not_null(at);
	if (late.reg[SP_ARCH_REG_SP] == 0) {
		core_sample(0, 0, at, NULL);
		return 0;
	}
	late.reg[SP_ARCH_REG_PC] = (uint64_t)(uintptr_t)at;
	core.snapshot = &late;
	return 0;
}

Test(run, names_what_was_loaded_since_without_being_told, .timeout = 20)
{
	profile *p;

	core.script = load_then_flush_then_stop;

	cr_assert_eq(core_run(), 0);
	p = read_only_profile();
	cr_assert_eq(p->n_sample, 1);
	cr_expect_str_eq(profile_frame(p, p->sample[0], 0), "__ctype_get_mb_cur_max");
	profile_done(p);
}

/* The function has no frame of its own, so its caller is at the stack pointer, or in a register. */
Test(run, walks_snapshots_in_what_was_loaded_since, .timeout = 20)
{
	static const struct sp_sample head = {.weight = 5};
	uint64_t caller = (uint64_t)(uintptr_t)dlsym(RTLD_DEFAULT, "malloc") + 1;
	profile *p;

	memcpy(late.sample, &head, sizeof(late.sample));
	late.reg[SP_ARCH_REG_SP] = UINT64_C(0x7ffff0000000);
	late.stack_at = late.reg[SP_ARCH_REG_SP];
	late.stack_bytes = sizeof(caller);
	memcpy(late.stack, &caller, sizeof(caller));
#ifdef __aarch64__
	late.reg[30] = caller;
#endif
	core.script = load_then_flush_then_stop;

	cr_assert_eq(core_run(), 0);
	p = read_only_profile();
	cr_assert_eq(p->n_sample, 1);
	cr_assert_geq(p->sample[0]->n_location_id, 2);
	cr_expect_str_eq(profile_frame(p, p->sample[0], 0), "__ctype_get_mb_cur_max");
	cr_expect_str_eq(profile_frame(p, p->sample[0], 1), "malloc");
	profile_done(p);
}

Test(run, starts_afresh_when_run_again, .timeout = 20)
{
	profile *p;

	core.script = flush_then_stop;
	core_sample(1, 0, (void *)core_reset, NULL);
	cr_assert_eq(core_run(), 0);
	p = read_only_profile();
	profile_done(p);
	scratch_remove();
	core.asked = 0;
	core.pending = false;
	core_sample(2, 0, (void *)core_logged, NULL);

	cr_assert_eq(core_run(), 0);

	p = read_only_profile();
	cr_expect_eq(p->n_sample, 1, "the first run's sample is back");
	cr_expect_str_eq(profile_frame(p, p->sample[0], 0), "core_logged");
	profile_done(p);
}

Test(run, writes_nothing_without_samples, .timeout = 20)
{
	core.script = flush_then_stop;
	core.config.off_cpu = true;

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 0);
	cr_expect_eq(core.flushed, 1);
	cr_expect_eq(rmdir(scratch), 0, "the folder is not empty");
	scratch_make();
}

static unsigned first_nothing(unsigned call)
{
	return call == 0 ? 0 : SP_WAIT_FLUSH | SP_WAIT_STOP;
}

/* A file system that hangs: while this is set, no file can be renamed. */
static _Atomic bool hangs;
static _Atomic unsigned renamed;

int renameat(int old_folder, const char *old, int folder, const char *name)
{
	while (hangs)
		usleep(1000);
	renamed++;
	return (int)syscall(SYS_renameat2, old_folder, old, folder, name, 0);
}

/* Other processes and events may wake the exporter meanwhile. */
Test(run, asks_nothing_of_a_process_that_is_not_due, .timeout = 20)
{
	char status[128];

	(void)snprintf(status, sizeof(status), "%s/status.json", scratch);
	core.config.status_file = status;
	core.script = first_nothing;
	core.due_ns = UINT64_MAX;
	asks_at = 100;

	cr_assert_eq(core_run(), 0);

	cr_expect_geq(waits, 100);
	cr_expect_leq(core.asked, 4, "%u times", core.asked);
	cr_expect_leq(renamed, 4, "its status was written %u times", renamed);
	unlink(status);
}

/* With SPANPROF_SPAN_ID_SCOPE=none only the name shows that a sample was taken in a span. */
Test(run, a_sample_with_a_name_alone_was_taken_in_a_span, .timeout = 20)
{
	char status[128];
	json_int_t with = -1, without = -1;
	json_t *root;

	(void)snprintf(status, sizeof(status), "%s/status.json", scratch);
	core.config.status_file = status;
	core.script = flush_then_stop;
	core.label[0] = "GET /";
	core_sample(0, 1, (void *)core_reset, NULL);
	core_sample(0, 0, (void *)core_reset, NULL);

	cr_assert_eq(core_run(), 0);

	root = json_load_file(status, 0, NULL);
	cr_assert_eq(json_unpack(root, "{s:{s:I,s:I}}", "samples", "with_span", &with,
				 "without_span", &without),
		     0);
	cr_expect_eq(with, 1);
	cr_expect_eq(without, 1);
	json_decref(root);
	unlink(status);
}

#define MANY 50U
#define MANY_S 60U

static uint64_t many_begun_ns; /* when the last process came */
static unsigned come;
static bool one_comes;

/* A new process comes a moment after the process before it. */
static const struct sp_core_ops *next_of_many(void *self)
{
	bool is_next = come == 0 || one_comes;

	(void)self;
	one_comes = false;
	come += is_next;
	return is_next ? &core.ops : NULL;
}

static void wait_for_the_next(void *self)
{
	core_family.wait(self, 0);
	mono_still_at_ns += 37 * SP_NS_PER_MS;
	many_begun_ns = mono_still_at_ns;
	one_comes = true;
}

static void wait_by_clock(void *self, uint32_t timeout_ms)
{
	/* When they have ended, the worker has its own time, which does not depend on this clock. */
	waits += mono_still_at_ns - many_begun_ns < MANY_S * SP_NS_PER_S;
	mono_still_at_ns += timeout_ms * SP_NS_PER_MS;
	core_family.wait(self, timeout_ms);
}

static void wait_for_many(void *self, uint32_t timeout_ms)
{
	if (come < MANY)
		wait_for_the_next(self);
	else
		wait_by_clock(self, timeout_ms);
}

static unsigned stop_in_the_end(unsigned call)
{
	(void)call;
	return mono_still_at_ns - many_begun_ns >= MANY_S * SP_NS_PER_S ? SP_WAIT_STOP : 0;
}

/* Each process has its own upload intervals, which end at different moments, and a status. */
Test(run, many_that_do_nothing_wake_the_exporter_as_seldom_as_one, .timeout = 60)
{
	many_begun_ns = mono_still_at_ns = 1000 * SP_NS_PER_S;
	core.script = stop_in_the_end;
	core.due_ns = UINT64_MAX;

	cr_assert_eq(run_family(wait_for_many, next_of_many), 0);

	cr_expect_eq(done_with, MANY);
	cr_expect_geq(waits, MANY_S);
	cr_expect_leq(waits, MANY_S + MANY_S / 10, "%u times", waits);
}

static void wait_and_sample_by_clock(void *self, uint32_t timeout_ms)
{
	wait_by_clock(self, timeout_ms);
	if (waits > 1 && core.records == 0)
		core_sample(1, 0, (void *)core_logged, NULL);
}

static unsigned flush_after_two_seconds(unsigned call)
{
	(void)call;
	return mono_still_at_ns - many_begun_ns >= 2 * SP_NS_PER_S ? SP_WAIT_FLUSH | SP_WAIT_STOP
								   : 0;
}

/* The rings were empty at the first look, and a sample does not wake the exporter. */
Test(run, an_interval_of_less_than_a_second_is_kept, .timeout = 20)
{
	many_begun_ns = mono_still_at_ns = 1000 * SP_NS_PER_S;
	core.has_come = false;
	core.config.upload_interval_ms = 200;
	core.script = flush_after_two_seconds;
	core.due_ns = UINT64_MAX;

	cr_assert_eq(run_family(wait_and_sample_by_clock, core_family.next), 0);

	cr_expect_geq(core.counter[SP_COUNT_FILES_WRITTEN], 8, "%" PRIu64,
		      core.counter[SP_COUNT_FILES_WRITTEN]);
}

Test(run, opens_nothing_for_who_has_become_somebody_else, .timeout = 20)
{
	char status[128];

	(void)snprintf(status, sizeof(status), "%s/status.json", scratch);
	core.config.status_file = status;
	core.script = first_nothing;
	core.is_barred = true;
	core_sample(1, 0, (void *)core_logged, NULL);

	cr_assert_eq(core_run(), 0);

	cr_expect_neq(core.opened, 0);
	cr_expect_eq(rmdir(scratch), 0, "the folder is not empty");
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 1);
	scratch_make();
}

static void slow_root(uint64_t id, uint64_t ns)
{
	struct sp_record *record = &core.record[core.records++];

	record->kind = SP_RECORD_SLOW_ROOT;
	record->slow_root = (struct sp_slow_root){
		.span_id = id, .name_id = 1, .duration_ns = ns, .end_ns = 1700000000 * SP_NS_PER_S};
}

static unsigned first_slow_roots(unsigned call)
{
	if (call == 0) {
		slow_root(1, 5000);
		slow_root(2, 9000);
		slow_root(3, 100);
	}
	return call == 0 ? SP_WAIT_FLUSH : SP_WAIT_STOP;
}

/* The roots have no samples; they are in a separate file. */
Test(run, lists_the_slow_roots_of_an_interval_in_a_file, .timeout = 20)
{
	char name[64];
	glob_t g;
	json_t *all;

	core.config.slow = "auto";
	core.label[0] = "GET /";
	core.script = first_slow_roots;

	cr_assert_eq(core_run(), 0);

	(void)snprintf(name, sizeof(name), "spanprof-shop-%d-*-000001-slow.otlp.jsonl", getpid());
	g = written(name);
	cr_assert_eq(g.gl_pathc, 1);
	all = json_load_file(g.gl_pathv[0], 0, NULL);
	cr_assert_not_null(all);
	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 1);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_SENT], 1);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_FASTER], 2);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_UNSENT], 0);
	json_decref(all);
	globfree(&g);
}

static void timed_sample(uint64_t span_id, uint64_t time_ns)
{
	struct sp_sample *s = core_sample(span_id, 1, (void *)core_reset, NULL);

	s->time_ns = time_ns;
	s->tid = 42;
}

static unsigned samples_of_slow_roots(unsigned call)
{
	if (call == 0) {
		timed_sample(1, 700);
		timed_sample(2, 800);
		timed_sample(2, 900);
		timed_sample(0, 950);
		slow_root(1, 100);
		slow_root(2, 500);
		core.record[core.records - 1].slow_root.end_monotonic_ns = 1000;
	}
	return call == 0 ? SP_WAIT_FLUSH : SP_WAIT_STOP;
}

static int64_t number_label(const profile *p, const profile_sample *s, const char *key)
{
	for (size_t i = 0; i < s->n_label; i++)
		if (strcmp(profile_string(p, s->label[i]->key), key) == 0)
			return s->label[i]->num;
	return 0;
}

/* A sample of a root that was not slow has no time, nor has one that is in no span. */
Test(run, writes_the_times_of_samples_of_slow_roots, .timeout = 20)
{
	profile *p;
	glob_t g;

	core.config.slow = "auto";
	core.label[0] = "GET /";
	core.script = samples_of_slow_roots;

	cr_assert_eq(core_run(), 0);

	g = written("*-slow.pprof.gz");
	cr_assert_eq(g.gl_pathc, 1);
	p = read_profile(g.gl_pathv[0]);
	cr_assert_eq(p->n_sample, 2);
	for (size_t i = 0; i < 2; i++) {
		cr_expect_str_eq(profile_label(p, p->sample[i], "span_id"), "0200000000000000");
		cr_expect_str_eq(profile_frame(p, p->sample[i], 0), "core_reset");
		cr_expect_eq(number_label(p, p->sample[i], "end_timestamp_ns"),
			     1700000000 * (int64_t)SP_NS_PER_S - 200 + 100 * (int64_t)i);
		cr_expect_eq(number_label(p, p->sample[i], "thread_id"), 42);
		cr_expect_eq(p->sample[i]->value[0], 1);
		cr_expect_eq(p->sample[i]->value[1], 10000000);
	}
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_CUT], 0);
	profile_done(p);
	globfree(&g);
	/* The profile has all samples once. */
	p = read_only_profile();
	cr_expect_eq(profile_total(p, 0), 4);
	profile_done(p);
}

Test(run, counts_roots_whose_times_could_not_be_written, .timeout = 20)
{
	core.config.slow = "auto";
	core.config.output_dir = "/proc/none";
	core.script = samples_of_slow_roots;

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_UNSENT], 1);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_SENT], 0);
}

static unsigned two_intervals(unsigned call)
{
	if (call == 0)
		slow_root(1, 5000);
	if (call == 1)
		core.config.upload_interval_ms = 600000;
	return call < 40 ? 0 : SP_WAIT_STOP;
}

/* Slow roots are written after each upload interval; at the end there are no more. */
Test(run, lists_slow_roots_after_the_upload_interval, .timeout = 20)
{
	glob_t g;

	core.config.slow = "auto";
	core.config.upload_interval_ms = 1;
	core.script = two_intervals;

	cr_assert_eq(core_run(), 0);

	g = written("*-slow.otlp.jsonl");
	cr_expect_eq(g.gl_pathc, 1);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_SENT], 1);
	globfree(&g);
}

Test(run, counts_slow_roots_that_could_not_be_written, .timeout = 20)
{
	core.config.slow = "auto";
	core.config.output_dir = "/proc/none";
	core.script = first_slow_roots;

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.counter[SP_COUNT_FILE_FAILED], 1);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_SENT], 0);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_UNSENT], 1);
	cr_expect(core_logged("slow root span could not be written"), "%s", core.log);
}

Test(run, writes_no_slow_roots_for_who_has_become_somebody_else, .timeout = 20)
{
	core.config.slow = "auto";
	core.is_barred = true;
	core.script = first_slow_roots;

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 0);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_UNSENT], 1);
}

Test(run, lists_none_where_nobody_wants_slow_roots, .timeout = 20)
{
	core.script = first_slow_roots;

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 0);
}

Test(run, names_each_loss_once_with_its_growth, .timeout = 20)
{
	core.script = flush_then_stop;
	core.counter[SP_COUNT_DROP_RING_FULL] = 7;
	core.counter[SP_COUNT_SIGNALS] = 9;

	cr_assert_eq(core_run(), 0);

	cr_expect(
		core_logged("lost since the last push: 7 samples found no room in the ring buffer"),
		"%s", core.log);
	cr_expect_not(core_logged(" 9 "), "signals are no loss");
}

Test(run, fails_when_there_is_nowhere_to_send_to, .timeout = 20)
{
	core.config.output_dir = NULL;
	core.config.server_address = "ftp://example.org";

	cr_expect_lt(core_run(), 0);
	cr_expect(core_logged("only http://, https:// and unix:// are possible"));
}

static unsigned wait_until_written(unsigned call)
{
	(void)call;
	return core.counter[SP_COUNT_FILES_WRITTEN] != 0 ? SP_WAIT_STOP : 0;
}

Test(run, ticks_by_itself_after_the_upload_interval, .timeout = 20)
{
	profile *p;

	core.config.upload_interval_ms = 5;
	core.script = wait_until_written;
	core_sample(1, 0, (void *)core_reset, NULL);

	cr_assert_eq(core_run(), 0);

	p = read_only_profile();
	cr_expect_eq(profile_total(p, 0), 1);
	cr_expect_gt(p->duration_nanos, 0);
	cr_expect_lt(p->duration_nanos, 20000000000);
	cr_expect_eq(core.flushed, 0);
	profile_done(p);
}

#define BUSY_SAMPLES 96000U /* 64 threads for 15 s at 100 Hz */
static unsigned busy_at;

/* Each sample has a stack and a span of its own. */
static unsigned drain_busy(void *self, void (*put)(const struct sp_record *record, void *arg),
			   void *arg, unsigned max)
{
	struct sp_record r = {.kind = SP_RECORD_SAMPLE};
	unsigned n = 0;

	(void)self;
	r.sample.weight = 1;
	r.sample.depth = 2;
	r.sample.flags = SP_SAMPLE_ROOTED;
	for (; n < max && busy_at < BUSY_SAMPLES; n++, busy_at++) {
		r.sample.span_id = busy_at + 1;
		r.sample.pc[0] = 0x1000 + busy_at;
		r.sample.pc[1] = 0x900;
		put(&r, arg);
	}
	return n;
}

/* A profile is written before its interval is over, and the next profile begins after it. */
Test(run, a_busy_interval_keeps_its_stacks_and_labels, .timeout = 120)
{
	uint64_t samples = 0, labelled = 0;
	int64_t end_ns = 0;
	glob_t g;

	core.config.upload_interval_ms = 60000;
	core.script = flush_then_stop;
	core.ops.drain = drain_busy;

	cr_assert_eq(core_run(), 0);

	g = written("*.pb.gz");
	cr_expect_geq(g.gl_pathc, BUSY_SAMPLES / 16000);
	for (size_t i = 0; i < g.gl_pathc; i++) {
		profile *p = read_profile(g.gl_pathv[i]);

		/* The parts of a split profile have the same times; two clocks may differ a little. */
		cr_expect(p->time_nanos + 100000 >= end_ns ||
				  p->time_nanos + p->duration_nanos == end_ns,
			  "%s begins before the last one ended", g.gl_pathv[i]);
		end_ns = p->time_nanos + p->duration_nanos;
		samples += (uint64_t)profile_total(p, 0);
		for (size_t k = 0; k < p->n_sample; k++)
			labelled += profile_label(p, p->sample[k], "span_id") != NULL;
		profile_done(p);
	}
	globfree(&g);
	cr_expect_eq(samples, BUSY_SAMPLES);
	cr_expect_eq(labelled, BUSY_SAMPLES, "%u lost their labels",
		     BUSY_SAMPLES - (unsigned)labelled);
	cr_expect_eq(core.counter[SP_COUNT_STACKS_OTHER], 0);
	cr_expect_eq(core.counter[SP_COUNT_SPANS_OTHER], 0);
}

static unsigned set_clock_then_flush(unsigned call)
{
	clock_set_by_s = 7200;
	return flush_then_stop(call);
}

Test(run, a_clock_that_is_set_makes_no_profile_older, .timeout = 20)
{
	profile *p;

	core.script = set_clock_then_flush;
	core_sample(1, 0, (void *)core_reset, NULL);

	cr_assert_eq(core_run(), 0);

	p = read_only_profile();
	cr_expect_lt(sp_clock_real_ns() - p->time_nanos, INT64_C(20000000000));
	cr_expect_lt(p->duration_nanos, INT64_C(20000000000));
	profile_done(p);
}

/* A server that accepts connections and never sends a byte. */
static char silent_address[64];
static int silent;

static void listen_in_silence(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);

	silent = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	cr_assert_eq(bind(silent, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(silent, 8), 0);
	cr_assert_eq(getsockname(silent, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(silent_address, sizeof(silent_address), "http://127.0.0.1:%u",
		       ntohs(a.sin_port));
	core.config.output_dir = NULL;
	core.config.server_address = silent_address;
	core.config.upload_interval_ms = 1;
	/* Longer than the test's time limit: only the core ends a transfer. */
	core.config.push_timeout_ms = 60000;
}

/* Number of calls since the server has the whole request, including this one; 0 = not yet. */
static unsigned calls_in_upload(void)
{
	static unsigned n;
	static int with = -1;
	static char request[65536];
	const char *length, *body;
	ssize_t got;

	if (with < 0)
		with = accept(silent, NULL, NULL);
	got = with >= 0 ? recv(with, request, sizeof(request) - 1, MSG_PEEK | MSG_DONTWAIT) : -1;
	request[got > 0 ? got : 0] = '\0';
	length = strstr(request, "Content-Length: ");
	body = strstr(request, "\r\n\r\n");
	if (n != 0 || (length != NULL && body != NULL &&
		       request + got >= body + 4 + strtoul(length + 16, NULL, 10)))
		n++;
	return n;
}

static unsigned flush_during_upload(unsigned call)
{
	(void)call;
	if (core.flushed != 0)
		return SP_WAIT_STOP;
	return calls_in_upload() == 3 ? SP_WAIT_FLUSH : 0;
}

Test(run, a_flush_ends_an_upload_that_hangs_and_itself_in_time, .timeout = 20)
{
	listen_in_silence();
	core.script = flush_during_upload;
	core.flush_step = 300;
	core_sample(1, 0, (void *)core_reset, NULL);

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.flushed, 1);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 0);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNANSWERED], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 1);
	cr_expect(
		core_logged("1 profile lost: it was sent, but no answer came (the server may have "
			    "it), 1 sample\n"),
		"%s", core.log);
}

static unsigned stop_during_upload(unsigned call)
{
	(void)call;
	return calls_in_upload() == 3 ? SP_WAIT_STOP : 0;
}

Test(run, a_stop_ends_an_upload_that_hangs, .timeout = 20)
{
	listen_in_silence();
	core.script = stop_during_upload;
	core_sample(1, 0, (void *)core_reset, NULL);
	core.flush_left = 0;

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.flushed, 0);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 0);
	cr_expect_eq(core.counter[SP_COUNT_BATCH_UNANSWERED], 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 1);
}

static unsigned sample_during_upload(unsigned call)
{
	unsigned n = calls_in_upload();

	(void)call;
	if (n == 2)
		core_sample(2, 0, (void *)core_logged, NULL);
	return n > 2 && core.records == 0 ? SP_WAIT_STOP : 0;
}

Test(run, drains_the_ring_while_an_upload_waits, .timeout = 20)
{
	listen_in_silence();
	core.script = sample_during_upload;
	core_sample(1, 0, (void *)core_reset, NULL);
	core.flush_left = 0;

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.drained, 2);
	cr_expect_eq(core.counter[SP_COUNT_UPLOADS], 0, "the first transfer was to hang");
}

/* The process with which the exporter has to end; it was never sampled. */
static struct sp_core_ops leader;

static unsigned drain_nothing(void *self, void (*put)(const struct sp_record *record, void *arg),
			      void *arg, unsigned max)
{
	(void)self;
	(void)put;
	(void)arg;
	(void)max;
	return 0;
}

static unsigned end_with_another(void *self)
{
	(void)self;
	core.pending = core.drained != 0;
	return core.pending ? SP_WAIT_FLUSH | SP_WAIT_END : 0;
}

static const struct sp_core_ops *next_of_two(void *self)
{
	static unsigned n;

	(void)self;
	n++;
	return n == 1 ? &leader : n == 2 ? &core.ops : NULL;
}

static unsigned waits_in_upload;

static void wait_and_sample(void *self, uint32_t timeout_ms)
{
	core_family.wait(self, timeout_ms);
	waits_in_upload = calls_in_upload();
	if (waits_in_upload == 2)
		core_sample(2, 0, (void *)core_logged, NULL);
}

static uint32_t until_it_has_put(void *self)
{
	(void)self;
	return waits_in_upload < 5 ? 2000 : 0;
}

static unsigned nothing(unsigned call)
{
	return call == 0 ? 0 : SP_WAIT_RESTS;
}

/*
 * The sample is put while the last profiles are sent, and the transfer that hangs would not notice
 * it. The thread that puts it has not been charged for its time yet, so it seems idle.
 */
Test(run, what_others_put_while_it_ends_is_taken_once_more, .timeout = 20)
{
	listen_in_silence();
	core.config.upload_interval_ms = 60000;
	core.script = nothing;
	core_sample(1, 0, (void *)core_reset, NULL);
	leader = core.ops;
	leader.drain = drain_nothing;
	leader.news = end_with_another;
	leader.flush_left_ms = until_it_has_put;

	cr_assert_eq(run_family(wait_and_sample, next_of_two), 0);

	cr_expect_eq(done_with, 2);
	cr_expect_eq(core.drained, 2);
	cr_expect_eq(core.records, 0);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 2);
}

static unsigned stop_in_upload(unsigned call)
{
	(void)call;
	return calls_in_upload() >= 2 ? SP_WAIT_STOP : 0;
}

static bool has_ended;

static void ended(void *self, const struct sp_core_ops *ops)
{
	(void)self;
	cr_expect_eq(ops, &core.ops);
	has_ended = true;
}

static unsigned end_after_another(void *self)
{
	(void)self;
	core.pending = has_ended;
	return has_ended ? SP_WAIT_FLUSH | SP_WAIT_END : 0;
}

static uint32_t for_a_few_looks(void *self)
{
	static uint32_t looks = 10;

	(void)self;
	return looks != 0 ? looks-- : 0;
}

/* The profiles of a process that has ended before are still sent, but no more samples are taken from it. */
Test(run, one_that_has_ended_is_not_asked_when_the_last_one_ends, .timeout = 20)
{
	struct sp_export_family family = core_family;

	family.wait = wait_for_family;
	family.next = next_of_two;
	family.left = left;
	family.ended = ended;
	listen_in_silence();
	core.script = stop_in_upload;
	core_sample(1, 0, (void *)core_reset, NULL);
	leader = core.ops;
	leader.drain = drain_nothing;
	leader.news = end_after_another;
	leader.flush_left_ms = for_a_few_looks;

	cr_assert_eq(sp_export_run(&family), 0);

	cr_expect_eq(done_with, 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 1);
}

/* Samples every address of a function in the test program, once each. */
static void sample_many(void)
{
	for (unsigned i = 0; i < sizeof(core.record) / sizeof(core.record[0]); i++)
		core_sample(1, 0, (void *)((uintptr_t)core_reset + i), NULL);
}

static unsigned stop_when_flushed(unsigned call)
{
	if (core.flushed != 0)
		return SP_WAIT_STOP;
	return call == 0 ? SP_WAIT_FLUSH : 0;
}

Test(run, a_flush_looks_lines_up, .timeout = 20)
{
	profile *p;

	core.script = stop_when_flushed;
	sample_many();

	cr_assert_eq(core_run(), 0);

	p = read_only_profile();
	cr_expect_eq(core.counter[SP_COUNT_LINES_LATE], 0);
	cr_expect(p->mapping[0]->has_line_numbers);
	profile_done(p);
}

static unsigned stop_with_a_flush(unsigned call)
{
	return call < 3 ? 0 : SP_WAIT_FLUSH | SP_WAIT_STOP;
}

Test(run, what_hangs_in_the_worker_at_the_end_is_counted, .timeout = 20)
{
	hangs = true;
	core.script = stop_with_a_flush;
	core.flush_step = 100;
	core_sample(1, 0, (void *)core_logged, NULL);
	core_sample(2, 0, (void *)core_logged, NULL);

	cr_assert_eq(core_run(), 0);

	cr_expect_eq(core.drained, 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 2);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 0);
	cr_expect_eq(core.flushed, 1);
	cr_expect(core_logged("2 samples lost before a profile was made of them"), "%s", core.log);
}

static uint32_t threads(void)
{
	struct stat st;

	cr_assert_eq(stat("/proc/self/task", &st), 0);
	return (uint32_t)st.st_nlink;
}

/* The end of a process waits for its threads. */
Test(run, a_process_that_ends_with_it_does_not_wait_for_the_worker, .timeout = 20)
{
	uint32_t before = threads();

	core.script = stop_with_a_flush;
	core_sample(1, 0, (void *)core_logged, NULL);
	cr_assert_eq(core_run(), 0);
	cr_expect_eq(threads(), before);

	core_reset();
	core.config.output_dir = scratch;
	core.script = stop_with_a_flush;
	ends_process = true;
	core_sample(1, 0, (void *)core_logged, NULL);
	cr_assert_eq(core_run(), 0);
	cr_expect_eq(threads(), before + 1);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 1);
}

static unsigned stop_after_it_was_answered(void *self)
{
	(void)self;
	return core.flushed != 0 ? SP_WAIT_STOP : 0;
}

static unsigned flush_during_many_uploads(unsigned call)
{
	if (call % 4 == 1 && core.drained < 10)
		core_sample(call, 0, (void *)core_logged, NULL);
	if (core.flushed != 0)
		return SP_WAIT_STOP;
	return core.drained >= 10 && calls_in_upload() != 0 ? SP_WAIT_FLUSH : 0;
}

Test(run, whoever_is_outlived_is_drained_and_answered_at_once, .timeout = 20)
{
	listen_in_silence();
	core.script = flush_during_many_uploads;
	core.flush_step = 1;
	leader = core.ops;
	leader.drain = drain_nothing;
	leader.news = stop_after_it_was_answered;

	cr_assert_eq(run_family(wait_for_family, next_of_two), 0);

	cr_expect_eq(core.drained, 10);
	cr_expect_eq(core.flushed, 1);
	/*
	 * Each question for the rest of the 2,000 ms takes one of them, and a waiting caller asks
	 * until none is left.
	 */
	cr_expect_geq(core.flush_left, 1000, "it had to wait");
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_SENT], 0);
	cr_expect_eq(core.counter[SP_COUNT_SAMPLES_UNSENT], 10);
}

/*
 * The worker names one process when another one, which waits, asks for its last flush. Then the worker reads no more
 * debug information than fits into a share of the waiting process's time.
 */
static bool is_ordered;
static unsigned looks_of_worker;

static bool may_open_until_ordered(void *self)
{
	if (pthread_equal(pthread_self(), collector) || ++looks_of_worker < 2)
		return true;
	while (!is_ordered)
		core_family.wait(self, 0);
	return true;
}

static unsigned end_an_interval(unsigned call)
{
	if (call == 0)
		mono_ahead_ns += core.config.upload_interval_ms * SP_NS_PER_MS;
	return 0;
}

static unsigned end_while_another_is_named(void *self)
{
	(void)self;
	return looks_of_worker >= 2 ? SP_WAIT_FLUSH | SP_WAIT_END : 0;
}

static uint32_t left_when_ordered(void *self)
{
	(void)self;
	is_ordered = true;
	return 2000;
}

Test(run, a_flush_does_not_wait_for_the_lines_of_another_process, .timeout = 20)
{
	collector = pthread_self();
	look_takes_ns = 25 * SP_NS_PER_MS; /* more than a step of the worker's takes */
	core.config.upload_interval_ms = 600000;
	core.script = end_an_interval;
	core.ops.may_open = may_open_until_ordered;
	sample_many();
	leader = core.ops;
	leader.drain = drain_nothing;
	leader.news = end_while_another_is_named;
	leader.flush_left_ms = left_when_ordered;

	cr_assert_eq(run_family(wait_for_family, next_of_two), 0);

	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 1);
	cr_expect_gt(core.counter[SP_COUNT_LINES_LATE], 0);
	cr_expect_lt(core.counter[SP_COUNT_LINES_LATE], CORE_RECORDS - 2,
		     "there was time for some more");
}

static int niceness_of_worker;

static bool note_niceness(void *self)
{
	(void)self;
	if (!pthread_equal(pthread_self(), collector))
		niceness_of_worker = getpriority(PRIO_PROCESS, 0);
	return true;
}

static unsigned stop_after_an_interval(unsigned call)
{
	(void)end_an_interval(call);
	return core.counter[SP_COUNT_FILES_WRITTEN] != 0 ? SP_WAIT_STOP : 0;
}

Test(run, the_priority_is_low_unless_a_process_waits, .timeout = 20)
{
	const int own = getpriority(PRIO_PROCESS, 0);
	const int low = own + 5 < 19 ? own + 5 : 19;

	collector = pthread_self();
	core.ops.may_open = note_niceness;
	core.script = stop_with_a_flush;
	core_sample(1, 0, (void *)core_logged, NULL);
	cr_assert_eq(core_run(), 0);
	cr_expect_eq(core.counter[SP_COUNT_FILES_WRITTEN], 1);
	cr_expect_eq(niceness_of_worker, own);

	core_reset();
	core.config.output_dir = scratch;
	core.config.upload_interval_ms = 600000;
	core.ops.may_open = note_niceness;
	core.script = stop_after_an_interval;
	core_sample(1, 0, (void *)core_logged, NULL);
	cr_assert_eq(core_run(), 0);
	cr_expect_eq(niceness_of_worker, low);
}

Test(run, a_turn_that_is_kept_is_never_given_away, .timeout = 20)
{
	(void)sp_turn_set(true);
	sp_turn_keep();

	cr_expect(sp_turn_set(false));
	cr_expect(sp_turn_set(false), "it was given away");
}

static void tell_nobody(void *arg)
{
	(void)arg;
}

/* In a process with thousands of objects, the stacks of an interval are the smaller part of its memory. */
Test(run, modules_of_intervals_that_wait_for_the_worker_count, .timeout = 20)
{
	struct sp_modules *modules = sp_modules_new("/proc/self", -1);
	struct sp_origin origin = {.ops = &core.ops};
	const size_t most = (size_t)64 << 20;
	struct sp_worker *worker;
	size_t bytes = most;

	(void)sp_turn_set(true);
	cr_assert_eq(sp_worker_start(&core.ops, tell_nobody, NULL, &worker), 0);
	for (uint64_t i = 1; i <= 3000; i++) {
		struct sp_module_event event = {
			.bias = i << 16,
			.phdr = (i << 16) + 64,
			.loads = 1,
			.load = {{.memsz = 4096, .flags = PF_R | PF_X}},
		};

		(void)snprintf(event.path, sizeof(event.path), "/lib/%" PRIu64 ".so", i);
		sp_modules_take_event(modules, &event);
	}
	/* The worker waits for its turn. */
	for (unsigned puts = 1; puts <= 2 * most / bytes; puts++) {
		struct sp_interval_parts parts = {
			.ops = &core.ops, .map = {sp_stack_map_new(&sp_stack_limits_default)}};
		struct sp_interval *interval = sp_interval_new(&parts);
		struct sp_modules *copy = sp_modules_copy(modules);

		bytes = sp_interval_seal(interval) + sp_modules_bytes(copy);
		cr_assert_gt(bytes, 3000 * 64);
		sp_worker_put(worker, &origin, interval, copy);
		cr_expect_leq(origin.unnamed * bytes, most);
		cr_expect_eq(origin.unnamed, puts < most / bytes ? puts : most / bytes);
		cr_expect_eq(origin.losses.kind[0].sum.profiles, puts - origin.unnamed);
	}
	cr_expect_eq(origin.losses.kind[0].sum.cause, SP_LOSS_QUEUE_FULL);
	sp_worker_stop(worker);
	sp_modules_free(modules);
}
