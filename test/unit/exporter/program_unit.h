/* SPDX-License-Identifier: Apache-2.0 */
/* The program in a process of its own, which writes profiles and status files into a folder. One per test. */
#ifndef SP_PROGRAM_UNIT_H
#define SP_PROGRAM_UNIT_H

#include <sys/resource.h>
#include <sys/types.h>

#include "host_double.h"
#include "sampler/config/config.h"

struct program_unit {
	char dir[64];
	char status_file[96];
	struct sp_config config;
	rlim_t descriptors; /* that it may have; 0 = as many as we */
	pid_t pid;
};

extern struct program_unit program;

/* The folder, the configuration, and a host. The status file is of that name there. */
void program_set_up(const char *status_name);
void program_tear_down(void);

/* The configuration, for sp_family_serve(). */
const struct sp_config *program_configure(void);

/* Starts it for the host, with the socket of its family or -1. */
void program_start(int listener);
/* Waits for its end: its exit status, or -1. */
int program_status(void);

/* Profiles in the folder, by a pattern of their names. */
unsigned program_profiles(const char *pattern);
/* What a file of the folder says, "" if there is none. */
const char *program_file(const char *path);

/* As the host that is about to end. */
void program_flush(struct host_double *of);

#endif
