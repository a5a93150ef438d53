/* SPDX-License-Identifier: Apache-2.0 */
/* A region as a host makes it, and a process that stands for the host. One per test. */
#ifndef SP_HOST_DOUBLE_H
#define SP_HOST_DOUBLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "export/exporter/host.h"
#include "export/exporter/view.h"
#include "sampler/region/region.h"
#include "sampler/region/ring.h"
#include "test/common/put_sample.h"

/* Behind the header, on a page. */
#define RING_AT ((sizeof(struct sp_region) + 4095) / 4096 * 4096)
#define RING_BYTES SP_RING_BYTES(65536)
#define NAMES_AT (RING_AT + 2 * RING_BYTES)
#define NAMES_BYTES SP_RING_BYTES(65536)
#define REGION_BYTES (NAMES_AT + NAMES_BYTES)

struct host_double {
	struct sp_region *region;
	int fd; /* of the region */
	struct sp_ring ring;
	struct sp_ring snapshots;
	struct sp_channel channel; /* of it, the ring of names */
	pid_t pid;
};

extern struct host_double host;

/* Of the regions that are made from now on; what is not used takes no memory. */
extern uint64_t host_bytes;

/* That it hands over no descriptors but its region's. */
extern const struct sp_host_descriptors host_nothing;

/* Makes the region of a host, which is the calling process as long as nobody says otherwise. */
void host_make(void);

/* One more is `host` from now on; returns the one that was. */
struct host_double host_make_another(void);

/* Another process for the host; it runs that, or waits to be killed. */
void host_start(void (*run)(void));
void host_kill(void);

/* Of the host, as the exporter sees it. */
void host_open(struct sp_view *v, struct sp_host *h);

/* Waits until a word is that, for some seconds. */
bool becomes(const _Atomic uint32_t *word, uint32_t value);

/* Tells the name, and returns its id. */
uint32_t host_name(const char *name);

/* A sample of one frame, and its span's name. */
void host_sample(uint64_t span_id, const char *name);

#endif
