/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a descriptor of the host is: its link in /proc/PID/fd, and of a socket the other end. Texts may hold any
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

/* Where the descriptor's link points to, cut at the end of the buffer. False if it cannot be read. */
bool sp_descriptor_link(const char *proc, uint64_t fd, char link[SP_DESCRIPTOR_TEXT]);

/* What is known of one host's sockets. Zero at first, but for ops. */
struct sp_sockets {
	const struct sp_core_ops *ops;
	struct sp_socket_end *kept; /* by inode; free() it at the end */
	uint64_t retry_ns;          /* it was refused, and is not tried before */
	bool is_told;               /* that it was */
};

/*
 * "tcp 10.0.0.5:5432", "unix /run/db.sock", "pipe", "/var/lib/file"; a socket without a name at either end is
 * "socket". place: the system call that has this descriptor as its first argument. False: a socket that cannot be
 * asked.
 */
bool sp_descriptor_describe(struct sp_sockets *s, const struct sp_task_place *place,
			    const char *link, char text[SP_DESCRIPTOR_TEXT]);

#endif
