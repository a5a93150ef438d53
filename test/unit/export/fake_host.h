/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that is none: a folder as /proc/PID, with a list of mappings that the test writes, and
 * real files behind them. Context: tests.
 */
#ifndef SP_TEST_FAKE_HOST_H
#define SP_TEST_FAKE_HOST_H

#include <stdint.h>

#define FAKE_PATH_MAX 160U
/* Where in the file of fake_host_object() its build id is. */
#define FAKE_BUILD_ID_AT 248

/* A new, empty process; the path of its folder. The one before is removed. */
const char *fake_host_start(void);
void fake_host_end(void);

/*
 * Makes the ELF object NAME in the folder, with one load of that many bytes, all of them in the
 * file, and the build id filled with build (0: none). Its path, valid until fake_host_end().
 */
const char *fake_host_object(const char *name, uint64_t bytes, uint8_t build);

/* The same with any bytes. */
const char *fake_host_file(const char *name, const void *bytes, uint64_t n);

/* The list of mappings begins anew. */
void fake_host_unmap_all(void);

/* One more line for a file: whole, executable, at that address. To be called in ascending order. */
void fake_host_map(const char *path, uint64_t start, uint64_t bytes);

/*
 * An object of two pages, its code at 0x10000 and its data at 0x30000, with another one of one page at
 * 0x20000, in the gap between them.
 */
void fake_host_map_around(const char *outer, const char *inner);

/* One more line as it is: printf's arguments. */
__attribute__((format(printf, 1, 2))) void fake_host_line(const char *format, ...);

#endif
