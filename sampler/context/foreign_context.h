/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry's thread context (OTEP 4947) and process context (OTEP 4719) as readers know them: a record of
 * each thread with the ids of its active span, found by the thread-local variable otel_thread_ctx_v1; and a
 * mapping named OTEL_CTX, one per process, that tells which resource the process is, and what the attributes of
 * the records mean. Its message is ProcessContext of opentelemetry-proto 1.11. Then, what another library of
 * the program publishes there: the ids of the span that the interrupted thread works for, without a hook.
 *
 * All of that is memory of others, which may change or go while it is read. The kernel is asked whether it can
 * be read, unless it lies in thread-local storage that every thread has from its begin to its end; and each
 * length is checked.
 */
#ifndef SP_FOREIGN_CONTEXT_H
#define SP_FOREIGN_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/* As the readers know it: no padding, in the byte order of the machine, aligned to 2 at least. */
struct sp_context_record {
	uint8_t trace_id[16]; /* W3C order */
	uint8_t span_id[8];
	_Atomic uint8_t valid; /* 1 = the ids are of the active span; all else: there is none */
	uint8_t flags;         /* W3C trace flags */
	uint16_t attributes;   /* bytes that follow */
	/* Of each attribute: its number in the process context, its length, its text. */
	uint8_t key;
	uint8_t len;
	char root_id[16]; /* the local root's span id, lower-case hex */
};
_Static_assert(sizeof(struct sp_context_record) == 46, "no padding");
_Static_assert(offsetof(struct sp_context_record, valid) == 24 &&
		       offsetof(struct sp_context_record, attributes) == 26 &&
		       offsetof(struct sp_context_record, key) == 28,
	       "as OTEP 4947 says");

#define SP_CONTEXT_SYMBOL "otel_thread_ctx_v1"

/*
 * Any context but the handler. The calling thread's variable, by which profilers find its record: NULL, or that. It
 * is ours unless an object before us in load order, which is the program, defines the symbol too.
 */
void *_Atomic *sp_context_slot(void);

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

/* For foreign_context.c: written before sp_foreign_context_on. */
extern struct sp_foreign_context_setup sp_foreign_context_setup;
extern _Atomic int sp_foreign_context_root_key;

/* Any context. Whether handlers read, and whether a sample got its label that way. */
extern _Atomic bool sp_foreign_context_on;
extern _Atomic bool sp_foreign_context_seen;

/*
 * The interrupted thread, whose own record is the given one. False if nothing valid is published
 * there by others. A few system calls at most.
 */
SP_SIGSAFE bool sp_foreign_context_read(const struct sp_context_record *own,
					struct sp_foreign_ids *out);

/* The name of the mapping, and what its header begins with, in the byte order of the machine. */
#define SP_PROCESS_CONTEXT_NAME "OTEL_CTX"
struct sp_process_context {
	char signature[8];
	uint32_t version;
	uint32_t payload_bytes;
	_Atomic uint64_t published_ns; /* CLOCK_BOOTTIME; 0 = not valid now */
	uint64_t payload;              /* its address in this process */
};
#define SP_PROCESS_CONTEXT_VERSION 2U

/* Ours, while this process publishes; NULL otherwise. Any context. */
extern struct sp_process_context *_Atomic sp_process_context_own;

/*
 * APP. Whether somebody else's mapping is there, and where; also one that was made without the C library, of
 * which no hook heard. Reads /proc/self/maps, some 1 us for each mapping, and at most 5,000 of them.
 */
bool sp_process_context_find_other(uintptr_t *at);

/* The name of the attribute that holds the local root's span id. */
#define SP_PROCESS_CONTEXT_ROOT_NAME "pyroscope.profile.id"

/*
 * Reads at most so much, some 5,000 mappings: the kernel needs about 1 us for each, and a thread of
 * the host waits for it.
 */
#define SP_PROCESS_MAPS_MAX 524288U

/* Where such a mapping begins, except one at that address. False if none was found. errno is not preserved. */
bool sp_process_maps_find(uintptr_t except, uintptr_t *at);

/* Whether a line is of such a mapping, and where that begins. */
bool sp_process_maps_line(const char *line, uintptr_t *at);

/* With the NUL; longer ones are left out. */
#define SP_PROCESS_CONTEXT_SERVICE_MAX 256U

/* What a process context says of the thread context, and of whom. */
struct sp_process_context_threads {
	bool published;
	char service[SP_PROCESS_CONTEXT_SERVICE_MAX]; /* service.name; "" = none, or no text */
	int root_key; /* which attribute holds the local root's span id; negative = none */
};

/* Of a message, whatever its bytes are. */
void sp_process_context_find_threads(const uint8_t *message, size_t bytes,
				     struct sp_process_context_threads *out);

/* APP. Whether that memory begins as a process context does. errno is not preserved. */
bool sp_process_context_is_at(uintptr_t at);

/* APP. Of the process context at that address, if there is one. */
void sp_process_context_read(uintptr_t at, struct sp_process_context_threads *out);

#endif
