/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay RECORDING FOLDER: runs the product's loop, from the rings to the files, on a recording: one profile for each
 * of its intervals. The clock advances by intervals, and random numbers are drawn from it, so that the same recording
 * gives the same bytes. Configured by variables, as the exporter is.
 */
#define _GNU_SOURCE
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "export/export.h"
#include "export/off_cpu/off_cpu.h"
#include "sampler/base/compiler.h"
#include "test/replay/recording.h"
#include "test/unit/export/core_double.h"

#define NOW_S 1790000000
#define LEFT_MS 3600000U

static char proc[4096];
static const char *begin;
static const char *end;
/* Positions in this interval: the next chunk of the main ring, of snapshots, and of waits; and the interval's end. */
static const char *at, *snapshot_at, *wait_at, *interval_end;
static _Atomic time_t upload_s; /* time by which the clock has advanced */

/* Upload intervals are whole seconds. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	*t = (struct timespec){(id == CLOCK_REALTIME ? NOW_S : 1000) + upload_s, 0};
	return 0;
}

/* The next chunk before the end that has one of these kinds. */
static const struct chunk *next_chunk(const char **from, const char *to, uint32_t first,
				      uint32_t last)
{
	while (*from < to) {
		const struct chunk *c = (const void *)*from;

		*from += sizeof(*c) + CHUNK_PADDED(c->bytes);
		if (c->kind >= first && c->kind <= last)
			return c;
	}
	return NULL;
}

static void write_file(const char *name, const void *data, size_t bytes)
{
	char path[sizeof(proc) + 16];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", proc, name);
	f = fopen(path, "w");
	if (f == NULL || fwrite(data, 1, bytes, f) != bytes || fclose(f) != 0)
		err(1, "%s", path);
}

/* Begins an interval, with the host's /proc folder as at its end. */
static void begin_interval(void)
{
	const struct chunk *c;
	char path[sizeof(proc) + 16];

	snapshot_at = wait_at = interval_end = at;
	while ((c = next_chunk(&interval_end, end, CHUNK_PROGRAM, CHUNK_INTERVAL)) != NULL &&
	       c->kind != CHUNK_INTERVAL) {
		if (c->kind == CHUNK_MAPS)
			write_file("maps", c + 1, c->bytes);
		if (c->kind != CHUNK_PROGRAM)
			continue;
		(void)snprintf(path, sizeof(path), "%s/exe", proc);
		(void)unlink(path);
		if (symlink((const char *)(c + 1), path) != 0)
			err(1, "%s", path);
	}
}

/* Samples and related records first, then snapshots, as from two rings, then waits. */
static unsigned drain(void *self, void (*put)(const struct sp_record *record, void *arg), void *arg,
		      unsigned max)
{
	static struct sp_record record;
	const struct chunk *c;
	unsigned n = 0;

	(void)self;
	while (n < max && (c = next_chunk(&at, interval_end, 0, SP_RECORD_SNAPSHOT - 1)) != NULL) {
		record.kind = c->kind;
		memcpy(&record.sample, c + 1, c->bytes);
		put(&record, arg);
		n++;
	}
	return n;
}

static unsigned drain_snapshots(void *self, void (*put)(const struct sp_snapshot *s, void *arg),
				void *arg, unsigned max, bool *is_all)
{
	static struct sp_snapshot s;
	const struct chunk *c;
	unsigned n = 0;

	(void)self;
	while (n < max &&
	       (c = next_chunk(&snapshot_at, at, SP_RECORD_SNAPSHOT, SP_RECORD_SNAPSHOT)) != NULL) {
		memcpy(&s, c + 1, c->bytes);
		put(&s, arg);
		n++;
	}
	*is_all = n < max;
	return n;
}

/* Replaces the product's looks. */
struct sp_off_cpu {
	struct sp_off_cpu_hooks hooks;
};

struct sp_off_cpu *sp_off_cpu_new(const struct sp_core_ops *ops, struct sp_unwinder *unwinder,
				  const struct sp_off_cpu_hooks *hooks)
{
	static struct sp_off_cpu o;

	(void)ops;
	(void)unwinder;
	o.hooks = *hooks;
	return &o;
}

void sp_off_cpu_free(struct sp_off_cpu *o)
{
	(void)o;
}

uint64_t sp_off_cpu_due_ns(const struct sp_off_cpu *o)
{
	(void)o;
	return UINT64_MAX;
}

void sp_off_cpu_results(const struct sp_off_cpu *o, struct sp_off_cpu_results *out)
{
	(void)o;
	*out = (struct sp_off_cpu_results){0};
}

