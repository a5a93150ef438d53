/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What spanprof-doctor has to know and needs no library for, on stdout: lines "key value", and
 * sentences (line.h) about "object" and "exporter".
 */
#ifndef SP_FACTS_H
#define SP_FACTS_H

#include <sys/types.h>

/*
 * Program, rights, environment, which of our objects are in it, and what is wrong with them, seen as
 * the process sees them. 0, SP_CHECK_FAILED (told) or a negative errno.
 */
int sp_facts_of_process(pid_t pid);

/* What is wrong with the object that spanprof-run would preload. 0. */
int sp_facts_of_object(void);

#endif
