/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes snapshots out of their ring. Context: the exporter. Nothing in the ring is trusted: each
 * record is copied first, and the copy is checked.
 */
#include "sampler/unwind/snapshot.h"

/* Checked on our copy: the stack is as long as the record says, and lies in one piece. */
static bool check_snapshot(struct sp_snapshot *s, uint32_t kind, uint64_t len)
{
	char *head = (char *)s->sample;

	if (kind != SP_RECORD_SNAPSHOT || len < offsetof(struct sp_snapshot, stack) ||
	    s->stack_bytes > SP_SNAPSHOT_STACK_MAX ||
	    len != offsetof(struct sp_snapshot, stack) + s->stack_bytes ||
	    s->stack_bytes > UINT64_MAX - s->stack_at)
		return false;
	head[offsetof(struct sp_sample, thread_name) + SP_THREAD_NAME_BYTES - 1] = '\0';
	return true;
}

unsigned sp_snapshot_drain(struct sp_ring *r, void (*put)(const struct sp_snapshot *s, void *arg),
			   void *arg, unsigned max)
{
	static struct sp_snapshot s; /* one consumer; 16 KiB would be much for its stack */
	unsigned n = 0;
	uint32_t kind;
	uint64_t len;

	for (unsigned taken = 0; taken < max && (len = sp_ring_take(r, &kind, &s, sizeof(s))) != 0;
	     taken++) {
		if (!check_snapshot(&s, kind, len)) {
			r->damaged++;
			continue;
		}
		n++;
		put(&s, arg);
	}
	return n;
}
