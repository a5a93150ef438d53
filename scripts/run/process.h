/* SPDX-License-Identifier: Apache-2.0 */
/* A running process, as /proc shows it to whoever asks. Nothing that the process names is opened. */
#ifndef SP_PROCESS_H
#define SP_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct sp_process {
	int proc; /* its folder in /proc: stays that of this process when the number is used again */
	int maps;
	int exe;
	uid_t uid;          /* effective */
	bool secure;        /* started with more rights than its caller has: we are inert in it */
	char **environment; /* what it was started with, NULL-terminated */
	char *strings;      /* of which it is made */
	char path[PATH_MAX];
};

/* False with the reason in why: there is none, or it has to be looked at by somebody else or from elsewhere. */
bool sp_process_open(pid_t pid, struct sp_process *p, char why[256]);
void sp_process_close(struct sp_process *p);

#endif
