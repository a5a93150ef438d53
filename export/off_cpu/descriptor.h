/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a descriptor of the host is: its link in /proc/PID/fd, and the other end of a socket by the tables in
 * /proc/PID/net. Nothing of the host's is opened but these files of the kernel, so the descriptor stays the
 * host's alone. Texts may hold any bytes that the host chose, such as the name of a file.
 */
#ifndef SP_DESCRIPTOR_H
#define SP_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_DESCRIPTOR_TEXT 128U

/* Where the descriptor's link points to, cut at the end of the buffer. False if it cannot be read. */
bool sp_descriptor_link(const char *proc, uint64_t fd, char link[SP_DESCRIPTOR_TEXT]);

/*
 * "tcp 10.0.0.5:5432", "unix /run/db.sock", "pipe", "/var/lib/file"; a socket whose other end is unknown is
 * "socket". Reads up to 1 MiB of each table of sockets.
 */
void sp_descriptor_describe(const char *proc, const char *link, char text[SP_DESCRIPTOR_TEXT]);

/*
 * A row of /proc/net/tcp, tcp6, udp or udp6, if it is of the socket with that inode: its other end, or its own
 * address if it has none (a listener).
 */
bool sp_descriptor_inet_row(const char *row, bool is_v6, uint64_t inode, char *text, size_t cap);

/* A row of /proc/net/unix: the path. False if the row is of another socket or has no path. */
bool sp_descriptor_unix_row(const char *row, uint64_t inode, char *text, size_t cap);

#endif