void sp_off_cpu_run(struct sp_off_cpu *o)
{
	static struct wait_chunk w;
	const struct chunk *c;

	while ((c = next_chunk(&wait_at, at, CHUNK_WAIT, CHUNK_WAIT)) != NULL) {
		memcpy(&w, c + 1, c->bytes);
		o->hooks.put(o->hooks.arg, &(struct sp_wait){
						   .label = &w.label,
						   .tid = w.tid,
						   .leaf = w.leaf,
						   .pc = w.pc,
						   .epoch = o->hooks.prepare(o->hooks.arg, w.pc[0]),
						   .depth = w.depth,
						   .flags = w.flags,
						   .ns = w.ns,
						   .owner = w.has_owner ? &w.owner : NULL,
						   .owner_pc = w.pc + w.depth,
						   .owner_depth = w.owner_depth,
					   });
	}
}

static const char *span_name_text(void *self, uint32_t id, size_t *len)
{
	const char *from = begin;
	const struct chunk *c;

	(void)self;
	while ((c = next_chunk(&from, end, CHUNK_NAME, CHUNK_NAME)) != NULL) {
		if (memcmp(c + 1, &id, sizeof(id)) == 0) {
			*len = c->bytes - sizeof(id) - 1;
			return (const char *)(c + 1) + sizeof(id);
		}
	}
	*len = 0;
	return "";
}

/* The host's threads are gone. */
static void thread_name(void *self, uint32_t tid, char name[SP_THREAD_NAME_BYTES])
{
	(void)self;
	(void)tid;
	memset(name, 0, SP_THREAD_NAME_BYTES);
}

static unsigned begun; /* number of begun intervals */
static bool is_made;   /* all profiles of the last interval are written */

/* Called when a process begins, and for the status after an interval is finished. */
static void facts(void *self, struct sp_core_facts *out)
{
	(void)self;
	*out = core.facts;
	is_made = core.events_wanted > begun;
}

/*
 * The clock advances by an upload interval as soon as an interval is drained, and the next one begins when its
 * profiles exist. The host ends after the last one.
 */
static unsigned news(void *self)
{
	static bool is_drained;

	(void)self;
	if (is_made) {
		core.pending = at >= end;
		is_made = is_drained = false;
		begun++;
		begin_interval();
	} else if (!is_drained && at == interval_end && snapshot_at == at &&
		   (wait_at == at || !sp_config_wants_waits(&core.config))) {
		upload_s += core.config.upload_interval_ms / 1000;
		is_drained = true;
	}
	return core.pending ? SP_WAIT_STOP : 0;
}

static const struct sp_core_ops *next(void *self)
{
	const struct chunk *c;
	const char *from = begin;
	bool *is_there = self;

	if (*is_there)
		return NULL;
	*is_there = true;
	c = next_chunk(&from, end, CHUNK_HOST, CHUNK_HOST);
	if (c != NULL)
		memcpy(&core.ops.pid, c + 1, sizeof(core.ops.pid));
	return &core.ops;
}

static void ended(void *self, const struct sp_core_ops *ops)
{
	(void)self;
	(void)ops;
}

int main(int argc, char **argv)
{
	bool is_there = false;
	struct sp_export_family family = core_family;
	char root[sizeof(proc) + 16];
	struct stat st;
	bool failed;
	int fd = argc == 3 ? open(argv[1], O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0)
		err(2, "replay RECORDING FOLDER");
	begin = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (begin == MAP_FAILED)
		err(2, "%s", argv[1]);
	at = begin;
	end = begin + st.st_size;
	(void)snprintf(proc, sizeof(proc), "%s/proc", argv[2]);
	(void)snprintf(root, sizeof(root), "%s/root", proc);
	if (mkdir(proc, 0755) != 0 || symlink("/", root) != 0)
		err(2, "%s", root);
	(void)setenv("SPANPROF_OUTPUT_DIR", argv[2], 1);
	sp_config_capture(environ);
	family.arg = &is_there;
	family.next = next;
	family.ended = ended;
	core_reset();
	sp_config_parse(&core.config);
	core.flush_left = LEFT_MS;
	core.ops.pid = 0;
	core.ops.proc = proc;
	core.ops.drain = drain;
	core.ops.drain_snapshots = drain_snapshots;
	core.ops.span_name_text = span_name_text;
	core.ops.thread_name = thread_name;
	core.ops.facts = facts;
	core.ops.news = news;
	failed = sp_export_run(&family) != 0;
	(void)fputs(core.log, stderr);
	return failed;
}
