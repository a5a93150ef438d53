/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A recording of what a host put into its rings: chunks, each with a kind, its length in bytes, and the record as the
 * exporter gets it (record.h), padded to whole words. Written by record.c in the exporter's place, read by replay.c
 * and by reference.py.
 */
#ifndef SP_TEST_RECORDING_H
#define SP_TEST_RECORDING_H

#include <stdint.h>

/* Beside enum sp_record_kind. */
enum {
	CHUNK_HOST = 32,    /* the host's number, 32 bits */
	CHUNK_PROGRAM = 33, /* the path of its program, with a NUL */
	CHUNK_MAPS = 34,    /* its mappings as /proc shows them */
	CHUNK_NAME = 35,    /* a span name: its id, 32 bits, and the text, with a NUL */
	CHUNK_INTERVAL = 36 /* nothing: an upload interval ends here */
};

struct chunk {
	uint32_t kind;
	uint32_t bytes;
};

#define CHUNK_PADDED(bytes) (((uint64_t)(bytes) + 7U) & ~UINT64_C(7))

#endif
