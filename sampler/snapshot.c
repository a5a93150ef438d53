/* SPDX-License-Identifier: Apache-2.0 */
/* Taking snapshots out of their ring. Context: BG. */
#include "sampler/snapshot.h"

unsigned sp_snapshot_drain(struct sp_ring *r, void (*put)(const struct sp_snapshot *s, void *arg),
			   void *arg, unsigned max)
{
	static struct sp_snapshot s; /* one consumer; 16 KiB would be much for its stack */
	unsigned n = 0;

	while (n < max && sp_ring_take(r, &s, sizeof(s)) != 0) {
		n++;
		put(&s, arg);
	}
	return n;
}
