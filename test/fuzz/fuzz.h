/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of the fuzzers of this folder. */
#ifndef SP_TEST_FUZZ_H
#define SP_TEST_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A condition that must hold for every input. */
#define FUZZ_CHECK(x)                                                                              \
	do {                                                                                       \
		if (!(x))                                                                          \
			__builtin_trap();                                                          \
	} while (0)

/* The next text of the input, up to a NUL or its end, in memory of exactly its size; free it. */
static inline char *fuzz_text(const uint8_t **data, size_t *size)
{
	size_t len = strnlen((const char *)*data, *size);
	char *text = malloc(len + 1);

	FUZZ_CHECK(text != NULL);
	memcpy(text, *data, len);
	text[len] = '\0';
	*data += len < *size ? len + 1 : len;
	*size -= len < *size ? len + 1 : len;
	return text;
}

static inline void fuzz_no_controls(const char *s)
{
	for (; s != NULL && *s != '\0'; s++)
		FUZZ_CHECK((unsigned char)*s >= ' ' && *s != '\x7f');
}

#endif
