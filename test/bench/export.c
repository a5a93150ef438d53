/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exporter's own work, without a host: stacks consist of addresses of this program and its libraries.
 *
 * export: the cost of encoding: CPU time and memory to turn 16,000 samples of depth 64 with 1,000 span ids into
 * compressed profiles. Names are known already, but not yet in this interval. Prints "cpu_ms quiet_ms peak_kib
 * profiles plain_kib packed_kib": medians, and for quiet_ms the value that only a tenth of the rounds stay below.
 *
 * export profiles FOLDER MIB: writes such profiles until they have this size together. The same stacks are in each,
 * as in a program that does the same all day; span ids differ.
 *
 * export stacks PER_SECOND SECONDS FOLDER: the whole loop of the exporter, with PER_SECOND new stacks in its ring
 * each second. Prints its CPU time in ms, without that of generating the stacks.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "export/objects/modules.h"
#include "export/profile/encode.h"
#include "export/profile/gzip.h"
#include "export/util/turn.h"
#include "test/unit/export/core_double.h"

#define SAMPLES 16000U
#define DEPTH 64U
#define SPANS 1000U
#define NAMES 8U
/* A program spends its time in a few thousand code addresses. */
#define PLACES 3000U
#define ROUNDS 15U

static uint64_t place[PLACES];
static uint64_t state = 88172645463325252U;
static size_t packed_bytes, plain_bytes;
static unsigned profiles;
static const char *folder; /* where profiles go; NULL = nowhere */
static uint64_t first_span = 1;
static unsigned places;

static uint64_t next(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static int add_places(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned *n = arg;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || (ph->p_flags & PF_X) == 0)
			continue;
		for (unsigned k = 0; k < 200 && *n < PLACES; k++)
			place[(*n)++] = info->dlpi_addr + ph->p_vaddr + next(ph->p_memsz);
	}
	return 0;
}

/*
 * A walk from the root: a function nearly always calls the same callee, and one time in eight one of three others. So
 * nearly all 16,000 stacks differ, as do their frames towards the leaf.
 */
static void walk(struct sp_sample *s)
{
	uint64_t at = 0;

	for (unsigned k = DEPTH; k-- != 0;) {
		at = (at * 7 + 1 + (next(8) == 0 ? 1 + next(3) : 0)) % places;
		s->pc[k] = place[at];
	}
}

static void fill(struct sp_stack_map *map)
{
	static struct sp_sample s;

	s.weight = 1;
	s.depth = DEPTH;
	s.flags = SP_SAMPLE_ROOTED;
	for (unsigned i = 0; i < SAMPLES; i++) {
		s.span_id = first_span + next(SPANS);
		s.name_id = 1 + (uint32_t)(s.span_id % NAMES);
		memcpy(s.trace_id, &s.span_id, sizeof(s.span_id));
		walk(&s);
		(void)sp_stack_map_put(map, &s, 0, 0);
	}
}

static void keep(const struct sp_bytes *packed)
{
	char path[PATH_MAX];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/spanprof-bench-%u.pb.gz", folder, profiles);
	f = fopen(path, "we");
	if (f == NULL || fwrite(packed->data, 1, packed->len, f) != packed->len || fclose(f) != 0)
		exit(2);
}

static void encode(const struct sp_interval *interval)
{
	const struct sp_pprof_limits limits = {SP_ENCODE_SAMPLES, SP_ENCODE_BYTES};
	struct sp_encode_range range = sp_encode_all(interval, SP_PROFILE_CPU);
	struct sp_encoded encoded;
	struct sp_bytes packed;

	while (range.from < range.end && sp_encode(&range, &limits, &encoded) == 0) {
		if (sp_gzip_pack(&encoded.bytes, &packed) != 0)
			exit(2);
		packed_bytes += packed.len;
		plain_bytes += encoded.bytes.len;
		profiles++;
		if (folder != NULL)
			keep(&packed);
		free(packed.data);
		sp_encoded_fini(&encoded);
		range.from = encoded.end;
	}
}

static double cpu_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* VmRSS or VmHWM in KiB. */
static long memory(const char *which)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = 0;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, which, strlen(which)) == 0)
			kib = atol(line + strlen(which));
	if (f != NULL)
		fclose(f);
	return kib;
}

/* VmHWM starts again from the present size. */
static void forget_peak(void)
{
	FILE *f = fopen("/proc/self/clear_refs", "we");

	if (f == NULL || fputs("5", f) < 0 || fclose(f) != 0)
		exit(2);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a;
	double y = *(const double *)b;

	return (x > y) - (x < y);
}

static long before_interval;
static double began_ms;

static struct sp_interval *interval_of(struct sp_modules *modules)
{
	static struct sp_symbolizer *symbolizer;
	struct sp_interval *interval;
	static struct sp_interval_parts parts = {
		.ops = &core.ops,
		.time_ns = 1700000000000000000,
		.duration_ns = 15000000000,
	};

	if (symbolizer == NULL)
		symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
	parts.map[SP_MAP_SAMPLES] = sp_stack_map_new(&sp_stack_limits_default);
	if (parts.map[SP_MAP_SAMPLES] == NULL || symbolizer == NULL)
		exit(2);
	state = 88172645463325252U;
	fill(parts.map[SP_MAP_SAMPLES]);
	parts.time_ns += parts.duration_ns;
	before_interval = memory("VmRSS:");
	forget_peak();
	began_ms = cpu_ms();
	interval = sp_interval_new(&parts);
	return interval != NULL && sp_interval_name(interval, symbolizer) ? interval : NULL;
}

