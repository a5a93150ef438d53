/* SPDX-License-Identifier: Apache-2.0 */
/* A host of the library in stranger_sdk.c. */
#include <stdio.h>

#include "test/otelcpp/stranger.h"

int main(void)
{
	for (int i = 0; i < 3; i++) {
		void *result[4] = {NULL, NULL, NULL, NULL};

		stranger_start(result, &stranger_words[1], 4, "name and more", &stranger_words[2],
			       &stranger_words[3], &stranger_words[4]);
		printf("returned %d %d\n", result[0] == &stranger_words, result[1] == NULL);
		stranger_end(result[0], &stranger_words[5]);
		stranger_destroy(result[0]);
	}
	return 0;
}
