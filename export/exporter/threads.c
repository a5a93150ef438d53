/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the threads of a host in /proc, and those that could be sampled (threads.h). Context: the
 * exporter.
 */
#define _GNU_SOURCE
#include "export/exporter/threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sampler/base/masking_call.h"

/* More than the host's side can have blocks for (thread.h). */
#define THREADS_MAX 20000U
/* How many masks are read at a time: each takes a few files. */
#define MASKS_MAX 256U
#define PAUSE_MAX 32U

/*
 * The file is readable only for a process that may trace the host (Yama); otherwise the mask alone
 * has to do.
 */
static bool waits_with_other_mask(const struct sp_host *h, uint32_t tid)
{
	char name[48];
	char line[256];

	(void)snprintf(name, sizeof(name), "task/%" PRIu32 "/syscall", tid);
	return sp_host_read(h, name, line, sizeof(line)) > 0 && sp_masking_call(line);
}

static char status[(size_t)1 << 17]; /* the list of groups may be long */

/* All ones if it cannot be read. */
static uint64_t mask_of(const struct sp_host *h, uint32_t tid)
{
	char name[48];
	const char *line = NULL;

	(void)snprintf(name, sizeof(name), "task/%" PRIu32 "/status", tid);
	if (sp_host_read(h, name, status, sizeof(status)) > 0)
		line = strstr(status, "\nSigBlk:");
	return line != NULL ? strtoull(line + strlen("\nSigBlk:"), NULL, 16) : ~UINT64_C(0);
}

bool sp_threads_take(const struct sp_host *h, uint32_t tid, uint32_t signal_number)
{
	uint64_t bit;

	if (signal_number == 0 || signal_number > 64)
		return false;
	bit = UINT64_C(1) << (signal_number - 1);
	/* Before and after: it may have been on its way into or out of such a call. */
	return !waits_with_other_mask(h, tid) && (mask_of(h, tid) & bit) == 0 &&
	       !waits_with_other_mask(h, tid);
}

static uint64_t number_after(const char *label)
{
	const char *line = strstr(status, label);

	return line != NULL ? strtoull(line + strlen(label), NULL, 10) : 0;
}

uint64_t sp_threads_filters(const struct sp_host *h)
{
	if (sp_host_read(h, "status", status, sizeof(status)) <= 0)
		return 0;
	/* Strict mode has no filter. */
	return number_after("\nSeccomp_filters:") * 4 + number_after("\nSeccomp:") % 4 + 1;
}

void sp_threads_name(const struct sp_host *h, uint32_t tid, char name[SP_THREAD_NAME_BYTES])
{
	char path[48];
	char text[SP_THREAD_NAME_BYTES + 1];
	ssize_t got;

	memset(name, 0, SP_THREAD_NAME_BYTES);
	(void)snprintf(path, sizeof(path), "task/%" PRIu32 "/comm", tid);
	got = sp_host_read(h, path, text, sizeof(text));
	/* The kernel adds one newline; others belong to the name. */
	if (got > 0)
		memcpy(name, text, (size_t)got - 1);
}

struct count {
	uint32_t seen;
	uint32_t asked; /* whose masks were read */
	uint32_t open;  /* of these, those that do not block the signal */
};

static bool count(struct count *c, const struct sp_host *h, uint32_t signal_number)
{
	int fd = h->proc >= 0 ? openat(h->proc, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *entry;

	*c = (struct count){.seen = 0};
	if (folder == NULL) {
		if (fd >= 0)
			(void)close(fd);
		return false;
	}
	while (c->seen < THREADS_MAX && (entry = readdir(folder)) != NULL) {
		uint32_t tid = (uint32_t)strtoul(entry->d_name, NULL, 10);

		if (tid == 0)
			continue;
		c->seen++;
		if (signal_number == 0 || c->asked == MASKS_MAX)
			continue;
		c->asked++;
		c->open += sp_threads_take(h, tid, signal_number);
	}
	(void)closedir(folder);
	return true;
}

/*
 * A scan takes time of a hook of the host. If scans change nothing (a thread that cannot be
 * enrolled, a timer that the kernel refuses) they are asked for less and less often.
 */
static bool advise(struct sp_threads *t, const struct sp_threads_known *k)
{
	if (++t->looks <= t->pause)
		return false;
	if (k->armed != t->advised)
		t->pause = 0;
	else
		t->pause = t->pause * 2 + 1 < PAUSE_MAX ? t->pause * 2 + 1 : PAUSE_MAX;
	t->advised = k->armed;
	t->looks = 0;
	return true;
}

bool sp_threads_look(struct sp_threads *t, const struct sp_host *h,
		     const struct sp_threads_known *k)
{
	struct count c;
	uint32_t before = t->seen;

	/* If each thread that was seen last time has a timer, masks do not matter. */
	if (!count(&c, h, k->armed < before || before == 0 ? k->signal_number : 0))
		return false;
	t->seen = c.seen;
	if (c.seen != before)
		t->pause = 0;
	if (c.seen != k->known)
		return advise(t, k);
	/* More threads could be sampled than are. Unknown if there were more than were checked. */
	if (k->armed < c.seen && (c.open > k->armed || c.asked == MASKS_MAX))
		return advise(t, k);
	t->pause = 0;
	return false;
}
