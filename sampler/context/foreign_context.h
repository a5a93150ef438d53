/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenTelemetry's thread context (OTEP 4947) and process context (OTEP 4719), as their readers
 * define them. A thread has a record with the ids of its active span, which readers find by the
 * thread-local variable otel_thread_ctx_v1. A process has one mapping named OTEL_CTX, which has the
 * resource of the process and the meaning of the records' attributes. Its message is ProcessContext
 * of opentelemetry-proto 1.11. By these, and without a hook, we read the span that another library
 * of the program publishes for the interrupted thread.
 *
 * All this memory belongs to another publisher, and may change or be unmapped while we read it. So
 * we check each length, and ask the kernel whether the memory can be read. We need not ask about
 * thread-local storage that a thread has as long as it lives.
 */
#ifndef SP_FOREIGN_CONTEXT_H
#define SP_FOREIGN_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * The layout that readers know: no padding, in the byte order of the machine, aligned to at least
 * 2.
 */
struct sp_context_record {
	uint8_t trace_id[16]; /* W3C order */
	uint8_t span_id[8];
	_Atomic uint8_t valid; /* 1 = the ids are of the active span; else none is active */
	uint8_t flags;         /* W3C trace flags */
	uint16_t attributes;   /* bytes of attributes that follow */
	/* Each attribute: its number in the process context, its length, its text. */
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
 * Any context but the handler. The calling thread's variable, by which profilers find its record;
 * its value is NULL or the record's address. The variable is ours unless the program, which comes
 * before us in load order, also defines the symbol.
 */
void *_Atomic *sp_context_slot(void);

/*
 * The variables that may have a thread's record: the definition to which the loader binds our
 * references, and other definitions.
 */
#define SP_FOREIGN_VARIABLES 4U

/* Addresses are relative to the thread pointer. */
struct sp_foreign_context_setup {
	unsigned variables;
	intptr_t variable[SP_FOREIGN_VARIABLES];
	/*
	 * The storage of objects that were loaded at the program's start, which every thread has.
	 */
	intptr_t tls_begin;
	intptr_t tls_end;
};

struct sp_foreign_ids {
	uint64_t span_id; /* the 8 bytes of the id in memory order, never 0 */
	uint64_t root_id; /* the local root's; 0 = unknown */
	uint8_t trace_id[16];
};

/*
 * APP, at activation, before the first timer starts: from now on handlers read the variables of
 * setup, and our own.
 */
void sp_foreign_context_start(const struct sp_foreign_context_setup *setup);

/* APP. The number of the attribute with the local root's id; negative = none. */
void sp_foreign_context_set_root_key(int key);

/*
 * APP, one thread at a time, about once a second: after the first sample with another publisher's
 * label, searches for the publisher's process context to learn that number. At most a few times.
 */
void sp_foreign_context_search(void);

/* For foreign_context.c: written before sp_foreign_context_on is set. */
extern struct sp_foreign_context_setup sp_foreign_context_setup;
extern _Atomic int sp_foreign_context_root_key;

/* Any context. Whether handlers read these records, and whether a sample got its label from one. */
extern _Atomic bool sp_foreign_context_on;
extern _Atomic bool sp_foreign_context_seen;

/*
 * Reads the record that another publisher has for the interrupted thread; own is our record of that
 * thread. False if there is no valid one. At most a few system calls.
 */
SP_SIGSAFE bool sp_foreign_context_read(const struct sp_context_record *own,
					struct sp_foreign_ids *out);

/* The name of the mapping, and its header, in the byte order of the machine. */
#define SP_PROCESS_CONTEXT_NAME "OTEL_CTX"
struct sp_process_context {
	char signature[8];
	uint32_t version;
	uint32_t payload_bytes;
	_Atomic uint64_t published_ns; /* CLOCK_BOOTTIME; 0 = not valid at the moment */
	uint64_t payload;              /* its address in this process */
};
#define SP_PROCESS_CONTEXT_VERSION 2U

/* Our process context while this process publishes; NULL = it does not. Any context. */
extern struct sp_process_context *_Atomic sp_process_context_own;

/*
 * APP. Whether another publisher's mapping exists, and its address. It finds a mapping that was
 * made by raw system calls, too, which no hook saw. Reads /proc/self/maps, about 1 us for each
 * mapping, and at most 5,000 mappings.
 */
bool sp_process_context_find_other(uintptr_t *at);

/* The name of the attribute that holds the local root's span id. */
#define SP_PROCESS_CONTEXT_ROOT_NAME "pyroscope.profile.id"

/*
 * At most this many bytes of the memory map are read, some 5,000 mappings: the kernel needs about 1
 * us for each, and a thread of the host waits meanwhile.
 */
#define SP_PROCESS_MAPS_MAX 524288U

/*
 * The address of such a mapping other than `except`. False if there is none. errno is not
 * preserved.
 */
bool sp_process_maps_find(uintptr_t except, uintptr_t *at);

/* Whether a line of the memory map describes such a mapping, and the mapping's address. */
bool sp_process_maps_line(const char *line, uintptr_t *at);

/* Including the NUL; a longer name is left out. */
#define SP_PROCESS_CONTEXT_SERVICE_MAX 256U

/* The part of a process context about its threads' records and its service. */
struct sp_process_context_threads {
	bool published;
	char service[SP_PROCESS_CONTEXT_SERVICE_MAX]; /* service.name; "" = none, or no text */
	int root_key; /* number of the attribute with the local root's span id; negative = none */
};

/* Reads this part of a message, which may have any bytes. */
void sp_process_context_find_threads(const uint8_t *message, size_t bytes,
				     struct sp_process_context_threads *out);

/*
 * APP. Whether the memory at that address begins with a header of a process context. errno is not
 * preserved.
 */
bool sp_process_context_is_at(uintptr_t at);

/* APP. Reads this part of the process context at that address; *out is empty if there is none. */
void sp_process_context_read(uintptr_t at, struct sp_process_context_threads *out);

#endif
