/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exporter that makes no profiles. Its first process's records in the rings, and the results of looks at its
 * threads, go into the file recording.PID of SPANPROF_OUTPUT_DIR. All except the loop is the product's code.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/export.h"
#include "export/loop/waits.h"
#include "export/util/clock.h"
#include "export/util/turn.h"
#include "test/replay/recording.h"

#define NAMES_MAX 65536U
#define DRAIN_MAX 4096U

static FILE *recording;
static const struct sp_core_ops *host;
static bool named[NAMES_MAX];

static void put_chunk(uint32_t kind, const void *data, uint64_t bytes)
{
	static const char zero[8];
	const struct chunk c = {kind, (uint32_t)bytes};

	(void)fwrite(&c, sizeof(c), 1, recording);
	(void)fwrite(data, 1, bytes, recording);
	(void)fwrite(zero, 1, CHUNK_PADDED(bytes) - bytes, recording);
}

/* Written before the first record that has it. */
static void put_name(uint32_t id)
{
	char data[sizeof(id) + SP_NAME_MAX + 1];
	size_t len;
	const char *text =
		id < NAMES_MAX && !named[id] ? host->span_name_text(host->arg, id, &len) : NULL;

	if (id == 0 || text == NULL)
		return;
	named[id] = true;
	memcpy(data, &id, sizeof(id));
	memcpy(data + sizeof(id), text, len + 1);
	put_chunk(CHUNK_NAME, data, sizeof(id) + len + 1);
}

static void put_record(const struct sp_record *r, void *arg)
{
	uint64_t bytes = sizeof(r->word);

	(void)arg;
	if (r->kind == SP_RECORD_SAMPLE) {
		put_name(r->sample.name_id);
		bytes = sp_sample_bytes(r->sample.depth);
	} else if (r->kind == SP_RECORD_CPU_TIME) {
		put_name(r->cpu_time.name_id);
		bytes = sizeof(r->cpu_time);
	} else if (r->kind == SP_RECORD_MODULE_EVENT) {
		bytes = sizeof(r->module_event);
	} else if (r->kind == SP_RECORD_SPAN_VALUES) {
		bytes = sizeof(r->span_values);
	}
	put_chunk(r->kind, &r->sample, bytes);
}

static void put_snapshot(const struct sp_snapshot *s, void *arg)
{
	struct sp_sample head = {0};

	(void)arg;
	memcpy(&head, s->sample, sizeof(s->sample));
	put_name(head.name_id);
	put_chunk(SP_RECORD_SNAPSHOT, s, offsetof(struct sp_snapshot, stack) + s->stack_bytes);
}

static void put_wait(void *arg, const struct sp_wait *w)
{
	static struct wait_chunk c;

	(void)arg;
	put_name(w->label->name_id);
	c = (struct wait_chunk){
		.label = *w->label,
		.ns = w->ns,
		.tid = w->tid,
		.depth = w->depth,
		.flags = w->flags,
		.has_owner = w->owner != NULL,
	};
	(void)snprintf(c.leaf, sizeof(c.leaf), "%s", w->leaf);
	for (unsigned i = 0; i < w->depth; i++)
		c.pc[i] = w->pc[i];
	if (w->owner != NULL) {
		put_name(w->owner->name_id);
		c.owner = *w->owner;
		c.owner_depth = w->owner_depth;
		for (unsigned i = 0; i < w->owner_depth; i++)
			c.pc[w->depth + i] = w->owner_pc[i];
	}
	put_chunk(CHUNK_WAIT, &c,
		  offsetof(struct wait_chunk, pc) + (c.depth + c.owner_depth) * sizeof(c.pc[0]));
}

/* The product's loop looks for waits; only the results go elsewhere. */
struct sp_off_cpu *__real_sp_off_cpu_new(const struct sp_core_ops *ops,
					 struct sp_unwinder *unwinder,
					 const struct sp_off_cpu_hooks *hooks);
struct sp_off_cpu *__wrap_sp_off_cpu_new(const struct sp_core_ops *ops,
					 struct sp_unwinder *unwinder,
					 const struct sp_off_cpu_hooks *hooks);

struct sp_off_cpu *__wrap_sp_off_cpu_new(const struct sp_core_ops *ops,
					 struct sp_unwinder *unwinder,
					 const struct sp_off_cpu_hooks *hooks)
{
	struct sp_off_cpu_hooks ours = *hooks;

	ours.put = put_wait;
	return __real_sp_off_cpu_new(ops, unwinder, &ours);
}

static struct sp_waits *new_waits(void)
{
	struct sp_waits_env env = {.ops = host, .modules = sp_modules_new(host->proc, host->maps)};

	if (!sp_config_wants_waits(host->config) || env.modules == NULL)
		return NULL;
	env.unwinder = sp_unwinder_new(sp_modules_host(env.modules));
	return sp_waits_new(&env);
}

/* The data about the host that a profile needs. */
static void put_host(void)
{
	static char maps[1 << 20];
	char path[64];
	char program[PATH_MAX] = "";
	size_t n = 0;
	ssize_t got;
	int fd;

	put_chunk(CHUNK_HOST, &host->pid, sizeof(host->pid));
	(void)snprintf(path, sizeof(path), "%s/exe", host->proc);
	if (readlink(path, program, sizeof(program) - 1) > 0)
		put_chunk(CHUNK_PROGRAM, program, strlen(program) + 1);
	(void)snprintf(path, sizeof(path), "%s/maps", host->proc);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && (got = read(fd, maps + n, sizeof(maps) - n)) > 0)
		n += (size_t)got;
	put_chunk(CHUNK_MAPS, maps, n);
	(void)close(fd);
	(void)fflush(recording);
}

static void drain(void)
{
	bool is_all;

	while (host->drain(host->arg, put_record, NULL, DRAIN_MAX) == DRAIN_MAX)
		;
	while (host->drain_snapshots(host->arg, put_snapshot, NULL, DRAIN_MAX, &is_all) ==
	       DRAIN_MAX)
		;
}

/* Replaces the product's function. */
int sp_export_run(const struct sp_export_family *family)
{
	const struct sp_core_ops *other;
	struct sp_waits *waits;
	uint64_t interval_ns;
	char path[PATH_MAX];
	unsigned news = 0;

	(void)sp_turn_set(true);
	host = family->next(family->arg);
	(void)snprintf(path, sizeof(path), "%s/recording.%u", host->config->output_dir, host->pid);
	recording = fopen(path, "w");
	waits = new_waits();
	interval_ns = sp_clock_mono_ns() + host->config->upload_interval_ms * SP_NS_PER_MS;
	while (recording != NULL && (news & SP_WAIT_STOP) == 0) {
		family->wait(family->arg, waits != NULL ? 5 : 20);
		/* Then a forked child has an exporter of its own. */
		while ((other = family->next(family->arg)) != NULL)
			family->left(family->arg, other, -EBUSY);
		news = host->news(host->arg);
		drain();
		sp_waits_run(waits);
		if ((news & SP_WAIT_FLUSH) != 0) {
			put_host();
			host->flushed(host->arg);
		}
		if (sp_clock_mono_ns() > interval_ns) {
			put_host();
			put_chunk(CHUNK_INTERVAL, NULL, 0);
			host->repeat_events(host->arg);
			interval_ns += host->config->upload_interval_ms * SP_NS_PER_MS;
		}
	}
	if (recording != NULL)
		(void)fclose(recording);
	family->left(family->arg, host, 0);
	return 0;
}
