/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running process that somebody else may have made to be looked at: its environment, and its
 * rights and its root, which we take over before anything that it names is opened or sent.
 */
#ifndef SP_PROCESS_H
#define SP_PROCESS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SP_PROCESS_GROUPS_MAX 1024U

struct sp_process_rights {
	uid_t uid; /* effective, which is what files are opened with */
	gid_t gid;
	gid_t group[SP_PROCESS_GROUPS_MAX]; /* supplementary, in the kernel's order */
	unsigned groups;
	uint64_t capabilities; /* effective */
};

struct sp_process {
	int proc; /* its folder in /proc: stays that of this process when the number is used again */
	int root;
	int maps;
	int exe;
	unsigned inner_pid;  /* its number in its own namespace */
	bool secure;         /* started with more rights than its caller has: we are inert in it */
	bool other_network;  /* it reaches another network than we do */
	bool cut;            /* the environment is larger than what is read of one */
	char **environment;  /* what it was started with, NULL-terminated */
	char *strings;       /* of which it is made */
	char path[PATH_MAX]; /* its program, as it sees it; after sp_process_enter() */
	struct sp_process_rights rights;
};

/* 0 or a negative errno: -ESRCH there is none, -EACCES it is not ours to look at. */
int sp_process_open(pid_t pid, struct sp_process *p);
void sp_process_close(struct sp_process *p);

/*
 * Makes this program one that may do no more than that process: its user, groups and root, and its
 * network if we may go there; no capabilities, terminal or core dump of ours. There is no way back.
 * False with the reason in *why; then nothing that the process names may be touched, and neither may
 * it when the process is secure: its environment is that of somebody with fewer rights.
 */
bool sp_process_enter(struct sp_process *p, const char **why);

#endif
