/* SPDX-License-Identifier: Apache-2.0 */
/* A host of the library in stranger_sdk.c. */
#include <stdio.h>

#include "test/otelcpp/stranger.h"

int main(void)
{
	for (int i = 0; i < 3; i++) {
		struct stranger_result result =
			stranger_start(&stranger_words[1], 4, "name and more", &stranger_words[2],
				       &stranger_words[3], &stranger_words[4]);

		printf("returned %d %d\n", result.word[0] == &stranger_words,
		       result.word[1] == NULL);
		stranger_end(result.word[0], &stranger_words[5]);
		stranger_destroy(result.word[0]);
	}
	return 0;
}
