/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for a host. Context: tests. */
#define _GNU_SOURCE
#include "host_double.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "region_version.h"
#include "sampler/region/names.h"

struct host_double host;
uint64_t host_bytes = REGION_BYTES;
const struct sp_host_descriptors host_nothing = {.region = -1, .folder = -1, .maps = -1};

void host_make(void)
{
	struct sp_region *r;

	host.fd = memfd_create("spanprof", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	cr_assert_geq(host.fd, 0);
	cr_assert_eq(ftruncate(host.fd, (off_t)host_bytes), 0);
	cr_assert_eq(fcntl(host.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	r = mmap(NULL, host_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, host.fd, 0);
	cr_assert_neq((void *)r, MAP_FAILED);
	r->magic = SP_REGION_MAGIC;
	r->version = SP_REGION_VERSION;
	r->pid = (uint32_t)getpid();
	r->bytes = host_bytes;
	r->mapped_at = (uintptr_t)r;
	r->part[SP_REGION_RING] = (struct sp_region_part){RING_AT, RING_BYTES};
	r->part[SP_REGION_SNAPSHOTS] = (struct sp_region_part){RING_AT + RING_BYTES, RING_BYTES};
	r->part[SP_REGION_NAMES] = (struct sp_region_part){NAMES_AT, NAMES_BYTES};
	r->state = SP_REGION_SAMPLING;
	cr_assert_eq(sp_ring_at(&host.ring, (char *)r + RING_AT, RING_BYTES), 0);
	cr_assert_eq(sp_ring_at(&host.snapshots, (char *)r + RING_AT + RING_BYTES, RING_BYTES), 0);
	cr_assert_eq(sp_ring_at(&host.channel.names, (char *)r + NAMES_AT, NAMES_BYTES), 0);
	host.channel.number++;
	cr_assert_eq(sp_names_init(1000), 0);
	host.region = r;
	host.pid = getpid();
}

struct host_double host_make_another(void)
{
	struct host_double first = host;

	host_make();
	return first;
}

void host_start(void (*run)(void))
{
	host.pid = fork();
	cr_assert_geq(host.pid, 0);
	if (host.pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (run != NULL)
			run();
		for (;;)
			(void)pause();
	}
	host.region->pid = (uint32_t)host.pid;
}

void host_kill(void)
{
	cr_assert_eq(kill(host.pid, SIGKILL), 0);
	cr_assert_eq(waitpid(host.pid, NULL, 0), host.pid);
}

void host_open(struct sp_view *v, struct sp_host *h)
{
	cr_assert_eq(sp_view_open(v, dup(host.fd)), 0);
	cr_assert_eq(sp_host_open(h, v, &host_nothing), 0);
}

bool becomes(const _Atomic uint32_t *word, uint32_t value)
{
	const struct timespec ms = {.tv_nsec = 1000000};

	for (unsigned i = 0; i < 10000; i++) {
		if (atomic_load(word) == value)
			return true;
		(void)nanosleep(&ms, NULL);
	}
	return false;
}

uint32_t host_name(const char *name)
{
	uint32_t id = sp_names_intern(name, strlen(name));

	cr_assert(sp_names_announce(&host.channel, id));
	return id;
}

void host_sample(uint64_t span_id, const char *name)
{
	struct sp_sample s = {
		.span_id = span_id, .weight = 1, .depth = 1, .flags = SP_SAMPLE_ROOTED};

	s.name_id = host_name(name);
	s.pc[0] = (uintptr_t)host_sample;
	cr_assert_eq(put_sample(&host.ring, &s), 0);
	atomic_fetch_add(&host.region->counter[SP_COUNT_SAMPLES_PUT], 1);
}
