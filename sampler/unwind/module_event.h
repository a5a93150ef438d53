/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Module events announce loaded objects to the exporter. A sample holds addresses only. When the
 * exporter resolves them, the object may be unmapped (dlclose), and another one may be mapped at
 * its addresses. So the handler writes a record with the object's identity when a walk finds the
 * object for the first time, and this record goes through the ring before the sample. A sample's
 * addresses mean the object that was announced last before it at these addresses. dlopen and
 * dlclose are not hooked for this and cost nothing.
 *
 * Contexts: SIG (note), APP (move), a forked child while it has one thread (forked).
 */
#ifndef SP_MODULE_EVENT_H
#define SP_MODULE_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/region/ring.h"
#include "sampler/unwind/ehframe_sig.h"

/*
 * APP. Sets the ring that records go to from then on; handlers may run meanwhile. Nothing has been
 * announced in that ring yet, so each object is announced there when a walk finds it next. Whenever
 * *again changes, each object is announced once more in the same way; NULL = never.
 */
void sp_module_event_move(struct sp_ring *ring, const _Atomic uint32_t *again);

/*
 * Forked child. Its parent has announced objects, but it has not: everything counts as not announced.
 * The parent's *again no longer counts, until sp_module_event_move() names another one.
 */
void sp_module_event_forked(void);

/*
 * SIG. Announces the object unless that was done before. It is mapped now, because a frame of this
 * walk is in it. link_map is the loader's; identity as in object_identity_sig.h, 0 = none. False if
 * the record found no room in the ring. The next sample tries again, and the sample of this walk
 * must then not go into the ring.
 */
SP_SIGSAFE bool sp_module_event_note(const void *link_map, const struct sp_object *object,
				     uint64_t identity);

/* For module_event.c and module_event_sig.c: one entry of the table of announced objects. */
#define SP_MODULE_EVENT_SLOTS 512U
#define SP_MODULE_EVENT_WAYS 4U

struct sp_module_event_slot {
	_Atomic uintptr_t start; /* 0 = free */
	_Atomic uintptr_t end;
	_Atomic uint64_t stamp; /* of identity and generation; 0 = announce it again */
};

struct sp_module_event_state {
	_Atomic(struct sp_ring *) ring; /* NULL until sp_module_event_move() */
	_Atomic(const _Atomic uint32_t *) again;
	_Atomic uint64_t moves; /* incremented by sp_module_event_move() and by a fork */
	struct sp_module_event_slot slot[SP_MODULE_EVENT_SLOTS];
};

extern struct sp_module_event_state sp_module_event_state;

#endif
