/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes and removes the mapping of the process context, step by step as OTEP 4719 orders
 * (process_context.h). Context: APP. By raw system calls, as everything that the trial of a seccomp
 * filter has to know (preload/exporter/trial.c).
 */
#include "sampler/context/process_context.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/context/process_maps.h"

/* Pages that are not touched cost nothing; most messages need one. */
#define BYTES 16384U

/* linux/memfd.h, linux/random.h; headers may be older. */
#define NO_EXEC_SEAL 0x0008U
#define DO_NOT_WAIT 1U

static struct sp_process_context *_Atomic ours;
static _Atomic bool others; /* the program made one itself */

/* Making a file larger than this limit raises SIGXFSZ, which by default ends the process. */
static bool is_within_limit(void)
{
	struct rlimit limit;

	return sp_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= BYTES);
}

static int make_file(void)
{
	long fd;

	if (!is_within_limit())
		return -1;
	fd = sp_syscall(SYS_memfd_create, SP_PROCESS_CONTEXT_NAME,
			MFD_CLOEXEC | MFD_ALLOW_SEALING | NO_EXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = sp_syscall(SYS_memfd_create, SP_PROCESS_CONTEXT_NAME,
				MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd >= 0 && sp_syscall(SYS_ftruncate, (int)fd, (long)BYTES) != 0) {
		(void)sp_syscall(SYS_close, (int)fd);
		fd = -1;
	}
	return (int)fd;
}

/*
 * A private mapping of a file with the name, because kernels without CONFIG_ANON_VMA_NAME show no
 * other name; or else memory without a file, which needs one from prctl().
 */
static struct sp_process_context *map(bool *has_file)
{
	int fd = make_file();
	void *at = MAP_FAILED;

	if (fd >= 0) {
		at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		(void)sp_syscall(SYS_close, fd);
	}
	*has_file = at != MAP_FAILED;
	if (at == MAP_FAILED)
		at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	/* A child would be taken for its parent. */
	if (sp_syscall(SYS_madvise, at, (long)BYTES, MADV_DONTFORK) == 0)
		return at;
	(void)munmap(at, BYTES);
	return NULL;
}

/* Random bytes as a UUID of version 4; "" if the kernel has none yet. */
static void make_instance(char out[37])
{
	uint8_t random[16];
	char hex[2 * sizeof(random) + 1];
	size_t n = 0;

	out[0] = '\0';
	if (sp_syscall(SYS_getrandom, random, sizeof(random), DO_NOT_WAIT) != (long)sizeof(random))
		return;
	random[6] = (uint8_t)((random[6] & 0x0fU) | 0x40U);
	random[8] = (uint8_t)((random[8] & 0x3fU) | 0x80U);
	sp_text_hex(hex, random, sizeof(random));
	for (size_t i = 0; i < sizeof(hex) - 1; i++) {
		if (i == 8 || i == 12 || i == 16 || i == 20)
			out[n++] = '-';
		out[n++] = hex[i];
	}
	out[n] = '\0';
}

static void fill(struct sp_process_context *c, const struct sp_config *config)
{
	struct timespec now = {0, 0};
	char instance[37];
	uint8_t *payload = (uint8_t *)(c + 1);

	make_instance(instance);
	memcpy(c->signature, SP_PROCESS_CONTEXT_NAME, sizeof(c->signature));
	c->version = SP_PROCESS_CONTEXT_VERSION;
	c->payload = (uintptr_t)payload;
	c->payload_bytes =
		(uint32_t)sp_process_context_encode(config, instance, payload, BYTES - sizeof(*c));
	(void)clock_gettime(CLOCK_BOOTTIME, &now);
	/* Last of all: a reader takes the rest for written when it sees a time. */
	atomic_store_explicit(&c->published_ns,
			      (uint64_t)now.tv_sec * SP_NS_PER_S + (uint64_t)now.tv_nsec + 1,
			      memory_order_release);
}

int sp_process_context_publish(const struct sp_config *config)
{
	struct sp_process_context *c;
	bool has_file = false;

	if (sp_seccomp_is_on())
		return -ENOSYS;
	if (atomic_load_explicit(&others, memory_order_relaxed))
		return -EEXIST;
	c = map(&has_file);
	if (c == NULL)
		return -ENOMEM;
	fill(c, config);
	/* Also where it cannot work: a profiler may wait for this very call. */
	if (sp_syscall(SYS_prctl, SP_MEMORY_NAME_OPTION, SP_MEMORY_NAME_ANON, c, (long)BYTES,
		       SP_PROCESS_CONTEXT_NAME) != 0 &&
	    !has_file) {
		(void)munmap(c, BYTES);
		return -ENOTSUP;
	}
	atomic_store_explicit(&ours, c, memory_order_release);
	return 0;
}

void sp_process_context_made_by_program(void)
{
	atomic_store_explicit(&others, true, memory_order_relaxed);
}

bool sp_process_context_find_other(uintptr_t *at)
{
	return sp_process_maps_find((uintptr_t)atomic_load_explicit(&ours, memory_order_relaxed),
				    at) == 0 &&
	       *at != 0;
}

void sp_process_context_withdraw(void)
{
	struct sp_process_context *c = atomic_exchange_explicit(&ours, NULL, memory_order_acq_rel);

	if (c == NULL)
		return;
	atomic_store_explicit(&c->published_ns, 0, memory_order_seq_cst);
	/* Below a filter it stays, and says that it is not valid. */
	if (!sp_seccomp_is_on())
		(void)munmap(c, BYTES);
}

void sp_process_context_forked(void)
{
	atomic_store_explicit(&ours, NULL, memory_order_relaxed);
}
