/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library with opentelemetry-cpp's function names and completely different objects, as a future version may be.
 * Records its calls. Linked by stranger.c.
 */
#include <stdio.h>

#include "test/otelcpp/stranger.h"

struct stranger_result stranger_start(void *tracer, size_t len, const char *name,
				      const void *attributes, const void *links,
				      const void *options)
{
	struct stranger_result result = {{&stranger_words, NULL, NULL, NULL}};

	printf("start %d %.*s %d %d %d\n", tracer == &stranger_words[1], (int)len, name,
	       attributes == &stranger_words[2], links == &stranger_words[3],
	       options == &stranger_words[4]);
	/* small numbers where a known build has pointers: nobody may follow them */
	return result;
}

void stranger_end(void *span, const void *options)
{
	printf("end %d %d\n", span == &stranger_words, options == &stranger_words[5]);
}

void stranger_destroy(void *span)
{
	printf("destroy %d\n", span == &stranger_words);
}

long stranger_words[6] = {1, 2, 3, 4, 5, 6};
