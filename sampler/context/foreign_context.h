/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread context (thread_context.h) as another library of the program publishes it: the ids of
 * the span that the interrupted thread works for, without a hook.
 *
 * The record is memory of others, found by a pointer of others. The kernel is asked whether it can
 * be read, unless it lies in thread-local storage that every thread has from its begin to its end.
 */
#ifndef SP_FOREIGN_CONTEXT_H
#define SP_FOREIGN_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

struct sp_context_record;

/* Variables that a thread may be found to have: the one that we are bound to, and others. */
#define SP_FOREIGN_VARIABLES 4U

/* Addresses are relative to the thread pointer. */
struct sp_foreign_context_setup {
	unsigned variables;
	intptr_t variable[SP_FOREIGN_VARIABLES];
	/* Storage that was there when the program began, and so is there in every thread. */
	intptr_t tls_begin;
	intptr_t tls_end;
};

struct sp_foreign_ids {
	uint64_t span_id; /* the bytes of the id as they lie in memory, never 0 */
	uint64_t root_id; /* the local root's; 0 = not told */
	uint8_t trace_id[16];
};

/*
 * APP, at activation, before the first timer is armed: from now on handlers read. Our own variable
 * is added to setup.
 */
void sp_foreign_context_start(const struct sp_foreign_context_setup *setup);

/* APP. Which attribute of the records holds the local root's id; a negative number = none. */
void sp_foreign_context_set_root_key(int key);

/*
 * APP, one thread at a time, about once a second: looks for what other publishers say of that, once
 * there are records to read, and a few times only.
 */
void sp_foreign_context_look(void);

/* Any context. Whether handlers read, and whether a sample got its label that way. */
extern _Atomic bool sp_foreign_context_on;
extern _Atomic bool sp_foreign_context_seen;

/*
 * The interrupted thread, whose own record is the given one. False if nothing valid is published
 * there by others. At most two system calls.
 */
SP_SIGSAFE bool sp_foreign_context_read(const struct sp_context_record *own,
					struct sp_foreign_ids *out);

#endif