static int write_profiles(struct sp_modules *modules, size_t mib)
{
	while (packed_bytes < mib << 20) {
		struct sp_interval *interval = interval_of(modules);

		if (interval == NULL)
			return 2;
		encode(interval);
		sp_interval_free(interval);
		first_span += SPANS;
	}
	return 0;
}

/* The loop of the exporter. */

static uint64_t begun_ns, end_ns, made, per_second;
static double making_ms;
static bool is_served;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static unsigned drain(void *self, void (*put)(const struct sp_record *record, void *arg), void *arg,
		      unsigned max)
{
	static struct sp_record r = {.kind = SP_RECORD_SAMPLE};
	uint64_t due = (now_ns() - begun_ns) / 1000 * per_second / 1000000;
	unsigned n = 0;

	(void)self;
	for (; made < due && n < max; made++, n++) {
		double from = cpu_ms();

		r.sample.weight = 1;
		r.sample.depth = DEPTH;
		r.sample.flags = SP_SAMPLE_ROOTED;
		r.sample.span_id = 1 + next(SPANS);
		r.sample.name_id = 1 + (uint32_t)(r.sample.span_id % NAMES);
		walk(&r.sample);
		/* These frames make each stack unique, even if the walk returns the same stack. */
		for (unsigned i = 0; i < 4; i++)
			r.sample.pc[i] = place[(made >> 8 * i & 255) % places];
		making_ms += cpu_ms() - from;
		put(&r, arg);
	}
	return n;
}

static unsigned script(unsigned call)
{
	(void)call;
	return now_ns() < end_ns ? 0 : SP_WAIT_STOP;
}

static void wait_for_family(void *self, uint32_t timeout_ms)
{
	struct timespec t = {0, (timeout_ms < 100 ? timeout_ms : 100) * 1000000L};
	bool had = sp_turn_set(false);

	(void)self;
	nanosleep(&t, NULL);
	(void)sp_turn_set(had);
}

static void wake(void *self)
{
	(void)self;
}

static const struct sp_core_ops *next_process(void *self)
{
	const struct sp_core_ops *ops = is_served ? NULL : &core.ops;

	(void)self;
	is_served = true;
	return ops;
}

static void ended(void *self, const struct sp_core_ops *ops)
{
	(void)self;
	(void)ops;
}

static void left(void *self, const struct sp_core_ops *ops, int error)
{
	(void)self;
	(void)ops;
	if (error != 0)
		exit(2);
}

static bool is_open(void *self)
{
	(void)self;
	return false;
}

static int run_loop(unsigned seconds)
{
	const struct sp_export_family family = {.wait = wait_for_family,
						.wake = wake,
						.next = next_process,
						.ended = ended,
						.left = left,
						.open = is_open};
	struct timespec t;

	core.config.output_dir = folder;
	core.config.symbolize = SP_SYMBOLIZE_FULL;
	core.config.stack_depth = DEPTH;
	core.ops.drain = drain;
	core.script = script;
	begun_ns = now_ns();
	end_ns = begun_ns + seconds * UINT64_C(1000000000);
	core.due_ns = end_ns;
	if (sp_export_run(&family) != 0)
		return 2;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	printf("%.0f\n", (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6 - making_ms);
	return 0;
}

static int measure(struct sp_modules *modules)
{
	double ms[ROUNDS + 1];
	long peak = 0;

	/* The first round looks everything up. */
	for (unsigned i = 0; i <= ROUNDS; i++) {
		struct sp_interval *interval;

		packed_bytes = plain_bytes = 0;
		profiles = 0;
		interval = interval_of(modules);
		if (interval == NULL)
			return 2;
		encode(interval);
		ms[i] = cpu_ms() - began_ms;
		if (i != 0 && memory("VmHWM:") - before_interval > peak)
			peak = memory("VmHWM:") - before_interval;
		sp_interval_free(interval);
	}
	memmove(ms, ms + 1, ROUNDS * sizeof(ms[0]));
	qsort(ms, ROUNDS, sizeof(ms[0]), by_value);
	printf("%.1f %.1f %ld %u %zu %zu\n", ms[ROUNDS / 2], ms[ROUNDS / 10], peak, profiles,
	       plain_bytes / 1024, packed_bytes / 1024);
	return 0;
}

int main(int argc, char **argv)
{
	struct sp_modules *modules = sp_modules_new("/proc/self", -1);

	core_reset();
	for (unsigned i = 0; i < NAMES; i++)
		core.label[i] = "OrderVehicle /car";
	dl_iterate_phdr(add_places, &places);
	if (modules == NULL || sp_modules_refresh(modules) != 0)
		return 2;
	if (argc == 1)
		return measure(modules);
	folder = argv[argc == 4 ? 2 : argc - 1];
	if (argc == 4 && strcmp(argv[1], "profiles") == 0)
		return write_profiles(modules, (size_t)atoi(argv[3]));
	if (argc != 5 || strcmp(argv[1], "stacks") != 0)
		return 2;
	per_second = (uint64_t)atoi(argv[2]);
	return run_loop((unsigned)atoi(argv[3]));
}
