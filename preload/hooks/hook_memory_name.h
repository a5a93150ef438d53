/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program gives memory a name, by prctl(PR_SET_VMA): as the last step of publishing a process context,
 * for which profilers wait (OTEP 4719), or for somebody who reads /proc/PID/maps. APP context, and inside of the
 * program's malloc: nothing is allocated.
 */
#ifndef SP_HOOK_MEMORY_NAME_H
#define SP_HOOK_MEMORY_NAME_H

/* prctl() and syscall() of SP_MEMORY_NAME_OPTION: they go on to the host's functions, and then look. */
int sp_memory_name_prctl(int option, unsigned long what, unsigned long at, unsigned long bytes,
			 unsigned long name);
long sp_memory_name_syscall(long number, long option, long what, long at, long bytes, long name,
			    long unused);

#endif
