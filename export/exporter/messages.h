/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on the host's stderr, "spanprof[PID]: text\n". The stderr belongs to the host: waiting
 * for its reader would stop the exporter; a descriptor that we kept would keep a pipe's reader
 * waiting for its end; and the program may have opened a file of its own as descriptor 2.
 *
 * If the stderr is a pipe, a terminal, or a file that the host has opened for appending, it is
 * opened for each line, without blocking, if it still is the file that it was at the beginning. If the
 * host writes to a file at an offset of its own, the host writes our messages: the offset would not
 * move when we append, and the host's next line would overwrite ours. The host also writes if we
 * cannot open the stderr (a socket, as journald's; a stderr that another user opened), if it is
 * full, or if it is not the file that it was at the beginning: its next hook does it, at the latest
 * that of its end, if descriptor 2 is a log then (sampler/base/log.c).
 *
 * A host that is killed runs no hook, and its descriptors are gone. A terminal or a file that was
 * opened for appending is then opened by its name. Pipes and sockets cannot be written to any more.
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
	unsigned next; /* the slot in the region for the next message */
	enum {
		/* the host writes them: we may not see its stderr, or that is no log */
		SP_MESSAGES_BY_HOST,
		SP_MESSAGES_OURS, /* we write them: stderr is the file below */
	} way;
	struct stat file;
	/* its name; "" if it has no name by which others can open it, or a longer one */
	char path[512];
};

/* Remembers what the host's stderr is now. */
void sp_messages_init(struct sp_messages *m, const struct sp_host *h, struct sp_region *region,
		      enum sp_log_level level);

/*
 * Writes one line, made printable and cut at 1,000 bytes. The line is lost if neither we nor the
 * host can write it.
 */
void sp_messages_write(struct sp_messages *m, enum sp_log_level level, const char *text);

#endif
