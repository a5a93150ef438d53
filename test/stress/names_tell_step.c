/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports a name one instruction at a time. After each instruction another thread has a sample with the same name. If
 * that thread finds the name reported, the exporter must be able to take it from the ring by then. Otherwise the
 * thread reports the name itself, and only the unfinished record may be before its own.
 */
#include <stdlib.h>

#include "sampler/region/names.h"
#include "sampler/region/ring.h"
#include "test/common/own_memory.h"
#include "test/stress/race_step.h"

#define RING_BYTES 16384U

static struct sp_channel channel;
static uint32_t id;
static bool is_told;    /* the result of the operation */
static bool was_told;   /* the other thread's result: it found the name reported */
static bool was_taken;  /* and the record was in the ring */
static unsigned copies; /* records that were taken in all */

static unsigned take(void)
{
	static struct sp_name_record r;
	unsigned n = 0;
	uint32_t kind;

	while (sp_ring_take(&channel.names, &kind, &r, sizeof(r)) != 0)
		n += kind == SP_RECORD_NAME && r.head.id == id && r.head.len == 5 &&
		     memcmp(r.text, "GET /", 5) == 0;
	return n;
}

/* An exporter that has taken nothing, and a new region. */
static void begin_channel(void)
{
	(void)take();
	channel.number++;
	is_told = was_told = was_taken = false;
	copies = 0;
}

static void tell(void)
{
	is_told = sp_names_announce(&channel, id);
}

static void tell_too(void)
{
	uint64_t before = atomic_load(&channel.names.ends->head);
	bool told = sp_names_announce(&channel, id);
	unsigned n;

	was_told = told && atomic_load(&channel.names.ends->head) == before;
	n = take();
	was_taken = n != 0;
	copies += n;
}

static bool is_known(void)
{
	copies += take();
	return is_told && (!was_told || was_taken) && (copies == 1 || (copies == 2 && !was_told));
}

int main(void)
{
	const struct race race = {.what = "a name is told",
				  .prepare = begin_channel,
				  .operation = tell,
				  .meanwhile = tell_too,
				  .is_right = is_known,
				  .fewest = 40};

	if (!TRAP_STEP_POSSIBLE) {
		puts("single-stepping by the trap flag needs x86-64 without sanitizer");
		return TRAP_STEP_SKIPPED;
	}
	if (sp_names_init(10) != 0 || ring_init(&channel.names, RING_BYTES) != 0 ||
	    race_init() != 0)
		return 1;
	id = sp_names_intern("GET /", 5);
	return race_run(&race) != 0;
}
