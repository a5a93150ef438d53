/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module events: what the handler tells the exporter of an object when it finds it for the first time: by
 * the time the exporter looks, the object may be gone, and another one be mapped at its addresses. The
 * record goes through the ring before the sample that found the object, so samples mean the object that was
 * told of last at their addresses before them. Nothing is hooked for it, and dlclose() costs nothing.
 *
 * Contexts: SIG (note), APP (init), INIT (forked).
 */
#ifndef SP_MODULE_EVENT_H
#define SP_MODULE_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/ehframe_sig.h"
#include "sampler/ring.h"

/*
 * APP; where records go from then on, also while handlers run: a ring where nothing has been told of. When
 * *again changes, every object is told of once more when it is found next; NULL = never.
 */
void sp_module_event_move(struct sp_ring *ring, const _Atomic uint32_t *again);

/* Forked child: it has told nobody yet, and is not asked to before the next move. */
void sp_module_event_forked(void);

/*
 * SIG. The object is mapped now: a frame of this walk is in it. link_map is the loader's; identity as
 * of object_identity_sig.h, 0 = none. False if the record found no room: it is tried again with the next
 * sample, and what this walk finds must not go where the object was not told of.
 */
SP_SIGSAFE bool sp_module_event_note(const void *link_map, const struct sp_object *object,
				     uint64_t identity);

/* For module_event*.c. A place of the table of objects that were told of. */
#define SP_MODULE_EVENT_SLOTS 512U
#define SP_MODULE_EVENT_WAYS 4U

struct sp_module_event_slot {
	_Atomic uintptr_t start; /* 0 = free */
	_Atomic uintptr_t end;
	_Atomic uint64_t stamp; /* of identity and generation; 0 = tell of it again */
};

struct sp_module_event_state {
	_Atomic(struct sp_ring *) ring; /* NULL until sp_module_event_move() */
	_Atomic(const _Atomic uint32_t *) again;
	_Atomic uint64_t moves; /* also by a fork */
	struct sp_module_event_slot slot[SP_MODULE_EVENT_SLOTS];
};

extern struct sp_module_event_state sp_module_event_state;

#endif
