/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes /proc/self/maps, whose paths are anybody's. What is found covers the address. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/maps.h"
#include "test/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_maps maps = {NULL, 0, 0};
	char path[64];
	int fd = memfd_create("maps", MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Twice, as the second reading takes over the memory of the first. */
	for (unsigned i = 0; i < 2; i++) {
		(void)sp_maps_read(&maps, path);
		FUZZ_CHECK(maps.n <= maps.cap);
		for (size_t n = 0; n < maps.n; n++) {
			const struct sp_map *at = sp_maps_find(&maps, maps.map[n].start);

			FUZZ_CHECK(strnlen(maps.map[n].name, sizeof(maps.map[n].name)) <
				   sizeof(maps.map[n].name));
			FUZZ_CHECK(strchr(maps.map[n].name, '/') == NULL ||
				   maps.map[n].name[0] == '\0' || maps.map[n].name[0] != '/');
			FUZZ_CHECK(at == NULL ||
				   (at->start <= maps.map[n].start && maps.map[n].start < at->end));
		}
	}
	sp_maps_fini(&maps);
	(void)close(fd);
	return 0;
}
