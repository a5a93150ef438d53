/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that want to be served by the exporter of their family: they connect to its socket and hand
 * over their region (sampler/region/region.h). Any process of any user may connect, so all of it is checked.
 */
#ifndef SP_JOIN_H
#define SP_JOIN_H

#include <stdint.h>

#include "export/exporter/host.h"

struct sp_join {
	struct sp_host_descriptors fds;
	uint32_t pid;      /* the kernel's word */
	bool is_of_family; /* the same program and environment; of others nothing may be opened */
};

/*
 * Makes the socket ours: who connects from now on is told our process number. -1, and closes it, if it is
 * not one that listens.
 */
int sp_join_listen(int fd);

/*
 * The next one that has come. environment: of ours, see sp_family_environment(). 0; -EAGAIN there is none;
 * -EMFILE there may be one, but nothing is left to take it by, and the socket stays readable; -EPROTO: there
 * was one, but it handed over nothing, or is of another user. Waits up to 50 ms for one of our user that was slow.
 */
int sp_join_take(int listener, uint64_t environment, struct sp_join *out);

#endif
