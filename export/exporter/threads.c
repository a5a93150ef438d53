/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the threads of a host in /proc, and those that could be sampled (threads.h). Context: the
 * exporter.
 */
#define _GNU_SOURCE
#include "export/exporter/threads.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* More than the host's side can have blocks for (thread.h). */
#define THREADS_MAX 20000U
#define PAUSE_MAX 32U

static char status[(size_t)1 << 17]; /* the list of groups may be long */

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

/*
 * How many threads the host has; 0 if that cannot be seen. The kernel counts them as folders in its task/,
 * each a link to it besides the two of every folder, so that nothing is opened or listed.
 */
static uint32_t count(const struct sp_host *h)
{
	struct stat st;

	if (h->proc < 0 || fstatat(h->proc, "task", &st, 0) != 0 || st.st_nlink < 3)
		return 0;
	return st.st_nlink - 2 < THREADS_MAX ? (uint32_t)(st.st_nlink - 2) : THREADS_MAX;
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
	uint32_t seen = count(h);

	if (seen == 0)
		return false;
	if (seen != t->seen)
		t->pause = 0;
	t->seen = seen;
	if (seen != k->known || k->armed < seen)
		return advise(t, k);
	t->pause = 0;
	return false;
}
