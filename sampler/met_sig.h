/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that one walk meets: each is asked for once, since neither its frames nor it can go
 * meanwhile. Context: SIG (find), APP (init). Called by unwind_sig.c and stride_sig.c.
 */
#ifndef SP_MET_SIG_H
#define SP_MET_SIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/ehframe_sig.h"

struct sp_met {
	uintptr_t start; /* [start, end): the addresses that belong to it */
	uintptr_t end;
	struct sp_object object;
	uint64_t identity; /* object_id_sig.h; 0 = none */
};

/* Stacks of more objects than that ask for one more than once. */
#define SP_MET_MAX 4U

struct sp_met_list {
	unsigned n;  /* met so far, and forgotten ones */
	bool untold; /* there was no room to tell of one of them (sighting.h) */
	struct sp_met met[SP_MET_MAX];
	const struct sp_met *last; /* of them, or NULL */
};

/* APP, at activation: finds _dl_find_object through lookup(name). 0, or -ENOSYS. Idempotent. */
int sp_met_init(void *(*lookup)(const char *name));

/* False if no object can be found at all. */
SP_SIGSAFE bool sp_met_possible(void);

/* The object that pc is in, or NULL. */
SP_SIGSAFE const struct sp_met *sp_met_find(struct sp_met_list *list, uintptr_t pc);

static inline SP_SIGSAFE void sp_met_begin(struct sp_met_list *list)
{
	list->n = 0;
	list->untold = false;
	list->last = NULL;
}

/* The same as sp_met_find; nearly always it is the last frame's object. */
static inline SP_SIGSAFE const struct sp_met *sp_met_at(struct sp_met_list *list, uintptr_t pc)
{
	const struct sp_met *met = list->last;

	if (met == NULL || pc < met->start || pc >= met->end)
		met = list->last = sp_met_find(list, pc);
	return met;
}

#endif
