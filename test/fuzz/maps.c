/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes /proc/PID/maps, whose paths any user may choose. A mapping that is found contains the address. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/objects/maps.h"
#include "test/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_maps maps = {0};
	char path[64];
	int fd = memfd_create("maps", MFD_CLOEXEC);

	FUZZ_CHECK(fd >= 0);
	FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* Twice, because the second reading reuses the memory of the first. */
	for (unsigned i = 0; i < 2; i++) {
		uint64_t end = 0;

		(void)sp_maps_read(&maps, path, -1);
		FUZZ_CHECK(maps.n <= maps.cap && maps.text_n <= maps.text_cap);
		for (size_t n = 0; n < maps.n; n++) {
			const struct sp_map *map = &maps.map[n];

			FUZZ_CHECK(end <= map->start && map->start < map->end);
			end = map->end;
			FUZZ_CHECK(map->path < maps.text_n);
			FUZZ_CHECK(strlen(sp_maps_path(&maps, map)) < maps.text_n - map->path);
			FUZZ_CHECK(sp_maps_find(&maps, map->start) == map);
			FUZZ_CHECK(sp_maps_find(&maps, map->end - 1) == map);
		}
	}
	sp_maps_fini(&maps);
	(void)close(fd);
	return 0;
}
