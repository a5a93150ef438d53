/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights that the exporter gives up before it reads anything that a host, a file or a server
 * wrote.
 */
#ifndef SP_CONFINE_H
#define SP_CONFINE_H

#include <stdbool.h>

/*
 * From now on, for good, the kernel refuses (EPERM) to the calling process and its threads all
 * calls by which a process executes a program, enters or changes namespaces and mounts, traces or
 * writes into another process, loads code into the kernel, or uses an interface of the kernel that
 * no exporter needs. False if the kernel has no filters. To be called before the first thread is
 * made, and after no_new_privs is set.
 */
bool sp_confine(void);

#endif
