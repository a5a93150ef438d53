/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on the host's stderr, "spanprof[PID]: text\n". The stderr is not ours: a wait for its
 * reader would stop the exporter, a descriptor of it that we kept would keep a pipe's reader waiting
 * for its end, and another program may have got the number 2 for a file of its own.
 *
 * A pipe, a terminal, or a file that the host has opened for appending is opened for each line,
 * without blocking, if it is still the same as at the beginning. A file that the host writes to at an
 * offset of its own is left to the host: the offset does not move when we append, and the host's next
 * line would overwrite ours. What cannot be opened (a socket, as journald's; a stderr that another user
 * opened), is full, or is another file than at the beginning is left to the host, too: its next hook writes it,
 * at the latest that of its end, if descriptor 2 is a log then (sampler/base/log.c).
 *
 * A host that is killed runs no hook, and its descriptors have gone with it. A terminal and a file that
 * was opened for appending are then opened by their name. Into pipes and sockets nothing can be written
 * any more.
 */
#ifndef SP_MESSAGES_H
#define SP_MESSAGES_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "export/exporter/host.h"
#include "export/exporter/view.h"
#include "sampler/base/log.h"

struct sp_messages {
	const struct sp_host *host;
	struct sp_region *region;
	enum sp_log_level level;
	unsigned next; /* the place in the region for the next message */
	enum {
		SP_MESSAGES_BY_HOST, /* we may not see what it is, or it is no log: the host knows */
		SP_MESSAGES_OURS,    /* it is the file below */
	} way;
	struct stat file;
	char path[512]; /* "": it has no name by which others can open it, or a longer one */
};

/* Remembers what the host's stderr is. */
void sp_messages_init(struct sp_messages *m, const struct sp_host *h, struct sp_region *region,
		      enum sp_log_level level);

/* Writes one line, made printable and cut at 1,000 bytes. It is lost if no way works. */
void sp_messages_tell(struct sp_messages *m, enum sp_log_level level, const char *text);

#endif
