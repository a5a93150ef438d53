/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread waited for in the part of a local root's time that it is in now (sampler/span/span_times.h), told to
 * the thread itself, which adds it up by root. Time of parts that are over is told to nobody: their threads have
 * asked when they ended. Context: the exporter. Nothing here can fail; numbers of a host may be any.
 */
#ifndef SP_SPAN_WAITED_H
#define SP_SPAN_WAITED_H

#include <stdint.h>

#include "sampler/region/thread_labels.h"

/* The thread is in that part now; what is added from here on may be of it. */
void sp_span_waited_begin(struct sp_thread_waited *w, uint64_t part);

/* So much time under that label. */
void sp_span_waited_add(struct sp_thread_waited *w, const struct sp_thread_label *label,
			enum sp_waited what, uint64_t ns);

/* Tells the thread; last: what it was doing when it was last seen, SP_WAITED_N if it did not wait. */
void sp_span_waited_tell(struct sp_thread_waited *w, enum sp_waited last,
			 struct sp_thread_labels *labels);

#endif
