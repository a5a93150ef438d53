/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes the memory that the exporter shares with a host: the input has header and rings. Accepted offsets are inside
 * the memory, records are passed on complete, and draining ends.
 *
 * Input: the parts of the header (0 = as a host would write them, otherwise 48 bytes follow), then words with their
 * offset, in 2 and 8 bytes.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/exporter/member.h"
#include "export/exporter/view.h"
#include "region_version.h"
#include "sampler/base/text.h"
#include "sampler/region/ring.h"
#include "test/fuzz/fuzz.h"

/* counters.c needs the counters of all threads. */
static _Atomic uint64_t counters[SP_COUNTER_N];
_Atomic(_Atomic uint64_t *) sp_counters = counters;

#define RINGS_AT ((sizeof(struct sp_region) + 4095) / 4096 * 4096)
#define RING SP_RING_BYTES(SP_RING_SIZE_MIN)
#define RINGS 3U
#define BYTES (RINGS_AT + RINGS * RING)

static struct {
	struct sp_region *region;
	int fd;
	uint64_t handed_out;
} shared;

static void make(void)
{
	shared.fd = memfd_create("region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	FUZZ_CHECK(shared.fd >= 0 && ftruncate(shared.fd, BYTES) == 0);
	FUZZ_CHECK(fcntl(shared.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	shared.region = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, shared.fd, 0);
	FUZZ_CHECK(shared.region != MAP_FAILED);
}

static void fill(const uint8_t *data, size_t size)
{
	struct sp_region *r = shared.region;

	memset(r, 0, BYTES);
	r->magic = SP_REGION_MAGIC;
	r->version = SP_REGION_VERSION;
	r->pid = 1;
	r->bytes = BYTES;
	for (unsigned i = 0; i < RINGS; i++)
		r->part[i] = (struct sp_region_part){RINGS_AT + i * RING, RING};
	if (size != 0 && data[0] != 0 && size > sizeof(r->part)) {
		memcpy(r->part, data + 1, sizeof(r->part));
		data += sizeof(r->part);
		size -= sizeof(r->part);
	}
	for (size_t at = 1; at + 10 <= size; at += 10) {
		uint16_t place;

		memcpy(&place, data + at, sizeof(place));
		memcpy((char *)r + RINGS_AT + (uint64_t)place * 8 % (BYTES - RINGS_AT),
		       data + at + 2, 8);
	}
}

static void check_values(const struct sp_span_values *v)
{
	uint32_t bytes = 0;

	for (unsigned i = 0; i < SP_SPAN_VALUES_MAX; i++) {
		FUZZ_CHECK(v->value[i].type < SP_SPAN_VALUE_TYPES);
		bytes += SP_SPAN_VALUE_PADDED(v->value[i].bytes);
	}
	FUZZ_CHECK(bytes <= sizeof(v->bytes));
}

static void put(const struct sp_record *record, void *arg)
{
	const struct sp_sample *s = &record->sample;

	(void)arg;
	FUZZ_CHECK((record->kind >= SP_RECORD_SAMPLE && record->kind <= SP_RECORD_SLOW_ROOT) ||
		   record->kind == SP_RECORD_ROOT_END);
	if (record->kind == SP_RECORD_SPAN_VALUES)
		check_values(&record->span_values);
	if (record->kind == SP_RECORD_SAMPLE)
		FUZZ_CHECK(s->depth <= SP_FRAMES_MAX &&
			   s->thread_name[SP_THREAD_NAME_BYTES - 1] == '\0');
	if (record->kind == SP_RECORD_CPU_TIME)
		FUZZ_CHECK(record->cpu_time.thread_name[SP_THREAD_NAME_BYTES - 1] == '\0');
	shared.handed_out++;
}

static void put_snapshot(const struct sp_snapshot *s, void *arg)
{
	(void)arg;
	FUZZ_CHECK(s->stack_bytes <= sizeof(s->stack));
	FUZZ_CHECK(s->stack_at + s->stack_bytes >= s->stack_at);
	shared.handed_out++;
}

static void drain(struct sp_view *v, struct sp_name_texts *names)
{
	for (unsigned n = 0; n == 0 || sp_ring_pass(&v->ring); n++) {
		FUZZ_CHECK(n <= v->ring.size / 8);
		while (sp_ring_drain(&v->ring, put, NULL, 16) != 0)
			;
	}
	for (unsigned n = 0; n == 0 || sp_ring_pass(&v->snapshots); n++) {
		FUZZ_CHECK(n <= v->ring.size);
		while (sp_snapshot_drain(&v->snapshots, put_snapshot, NULL, 16) != 0)
			;
	}
	for (unsigned n = 0; n == 0 || sp_ring_pass(&v->names); n++) {
		FUZZ_CHECK(n <= v->names.size);
		sp_name_texts_drain(names, &v->names);
	}
	FUZZ_CHECK(v->ring.taken - atomic_load(&v->ring.ends->head) + 8 <= 8);
}

static void ask_names(const struct sp_name_texts *names)
{
	size_t len;

	for (uint32_t id = 0; id < 1100; id++) {
		const char *text = sp_name_texts_get(names, id, &len);

		FUZZ_CHECK(len <= SP_NAME_MAX && (text == NULL || sp_text_valid(text, len)));
	}
	(void)sp_name_texts_get(names, UINT32_MAX, &len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_name_texts *names;
	struct sp_view v;

	if (shared.region == NULL)
		make();
	fill(data, size);
	if (sp_view_open(&v, dup(shared.fd)) == 0) {
		for (unsigned i = 0; i < SP_REGION_PARTS; i++)
			FUZZ_CHECK(v.part[i].bytes == 0 ||
				   v.part[i].at + v.part[i].bytes <= v.bytes);
		names = sp_name_texts_new();
		FUZZ_CHECK(names != NULL);
		drain(&v, names);
		ask_names(names);
		sp_name_texts_free(names);
	}
	sp_view_close(&v);
	return 0;
}
