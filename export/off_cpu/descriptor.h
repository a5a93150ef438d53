/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says what a descriptor of the host is: its link in /proc/PID/fd, and for a socket the other end. Texts may hold any
 * bytes that the host chose, such as the name of a file.
 */
#ifndef SP_DESCRIPTOR_H
#define SP_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/off_cpu/task.h"

#define SP_DESCRIPTOR_TEXT 128U

/* Where the descriptor's link points to, cut at the end of the buffer. False if the link cannot be read. */
bool sp_descriptor_link(const char *proc, uint64_t fd, char link[SP_DESCRIPTOR_TEXT]);

/* The sockets of one host. All zero at first, except ops. */
struct sp_sockets {
	const struct sp_core_ops *ops;
	struct sp_socket_end *kept; /* by inode; free() it at the end */
	uint64_t retry_ns;          /* the call was refused, no new attempt before this time */
	bool is_told;               /* the refusal has been logged */
};

/*
 * "tcp 10.0.0.5:5432", "unix /run/db.sock", "pipe", "/var/lib/file"; a socket without a name at either end is
 * "socket". place: the system call that has this descriptor as its first argument. False: a socket whose address the
 * exporter cannot find out.
 */
bool sp_descriptor_describe(struct sp_sockets *s, const struct sp_task_place *place,
			    const char *link, char text[SP_DESCRIPTOR_TEXT]);

#endif
