/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording of a host's records in the rings, and of its threads' waits: chunks, each with a kind, its length in
 * bytes, and the record in the exporter's form (record.h), padded to whole words. Written by record.c in the
 * exporter's place, read by replay.c and by reference.py.
 */
#ifndef SP_TEST_RECORDING_H
#define SP_TEST_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "export/off_cpu/wait_leaf.h"
#include "sampler/region/record.h"
#include "sampler/region/thread_labels.h"

/* Besides enum sp_record_kind. */
enum {
	CHUNK_HOST = 32,     /* the host's process id, 32 bits */
	CHUNK_PROGRAM = 33,  /* the path of its program, with a NUL */
	CHUNK_MAPS = 34,     /* its mappings as /proc shows them */
	CHUNK_NAME = 35,     /* a span name: its id, 32 bits, and the text, with a NUL */
	CHUNK_INTERVAL = 36, /* empty: an upload interval ends here */
	CHUNK_WAIT = 37      /* the result of a look at a thread, as long as its stacks */
};

struct wait_chunk {
	struct sp_thread_label label;
	struct sp_thread_label owner;
	uint64_t ns;
	uint32_t tid;
	uint16_t depth;
	uint16_t flags;
	uint16_t owner_depth;
	bool has_owner;
	char leaf[SP_WAIT_LEAF];
	uint64_t pc[2 * SP_FRAMES_MAX]; /* its stack, and the owner's */
};

struct chunk {
	uint32_t kind;
	uint32_t bytes;
};

#define CHUNK_PADDED(bytes) (((uint64_t)(bytes) + 7U) & ~UINT64_C(7))

#endif
