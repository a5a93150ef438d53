/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A just-in-time compiler writes the addresses and names of its code into /tmp/perf-PID.map
 * (tools/perf/Documentation/jit-interface.txt in linux). CPython with -X perf, node with
 * --perf-basic-prof, LuaJIT, .NET and Java's agents write one.
 *
 * The file is searched in the root folder of the process, with the process's number in its own pid namespace. Anybody
 * may create a file in /tmp, so only a regular file that belongs to the user of the process is read, and no link is
 * followed on the way. Context: the exporter.
 */
#ifndef SP_PERF_MAP_H
#define SP_PERF_MAP_H

#include <stddef.h>
#include <stdint.h>

/* proc is "/proc/PID" of a living process. Returns a descriptor, or a negative errno. */
int sp_perf_map_open(const char *proc);

/*
 * Called for each line: code in [start, end) has this name, which is not terminated and may hold any bytes but a
 * newline.
 */
typedef void sp_perf_map_take(void *arg, uint64_t start, uint64_t end, const char *name,
			      size_t len);

/*
 * Reads the file, or its newest 64 MiB, and calls take for each line of the right form. A compiler
 * uses addresses again for new code, so of two lines for an address the later one is right.
 */
void sp_perf_map_read(int fd, sp_perf_map_take *take, void *arg);

#endif
