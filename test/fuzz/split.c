/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes the halving of a profile: parts are no larger than the whole, and count what it counts. */
#include <stdint.h>
#include <stdlib.h>

#include "export/profile/pprof_split.h"
#include "test/fuzz/fuzz.h"

static void halve(const struct sp_bytes *whole, const struct sp_pprof_count *all)
{
	struct sp_pprof_count half[2];
	struct sp_bytes part;

	for (unsigned i = 0; i < 2; i++) {
		size_t middle = all->records / 2;

		if (sp_pprof_part(whole, i == 0 ? 0 : middle, i == 0 ? middle : all->records,
				  &part) != 0)
			return;
		FUZZ_CHECK(part.len <= whole->len);
		FUZZ_CHECK(sp_pprof_count(&part, &half[i]) == 0);
		free(part.data);
	}
	FUZZ_CHECK(half[0].records + half[1].records == all->records);
	FUZZ_CHECK(half[0].samples + half[1].samples == all->samples);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* A copy: it ends where the sanitizer sees it end. */
	struct sp_bytes whole = {malloc(size != 0 ? size : 1), size};
	struct sp_pprof_count all;

	FUZZ_CHECK(whole.data != NULL);
	for (size_t i = 0; i < size; i++)
		whole.data[i] = data[i];
	if (sp_pprof_count(&whole, &all) == 0)
		halve(&whole, &all);
	free(whole.data);
	return 0;
}
