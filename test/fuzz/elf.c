/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes ELF and DWARF files: symbols, packed symbols, call frame information, lines. libelf and libdw are not
 * instrumented, but their reads of our memory are.
 */
#include <stdint.h>
#include <stdio.h>

#include "export/objects/object_file.h"
#include "export/symbols/builds.h"
#include "export/symbols/demangle.h"
#include "test/fuzz/fuzz.h"

#define STEP 7U

static const uint8_t *image;
static size_t image_size;

/* The vDSO is the one file that is used unchecked. */
const uint8_t *sp_vdso_image(size_t *size)
{
	*size = image_size;
	return image;
}

static void ask(struct sp_builds *builds, uint64_t from, uint64_t to)
{
	static const struct sp_module mod = {
		.vdso = true, .hi = UINT64_MAX, .path = "", .shown = ""};
	static struct sp_answer answer;

	for (uint64_t at = from; at < to; at += STEP) {
		sp_builds_ask(builds, &mod, at, true, &answer);
		FUZZ_CHECK(answer.start <= at);
		FUZZ_CHECK(answer.lines <= SP_LINES_DEPTH && answer.used <= sizeof(answer.text));
		FUZZ_CHECK(answer.symbol == NULL || strlen(answer.symbol) <= SP_MANGLED_MAX + 4);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sp_build_sources all = {
		.debug_root = "/nonexistent", .symbols = true, .dwarf = true};
	static const struct sp_build_sources names = {.debug_root = "/nonexistent"};
	const struct sp_build_sources *const sources[] = {&all, &names};

	image = data;
	image_size = size;
	for (unsigned i = 0; i < 2; i++) {
		struct sp_builds *builds = sp_builds_new(sources[i]);

		FUZZ_CHECK(builds != NULL);
		ask(builds, 0x1000, 0x1200);
		ask(builds, UINT64_MAX - 100, UINT64_MAX - STEP);
		sp_builds_free(builds);
	}
	return 0;
}
