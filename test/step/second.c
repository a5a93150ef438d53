/* SPDX-License-Identifier: Apache-2.0 */
#include "test/step/second.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "export/objects/unwind_snapshot.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/unwind_sig.h"
#include "test/common/own_memory.h"

#define RING_BYTES (UINT64_C(1) << 25)
#define KEPT_MAX 1500U
#define REPORTED_MAX 4U

struct kept {
	struct stepper_truth truth;
	bool required;
};

static struct sp_ring ring;
static struct sp_host_objects *host;
static struct sp_unwinder *unwinder;
static struct sp_stack_bounds bounds;
static struct kept kept[KEPT_MAX];
static unsigned kept_n;
static unsigned judged_n;
static struct second_result result;

int second_init(void)
{
	host = sp_host_objects_new("/proc/self", -1);
	if (host != NULL)
		unwinder = sp_unwinder_new(host);
	return unwinder != NULL && ring_init(&ring, RING_BYTES) == 0 ? 0 : -1;
}

void second_take(const void *ucontext, const struct stepper_truth *truth, bool required)
{
	static struct sp_sample sample = {.weight = 1};

	if (kept_n == KEPT_MAX || sp_snapshot_put(&ring, &sample, ucontext, &bounds) != 0)
		return;
	kept[kept_n].truth = *truth;
	kept[kept_n++].required = required;
}

static bool still_there(const struct stepper_truth *truth)
{
	struct dl_find_object found;

	for (unsigned i = 0; i < truth->depth; i++) {
		if (_dl_find_object((void *)truth->pc[i], &found) != 0)
			return false;
	}
	return true;
}

static bool is_exact(const struct sp_sample *s, const struct stepper_truth *truth)
{
	unsigned cut = s->flags & SP_SAMPLE_TRUNCATED;

	for (unsigned i = 0; i < s->depth && i < truth->depth; i++) {
		if (s->pc[i] != truth->pc[i] - (i > 0))
			return false;
	}
	return cut != 0 ? s->depth < truth->depth
			: s->depth == truth->depth && (s->flags & SP_SAMPLE_ROOTED) != 0;
}

static void report(const struct sp_sample *s, const struct stepper_truth *truth)
{
	printf("  snapshot wrong: depth %u of %u, flags %#x\n", s->depth, truth->depth, s->flags);
	for (unsigned i = 0; i < s->depth || i < truth->depth; i++)
		printf("    %#" PRIx64 " want %#" PRIx64 "\n", i < s->depth ? s->pc[i] : 0,
		       i < truth->depth ? truth->pc[i] - (i > 0) : 0);
}

static void judge(const struct sp_snapshot *snap, void *arg)
{
	const struct kept *k = &kept[judged_n++];
	struct sp_sample s;

	(void)arg;
	(void)sp_unwinder_walk(unwinder, snap, SP_FRAMES_MAX, &s);
	result.taken++;
	if (is_exact(&s, &k->truth))
		result.exact++;
	else if (!still_there(&k->truth))
		result.gone++;
	else if (k->required && result.worse++ < REPORTED_MAX)
		report(&s, &k->truth);
}

struct second_result second_judge(void)
{
	memset(&result, 0, sizeof(result));
	judged_n = 0;
	(void)sp_host_objects_refresh(host);
	(void)sp_snapshot_drain(&ring, judge, NULL, KEPT_MAX);
	kept_n = 0;
	return result;
}
