/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for a host. Context: tests. Callers: test/unit/export/. */
#include "core_double.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "export/util/turn.h"

struct core_double core;

static unsigned drain(void *self, void (*put)(const struct sp_record *record, void *arg), void *arg,
		      unsigned max)
{
	(void)self;
	unsigned n = 0;

	while (core.records != 0 && n < max) {
		put(&core.record[0], arg);
		core.records--;
		memmove(core.record, core.record + 1, core.records * sizeof(core.record[0]));
		n++;
	}
	core.drained += n;
	return n;
}

static unsigned drain_snapshots(void *self, void (*put)(const struct sp_snapshot *s, void *arg),
				void *arg, unsigned max, bool *is_all)
{
	(void)self;
	*is_all = !core.is_stalled;
	if (core.snapshot == NULL || core.is_stalled || max == 0)
		return 0;
	put(core.snapshot, arg);
	core.snapshot = NULL;
	core.drained++;
	return 1;
}

static void repeat_events(void *self)
{
	(void)self;
	core.events_wanted++;
}

static void tell_frame_tables(void *self, bool are_there)
{
	(void)self;
	core.has_no_frame_tables = !are_there;
}

static const char *span_name_text(void *self, uint32_t id, size_t *len)
{
	(void)self;
	const char *text =
		id != 0 && id <= 8 && core.label[id - 1] != NULL ? core.label[id - 1] : "";

	*len = strlen(text);
	return text;
}

static uint64_t counter_read(void *self, enum sp_counter c)
{
	(void)self;
	return core.counter[c];
}

static void counter_add(void *self, enum sp_counter c, uint64_t n)
{
	(void)self;
	core.counter[c] += n;
}

static void thread_name(void *self, uint32_t tid, char name[SP_THREAD_NAME_BYTES])
{
	(void)self;
	memset(name, 0, SP_THREAD_NAME_BYTES);
	(void)snprintf(name, SP_THREAD_NAME_BYTES, "thread %u", tid);
}

static void look_below(void *self)
{
	(void)self;
}

static void cpu(void *self, struct sp_core_cpu *out)
{
	(void)self;
	*out = core.cpu;
}

static void facts(void *self, struct sp_core_facts *out)
{
	(void)self;
	*out = core.facts;
}

/* The threads of the host have had no span. */
static struct sp_thread_labels_part *thread_labels(void *self, uint32_t *places)
{
	(void)self;
	*places = 0;
	return NULL;
}

static struct sp_root_durations *root_durations(void *self)
{
	(void)self;
	return core.roots;
}

static bool may_open(void *self)
{
	(void)self;
	core.opened++;
	return !core.is_barred;
}

static int64_t confined_ns(void *self)
{
	(void)self;
	return core.confined_ns;
}

static uint64_t due_ns(void *self)
{
	(void)self;
	return core.due_ns;
}

static void keep_log(void *self, enum sp_log_level level, const char *message)
{
	(void)self;
	(void)level;
	strncat(core.log, message, sizeof(core.log) - strlen(core.log) - 2);
	strcat(core.log, "\n");
}

static unsigned news(void *self)
{
	unsigned bits;

	(void)self;
	bits = core.script != NULL ? core.script(core.asked) : SP_WAIT_STOP;
	core.asked++;
	if ((bits & (SP_WAIT_FLUSH | SP_WAIT_STOP)) != 0)
		core.pending = true;
	return bits;
}

static uint32_t flush_left_ms(void *self)
{
	(void)self;
	uint32_t left = core.pending ? core.flush_left : 0;

	core.flush_left -= left < core.flush_step ? left : core.flush_step;
	return left;
}

static int flush_pending(void *self)
{
	(void)self;
	return core.pending;
}

static void flushed(void *self)
{
	(void)self;
	core.flushed++;
	core.pending = false;
}

void core_reset(void)
{
	memset(&core, 0, sizeof(core));
	core.config.sample_rate_hz = 100;
	core.config.upload_interval_ms = 15000;
	core.config.flush_timeout_ms = 2000;
	core.config.push_timeout_ms = 10000;
	core.config.push_queue_capacity = 8;
	core.config.push_max_tries = 8;
	core.facts.sampling = true;
	core.config.service_name = "shop";
	core.flush_left = 2000;
	core.ops = (struct sp_core_ops){
		.config = &core.config,
		.pid = 4711,
		.proc = "/proc/self",
		.maps = -1,
		.version = "0.1.0",
		.drain = drain,
		.drain_snapshots = drain_snapshots,
		.repeat_events = repeat_events,
		.tell_frame_tables = tell_frame_tables,
		.span_name_text = span_name_text,
		.counter_read = counter_read,
		.counter_add = counter_add,
		.facts = facts,
		.look_below = look_below,
		.cpu = cpu,
		.thread_labels = thread_labels,
		.root_durations = root_durations,
		.thread_name = thread_name,
		.may_open = may_open,
		.confined_ns = confined_ns,
		.log = keep_log,
		.news = news,
		.due_ns = due_ns,
		.flush_left_ms = flush_left_ms,
		.flush_pending = flush_pending,
		.flushed = flushed,
	};
}

static void wait_for_family(void *self, uint32_t timeout_ms)
{
	bool had = sp_turn_set(false);

	(void)self;
	(void)timeout_ms;
	usleep(100);
	(void)sp_turn_set(had);
}

static void wake(void *self)
{
	(void)self;
}

static const struct sp_core_ops *next(void *self)
{
	const struct sp_core_ops *first = core.has_come ? NULL : &core.ops;

	(void)self;
	core.has_come = true;
	return first;
}

static void left(void *self, const struct sp_core_ops *ops, int error)
{
	(void)self;
	(void)ops;
	(void)error;
}

static bool is_open(void *self)
{
	(void)self;
	return false;
}

const struct sp_export_family core_family = {
	.wait = wait_for_family, .wake = wake, .next = next, .left = left, .open = is_open};

static struct sp_record *new_record(enum sp_record_kind kind)
{
	struct sp_record *record = &core.record[core.records++];

	memset(record, 0, sizeof(*record));
	record->kind = kind;
	return record;
}

struct sp_sample *core_sample(uint64_t span_id, uint32_t name_id, ...)
{
	struct sp_sample *s = &new_record(SP_RECORD_SAMPLE)->sample;
	const void *pc;
	va_list ap;

	s->span_id = span_id;
	s->name_id = name_id;
	s->weight = 1;
	s->flags = SP_SAMPLE_ROOTED;
	va_start(ap, name_id);
	while ((pc = va_arg(ap, const void *)) != NULL)
		s->pc[s->depth++] = (uintptr_t)pc;
	va_end(ap);
	return s;
}

struct sp_cpu_time *core_cpu_time(uint64_t span_id, const void *start, uint64_t ns)
{
	struct sp_cpu_time *t = &new_record(SP_RECORD_CPU_TIME)->cpu_time;

	t->span_id = span_id;
	t->start = (uintptr_t)start;
	t->ns = ns;
	return t;
}

bool core_logged(const char *part)
{
	return strstr(core.log, part) != NULL;
}
