/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The option of prctl(2) that gives memory a name in /proc/PID/maps (Linux 5.17, headers may be older):
 * SP_MEMORY_NAME_OPTION, SP_MEMORY_NAME_ANON, address, bytes, name.
 */
#ifndef SP_MEMORY_NAME_H
#define SP_MEMORY_NAME_H

#include <sys/prctl.h>

#define SP_MEMORY_NAME_OPTION 0x53564d41
#define SP_MEMORY_NAME_ANON 0

#ifdef PR_SET_VMA
_Static_assert(SP_MEMORY_NAME_OPTION == PR_SET_VMA && SP_MEMORY_NAME_ANON == PR_SET_VMA_ANON_NAME,
	       "as linux/prctl.h has it");
#endif

#endif
