/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a process has confined itself since it came. The exporter reads data that the process
 * writes, and has the freedom that the process had at its first span. So a mistake in one of our
 * parsers would be a way out of the confinement.
 *
 * Compared are the properties of the process's first thread that others can see: its seccomp
 * filters, the label that a security module gives it (AppArmor, SELinux), its mount namespace and
 * its user namespace. The exporter has the same filters from before the program, such as a
 * container's, so they do not count. Not compared are a new root alone (chroot(2)), which confines
 * no process that may call chroot() again; a network namespace, because HAProxy enters others for
 * single connections and comes back; and a Landlock domain, which is not visible from outside.
 */
#ifndef SP_CONFINEMENT_H
#define SP_CONFINEMENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SP_LABEL_MAX 256U /* of a longer label only this much is compared */

enum sp_confined {
	SP_CONFINED_NOT,
	SP_CONFINED_FILTER,
	SP_CONFINED_LABEL,
	SP_CONFINED_MOUNTS,
	SP_CONFINED_USERS,
	SP_CONFINED_N
};

struct sp_namespace {
	dev_t device;
	ino_t inode; /* 0 = not visible */
};

struct sp_confinement {
	struct sp_namespace mounts;
	struct sp_namespace users;
	char label[SP_LABEL_MAX]; /* "" = none, or not visible */
};

/*
 * proc: the process's folder in /proc; -1 = not visible. Opens at most one file there, and none if
 * `before` (NULL = nothing is known) has no label.
 */
void sp_confinement_read(int proc, const struct sp_confinement *before, struct sp_confinement *out);

/*
 * Finds an access that a process in the state `before` has and in the state `now` has not. A
 * property that is not visible counts as equal.
 */
enum sp_confined sp_confinement_compare(const struct sp_confinement *before,
					const struct sp_confinement *now);

/*
 * A number that grows with each seccomp filter, or by strict mode, read from the text of
 * /proc/PID/status. 0 = unknown. Linux shows the count of filters since 5.10, and before that only
 * whether there is one.
 */
uint64_t sp_confinement_filters(const char *status);

/*
 * sp_confinement_filters() of this exporter at the first call, which comes before it puts a filter
 * over itself (confine.h).
 */
uint64_t sp_confinement_own_filters(void);

/*
 * How the process has confined itself, as a sentence without a full stop. Not for SP_CONFINED_NOT.
 */
const char *sp_confinement_text(enum sp_confined how);

#endif
