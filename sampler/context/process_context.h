/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process context of OpenTelemetry (OTEP 4719): a mapping named OTEL_CTX that tells profilers
 * outside of the process which resource it is, and how to read its threads' records
 * (thread_context.h). One per process, so ours is not made where another one is found. It is not
 * inherited by forked children. Context: APP, one thread at a time; errno is not preserved.
 */
#ifndef SP_PROCESS_CONTEXT_H
#define SP_PROCESS_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_config;

/* The name of a mapping, and what its header begins with. */
#define SP_PROCESS_CONTEXT_NAME "OTEL_CTX"

/*
 * The layout of the records. The merged OTEP says that this word is to become tls_v1; every reader
 * and writer found in November 2026 knows this one only.
 */
#define SP_PROCESS_CONTEXT_SCHEMA "tlsdesc_v1_dev"

/* The number and the name of the attribute that holds the local root's span id. */
#define SP_PROCESS_CONTEXT_ROOT_KEY 0U
#define SP_PROCESS_CONTEXT_ROOT_NAME "pyroscope.profile.id"

/* The begin of the mapping, in the byte order of the machine. */
struct sp_process_context {
	char signature[8];
	uint32_t version;
	uint32_t payload_bytes;
	_Atomic uint64_t published_ns; /* CLOCK_BOOTTIME; 0 = not valid now */
	uint64_t payload;              /* its address in this process */
};
#define SP_PROCESS_CONTEXT_VERSION 2U

/* Any context. The program gave memory that name: ours is not made any more. */
void sp_process_context_made_by_program(void);

/* Makes the mapping. 0; -EEXIST if the program is known to have its own; or what the kernel said. */
int sp_process_context_publish(const struct sp_config *config);

/*
 * Whether somebody else's mapping is there, and where; also one that was made without the C library, of
 * which no hook heard. Reads /proc/self/maps, some 1 us for each mapping, and at most 5,000 of them.
 */
bool sp_process_context_find_other(uintptr_t *at);

/* Removes ours, if there is one. Any thread. */
void sp_process_context_withdraw(void);

/* Forked child: it has none. */
void sp_process_context_forked(void);

/*
 * Reads at most so much, some 5,000 mappings: the kernel needs about 1 us for each, and a thread of
 * the host waits for it.
 */
#define SP_PROCESS_MAPS_MAX 524288U

/*
 * *at is where such a mapping begins, except one at that address; 0 = there is none. 0, -E2BIG if
 * there are too many mappings to tell, or why they cannot be read. errno is not preserved.
 */
int sp_process_maps_find(uintptr_t except, uintptr_t *at);

/* Whether a line, without its newline, is of such a mapping, and where that begins. */
bool sp_process_maps_line(const char *line, size_t len, uintptr_t *at);

/*
 * Which attribute of the records holds the local root's span id, as the process context says that
 * is there, which may be somebody else's; a negative number if none does. Reads /proc/self/maps.
 */
int sp_process_context_root_key(void);

/* With the NUL; longer ones are left out. */
#define SP_PROCESS_CONTEXT_SERVICE_MAX 256U

/* What a process context says of the thread context, and of whom. */
struct sp_process_context_threads {
	bool published;
	char service[SP_PROCESS_CONTEXT_SERVICE_MAX]; /* service.name; "" = none, or no text */
	int root_key; /* as sp_process_context_root_key() returns it */
};

/* Of a message, whatever its bytes are. */
void sp_process_context_find_threads(const uint8_t *message, size_t bytes,
				     struct sp_process_context_threads *out);

/* APP. Whether that memory begins as a process context does. errno is not preserved. */
bool sp_process_context_is_at(uintptr_t at);

/* APP. Of the process context at that address, if there is one. */
void sp_process_context_read(uintptr_t at, struct sp_process_context_threads *out);

/*
 * The message ProcessContext for that configuration, at most cap bytes: what does not fit is left
 * out. instance: a UUID, for a resource that has no service.instance.id. Returns its length.
 */
size_t sp_process_context_encode(const struct sp_config *config, const char *instance, uint8_t *out,
				 size_t cap);

#endif
