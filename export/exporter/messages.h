/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages on the host's stderr, "spanprof[PID]: text\n", though it is not ours: its file is opened for
 * each line, if it is still the one that it was when we began, and never waited for. Where it cannot be
 * opened (a socket, a host of other rights) the host's next hook is asked to write.
 */
#ifndef SP_MESSAGES_H
#define SP_MESSAGES_H

#include <stdbool.h>
#include <sys/types.h>

#include "export/exporter/host.h"
#include "export/exporter/view.h"
#include "sampler/log.h"

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

/* Looks what the host's stderr is. */
void sp_messages_init(struct sp_messages *m, const struct sp_host *h, struct sp_region *region,
		      enum sp_log_level level);

/* One line, made printable; cut at 1,000 bytes. Lost where neither way is open. */
void sp_messages_tell(const struct sp_messages *m, enum sp_log_level level, const char *text);

#endif
