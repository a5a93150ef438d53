/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the exporter's place: an object that takes its time to be loaded, as one with many libraries
 * does on a busy machine. Says on stderr, the only descriptor that its thread has, when its
 * constructor begins and ends; what it was loaded for it refuses.
 */
#include <errno.h>
#include <time.h>
#include <unistd.h>

#define LOAD_NS 300000000L

int sp_export_run(const void *ops, void (*ready)(void));

static void say(const char *line, size_t len)
{
	if (write(STDERR_FILENO, line, len) < 0)
		_exit(99);
}

__attribute__((constructor)) static void load(void)
{
	struct timespec wait = {0, LOAD_NS};

	say("loading\n", 8);
	(void)nanosleep(&wait, NULL);
	say("loaded\n", 7);
}

int sp_export_run(const void *ops, void (*ready)(void))
{
	(void)ops;
	(void)ready;
	return -ENOTSUP;
}
