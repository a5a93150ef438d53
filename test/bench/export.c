/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What encoding costs: CPU time and memory to turn 16,000 samples of depth 64 with 1,000 span ids
 * into compressed profiles, names known already, but not yet those of this interval. Prints "cpu_ms quiet_ms peak_kib
 * profiles plain_kib packed_kib", medians but for quiet_ms, which a tenth of the rounds beat. The
 * addresses are of code of this program and its libraries.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "export/objects/modules.h"
#include "export/profile/encode.h"
#include "export/profile/gzip.h"
#include "test/unit/export/core_double.h"

#define SAMPLES 16000U
#define DEPTH 64U
#define SPANS 1000U
#define NAMES 8U
/* A program spends its time in a few thousand places. */
#define PLACES 3000U
#define ROUNDS 15U

static uint64_t place[PLACES];
static uint64_t state = 88172645463325252U;
static size_t packed_bytes, plain_bytes;
static unsigned profiles;

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
 * A walk from the root: a function nearly always calls the same one, and one time in eight one of
 * three others. So nearly all 16,000 stacks differ, as do their frames towards the leaf.
 */
static void walk(struct sp_sample *s, unsigned places)
{
	uint64_t at = 0;

	for (unsigned k = DEPTH; k-- != 0;) {
		at = (at * 7 + 1 + (next(8) == 0 ? 1 + next(3) : 0)) % places;
		s->pc[k] = place[at];
	}
}

static void fill(struct sp_stack_map *map, unsigned places)
{
	static struct sp_sample s;

	s.weight = 1;
	s.depth = DEPTH;
	s.flags = SP_SAMPLE_ROOTED;
	for (unsigned i = 0; i < SAMPLES; i++) {
		s.span_id = 1 + next(SPANS);
		s.name_id = 1 + (uint32_t)(s.span_id % NAMES);
		memcpy(s.trace_id, &s.span_id, sizeof(s.span_id));
		walk(&s, places);
		(void)sp_stack_map_put(map, &s, 0, 0);
	}
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
		free(packed.data);
		free(encoded.bytes.data);
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

/* VmHWM begins anew. */
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

int main(void)
{
	struct sp_modules *modules = sp_modules_new("/proc/self", -1);
	struct sp_interval_parts parts = {
		.ops = &core.ops,
		.time_ns = 1700000000000000000,
		.duration_ns = 15000000000,
	};
	struct sp_interval *interval;
	double ms[ROUNDS + 1];
	unsigned places = 0;
	long before, peak = 0;

	core_reset();
	for (unsigned i = 0; i < NAMES; i++)
		core.label[i] = "OrderVehicle /car";
	dl_iterate_phdr(add_places, &places);
	if (modules == NULL || sp_modules_refresh(modules) != 0)
		return 2;
	parts.symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
	/* At first all is looked up. */
	for (unsigned i = 0; i <= ROUNDS; i++) {
		parts.map = sp_stack_map_new(&sp_stack_limits_default);
		if (parts.map == NULL)
			return 2;
		state = 88172645463325252U;
		fill(parts.map, places);
		packed_bytes = plain_bytes = 0;
		profiles = 0;
		before = memory("VmRSS:");
		forget_peak();
		ms[i] = cpu_ms();
		interval = sp_interval_new(&parts);
		if (interval == NULL)
			return 2;
		encode(interval);
		ms[i] = cpu_ms() - ms[i];
		if (i != 0 && memory("VmHWM:") - before > peak)
			peak = memory("VmHWM:") - before;
		sp_interval_release(interval);
	}
	memmove(ms, ms + 1, ROUNDS * sizeof(ms[0]));
	qsort(ms, ROUNDS, sizeof(ms[0]), by_value);
	printf("%.1f %.1f %ld %u %zu %zu\n", ms[ROUNDS / 2], ms[ROUNDS / 10], peak, profiles,
	       plain_bytes / 1024, packed_bytes / 1024);
	sp_symbolizer_free(parts.symbolizer);
	sp_modules_free(modules);
	return 0;
}
