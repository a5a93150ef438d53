/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on the host's stderr, "spanprof[PID]: text\n". The stderr is not ours, and a wait for
 * its reader would stop the exporter: so its file is opened for each line, without blocking, if it
 * is still the same one as at the beginning. If it cannot be opened (a socket, a host with other
 * rights), the host's next hook is asked to write the line.
 */
#ifndef SP_MESSAGES_H
#define SP_MESSAGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "export/exporter/host.h"
#include "export/exporter/view.h"
#include "sampler/base/log.h"

struct sp_messages {
	const struct sp_host *host;
	struct sp_region *region;
	enum sp_log_level level;
	bool writable; /* there is a stderr that lines may go to */
	dev_t device;
	ino_t inode;
	dev_t special; /* of a device, which one */
	mode_t type;
};

/* Remembers what the host's stderr is. */
void sp_messages_init(struct sp_messages *m, const struct sp_host *h, struct sp_region *region,
		      enum sp_log_level level);

/* Writes one line, made printable and cut at 1,000 bytes. It is lost if neither way works. */
void sp_messages_tell(const struct sp_messages *m, enum sp_log_level level, const char *text);

#endif
