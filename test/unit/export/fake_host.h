/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that does not exist: a folder in place of /proc/PID, with a list of mappings that the test writes, and
 * real files behind them. Context: tests.
 */
#ifndef SP_TEST_FAKE_HOST_H
#define SP_TEST_FAKE_HOST_H

#include <stdint.h>

#define FAKE_PATH_MAX 160U
/* Offset of the build id in the file of fake_host_object(). */
#define FAKE_BUILD_ID_AT 248

/* Makes a new, empty process and removes the one before. Returns the path of its folder. */
const char *fake_host_start(void);
void fake_host_end(void);

/*
 * Makes the ELF object NAME in the folder, with one load of that many bytes, all of them in the file. The build id is
 * filled with build (0: none). Returns its path, valid until fake_host_end().
 */
const char *fake_host_object(const char *name, uint64_t bytes, uint8_t build);

/* The same for a file with any bytes. */
const char *fake_host_file(const char *name, const void *bytes, uint64_t n);

/* Empties the list of mappings. */
void fake_host_unmap_all(void);

/* Adds a line for a file: whole, executable, at that address. Addresses must ascend. */
void fake_host_map(const char *path, uint64_t start, uint64_t bytes);

/*
 * Maps an object of two pages, its code at 0x10000 and its data at 0x30000, and another object of one page at
 * 0x20000, in the gap between them.
 */
void fake_host_map_around(const char *outer, const char *inner);

/* Adds a literal line: printf's arguments. */
__attribute__((format(printf, 1, 2))) void fake_host_line(const char *format, ...);

#endif
