/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implements sp_core_ops (export.h) for one process, by its region and /proc. Context: the
 * exporter.
 */
#define _GNU_SOURCE
#include "export/exporter/member.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/exporter/rights.h"
#include "export/util/containers.h"
#include "sampler/base/process.h"
#include "sampler/base/text.h"
#include "sampler/region/names.h"
#include "sampler/region/sdk_texts.h"

/* The most that a correct host can have: SP_NAMES_MAX, and 16 MiB of texts. */
#define NAMES_MAX (SP_NAMES_MAX + 2U)
#define TEXTS_MAX ((size_t)17 << 20)

struct name {
	uint32_t id;
	uint32_t len;
	char *text;
};

struct sp_name_texts {
	struct sp_hash_index index; /* finds the entry in name[] by its id */
	struct name *name;
	uint32_t n;
	size_t cap;
	size_t texts;
};

struct sp_name_texts *sp_name_texts_new(void)
{
	return calloc(1, sizeof(struct sp_name_texts));
}

void sp_name_texts_free(struct sp_name_texts *n)
{
	if (n == NULL)
		return;
	for (uint32_t i = 0; i < n->n; i++)
		free(n->name[i].text);
	free(n->name);
	sp_hash_index_fini(&n->index);
	free(n);
}

static uint32_t hash_of(uint32_t id)
{
	return (uint32_t)sp_hash_add(0, id);
}

static const struct name *find(const struct sp_name_texts *n, uint32_t id)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&n->index, hash_of(id), &step, &i);)
		if (n->name[i].id == id)
			return &n->name[i];
	return NULL;
}

/* A name beyond the limit, or for which there is no memory, stays unknown. */
static void add(struct sp_name_texts *n, uint32_t id, const char *text, size_t len)
{
	char *copy;

	if (n->n >= NAMES_MAX || n->texts + len > TEXTS_MAX ||
	    !SP_GROW(n->name, n->cap, n->n + 1, NAMES_MAX))
		return;
	copy = malloc(len + 1);
	if (copy == NULL || !sp_hash_index_put(&n->index, hash_of(id), n->n)) {
		free(copy);
		return;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	n->texts += len;
	n->name[n->n++] = (struct name){id, (uint32_t)len, copy};
}

void sp_name_texts_drain(struct sp_name_texts *n, struct sp_ring *ring)
{
	struct sp_name_record r;
	char text[SP_NAME_MAX];
	uint32_t kind;
	uint64_t len;

	/* Bounded, because a malicious host may be faster than we are. */
	for (uint64_t most = ring->size / sizeof(r.head);
	     most != 0 && (len = sp_ring_take(ring, &kind, &r, sizeof(r))) != 0; most--) {
		if (kind != SP_RECORD_NAME || len < sizeof(r.head) || r.head.id == 0 ||
		    r.head.len == 0 || r.head.len > SP_NAME_MAX ||
		    len != sizeof(r.head) + SP_NAME_WORDS(r.head.len))
			ring->damaged++;
		else if (find(n, r.head.id) == NULL)
			add(n, r.head.id, text,
			    sp_text_clean(text, sizeof(text), r.text, r.head.len));
	}
}

const char *sp_name_texts_get(const struct sp_name_texts *n, uint32_t id, size_t *len)
{
	const struct name *name = find(n, id);

	*len = name != NULL ? name->len : 0;
	return name != NULL ? name->text : NULL;
}

#define OTHER "(other)"
/* The bound for a ring full of unfinished records; each step skips one. */
#define PASSES_MAX 4096U
/*
 * Counters are read once in an upload interval. Even a hundred threads cannot count this far in
 * one.
 */
#define STEP_MAX (UINT64_C(1) << 40)

/* The count is also written into the region, where our successor and the host find it if we die. */
static void counter_add(void *self, enum sp_counter c, uint64_t n)
{
	struct sp_member *m = self;

	m->counter[c] += n;
	atomic_store_explicit(&m->view.region->exporter_counter[c], m->counter[c],
			      memory_order_relaxed);
}

static uint64_t spans_started(const struct sp_region *r, unsigned sdk)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SP_SPAN_COUNTS; i++)
		sum += atomic_load_explicit(&r->spans[i].started[sdk], memory_order_relaxed);
	return sum;
}

static uint64_t host_counter(const struct sp_member *m, enum sp_counter c)
{
	const struct sp_region *r = m->view.region;
	uint64_t sum = atomic_load_explicit(&r->counter[c], memory_order_relaxed);

	/* It happens once in a process, but both sides may have seen it. */
	if (c == SP_COUNT_SECCOMP_STOPPED && m->counter[c] != 0)
		return 0;
	for (unsigned sdk = 0; c == SP_COUNT_SPANS_STARTED && sdk < SP_COUNTED_SDKS; sdk++)
		sum += spans_started(r, sdk);
	for (unsigned i = 0; c == SP_COUNT_SPANS_ENDED && i < SP_SPAN_COUNTS; i++)
		sum += atomic_load_explicit(&r->spans[i].ended, memory_order_relaxed);
	return sum;
}

static void tell(void *self, enum sp_log_level level, const char *message);

static void note_damage(struct sp_member *m, enum sp_counter c)
{
	m->damaged[c] = true;
	if (m->told_damage)
		return;
	m->told_damage = true;
	tell(m, SP_LOG_WARN,
	     "counters in the memory that the program shares with its exporter were overwritten: "
	     "what they count is not told any more");
}

/*
 * Counters never decrease: if we followed a host that decreased one, the loss since the last report
 * would appear endless. A counter that grew by more than is possible was overwritten, and is not
 * read any more. The first value may be the count of years.
 */
static uint64_t counter_read(void *self, enum sp_counter c)
{
	struct sp_member *m = self;
	uint64_t now = m->damaged[c] ? 0 : host_counter(m, c);
	uint64_t before = m->host_counter[c];

	if (now > before && now - before > (before == 0 ? SP_COUNT_MOST : STEP_MAX))
		note_damage(m, c);
	else if (now > before)
		m->host_counter[c] = now;
	return m->host_counter[c] + m->counter[c];
}

struct receiver {
	void (*put)(const struct sp_record *record, void *arg);
	void *arg;
	struct sp_member *m;
};

/*
 * Module events and ends of spans are not counted when they are put, nor when they are drained.
 * Each record is counted at once, because we may be killed before the next one.
 */
static void count_and_put(const struct sp_record *record, void *arg)
{
	struct receiver *r = arg;

	if (record->kind == SP_RECORD_SPAN_VALUES)
		counter_add(r->m, SP_COUNT_SPAN_VALUES_DRAINED, 1);
	else if (record->kind == SP_RECORD_ROOT_END)
		counter_add(r->m, SP_COUNT_ROOT_ENDS_DRAINED, 1);
	else if (record->kind == SP_RECORD_SLOW_ROOT)
		counter_add(r->m, SP_COUNT_SLOW_ROOTS_DRAINED, 1);
	else if (record->kind == SP_RECORD_FREED)
		counter_add(r->m, SP_COUNT_FREED_DRAINED, 1);
	else if (record->kind != SP_RECORD_MODULE_EVENT && record->kind != SP_RECORD_SPAN_ENDED)
		counter_add(r->m, SP_COUNT_SAMPLES_DRAINED, 1);
	if (record->kind == SP_RECORD_CPU_TIME)
		counter_add(r->m, SP_COUNT_UNSAMPLED_DRAINED, 1);
	r->put(record, r->arg);
}

static void count_damage(struct sp_member *m, struct sp_ring *r)
{
	counter_add(m, SP_COUNT_RING_DAMAGED, r->damaged);
	counter_add(m, SP_COUNT_RING_UNFINISHED, r->unfinished);
	r->damaged = 0;
	r->unfinished = 0;
}

/* The position of the producers in a ring; 0 if it has no memory. */
static uint64_t head_of(const struct sp_ring *r)
{
	return r->ends != NULL ? atomic_load_explicit(&r->ends->head, memory_order_relaxed) : 0;
}

/*
 * Compares the rights of the process before its records are taken. Module events name files, which
 * the exporter would open; and if the process has become another user, taken records are lost.
 */
static bool may_take(struct sp_member *m, const struct sp_ring *r)
{
	bool is_empty = head_of(r) == r->taken;

	m->waiter.has_moved |= !is_empty;
	return !m->waiter.barred && (is_empty || sp_waiter_may_take(&m->waiter));
}

/* No thread is left that could finish a record. */
static bool has_ended(const struct sp_member *m)
{
	return m->waiter.gone && m->waiter.confined == SP_CONFINED_NOT;
}

/*
 * The host puts a name before the first sample with its id. So names are taken again if an id is
 * unknown.
 */
static void take_names(struct sp_member *m)
{
	if (m->waiter.barred)
		return;
	sp_name_texts_drain(m->names, &m->view.names);
	for (unsigned i = 0; has_ended(m) && i < PASSES_MAX && sp_ring_pass(&m->view.names); i++)
		sp_name_texts_drain(m->names, &m->view.names);
	count_damage(m, &m->view.names);
}

static unsigned drain(void *self, void (*put)(const struct sp_record *record, void *arg), void *arg,
		      unsigned max)
{
	struct sp_member *m = self;
	unsigned n;
	struct receiver r = {.put = put, .arg = arg, .m = m};

	take_names(m);
	if (!may_take(m, &m->view.ring))
		return 0;
	n = sp_ring_drain(&m->view.ring, count_and_put, &r, max);
	/* No thread is left that could finish its unfinished records. */
	for (unsigned i = 0; has_ended(m) && n < max && i < PASSES_MAX; i++) {
		if (!sp_ring_pass(&m->view.ring))
			break;
		n += sp_ring_drain(&m->view.ring, count_and_put, &r, max - n);
	}
	count_damage(m, &m->view.ring);
	return n;
}

static unsigned drain_snapshots(void *self, void (*put)(const struct sp_snapshot *s, void *arg),
				void *arg, unsigned max, bool *is_all)
{
	struct sp_member *m = self;
	struct sp_ring *r = &m->view.snapshots;
	/*
	 * The end at this moment: with a program that puts records all the time, we would never
	 * reach the end otherwise.
	 */
	uint64_t head = head_of(r);
	unsigned n;

	*is_all = r->taken == head;
	if (!may_take(m, r))
		return 0;
	n = sp_snapshot_drain(r, put, arg, max);
	for (unsigned i = 0; has_ended(m) && n < max && i < PASSES_MAX; i++) {
		if (!sp_ring_pass(r))
			break;
		n += sp_snapshot_drain(r, put, arg, max - n);
	}
	counter_add(m, SP_COUNT_SAMPLES_DRAINED, n);
	count_damage(m, r);
	*is_all = (int64_t)(r->taken - head) >= 0;
	return n;
}

static void repeat_events(void *self)
{
	struct sp_member *m = self;

	atomic_fetch_add_explicit(&m->view.region->generation, 1, memory_order_relaxed);
}

static void tell_frame_tables(void *self, bool are_there)
{
	struct sp_member *m = self;

	atomic_store_explicit(&m->view.region->no_frame_tables, are_there ? 0 : 1,
			      memory_order_relaxed);
}

static const char *span_name_text(void *self, uint32_t id, size_t *len)
{
	struct sp_member *m = self;
	const char *text = sp_name_texts_get(m->names, id, len);

	if (text == NULL) {
		take_names(m);
		text = sp_name_texts_get(m->names, id, len);
	}
	if (text != NULL)
		return text;
	/* The name found no room in its ring, or here. */
	counter_add(m, SP_COUNT_NAMES_OTHER, 1);
	*len = strlen(OTHER);
	return OTHER;
}

/*
 * The facts about a process in its region, for people: threads, spans, SDKs and their facts. Any
 * process that can write to the region may write anything, also while we read: each value is read
 * once, and a text ends with its array.
 */
static uint32_t word(const _Atomic uint32_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

static void list_unknowns(struct sp_core_facts *out, uint32_t facts)
{
	for (unsigned i = 0; i < SP_SDK_FACT_N; i++) {
		if ((facts & UINT32_C(1) << i) == 0)
			continue;
		unsigned n = out->sdk[out->sdks].unknowns++;

		out->sdk[out->sdks].unknown[n].fact = sp_sdk_fact_texts[i].name;
		out->sdk[out->sdks].unknown[n].instead = sp_sdk_fact_texts[i].instead;
		out->sdk[out->sdks].unknown[n].is_harmless = i == SP_SDK_FACT_SPAN;
		out->sdk[out->sdks].unknown[n].is_limit = i == SP_SDK_FACT_INSTANCES;
	}
}

/* Another process may write to the region while we read it. */
static void say_where(const struct sp_region_sdk *sdk, unsigned number, struct sp_core_facts *out)
{
	/* pairs with sp_sdk_publish() */
	uint32_t way = atomic_load_explicit(&sdk->way, memory_order_acquire);
	char *object = out->sdk[out->sdks].object;
	char *release = out->sdk[out->sdks].release;

	out->sdk[out->sdks].method = sp_sdk_texts[number].method;
	if (way == SP_SDK_WAY_UNKNOWN || way >= SP_SDK_WAY_N)
		return;
	out->sdk[out->sdks].method = sp_sdk_way_texts[way];
	out->sdk[out->sdks].instances = word(&sdk->instances);
	memcpy(object, sdk->object, SP_SDK_OBJECT_MAX);
	object[SP_SDK_OBJECT_MAX - 1] = '\0';
	memcpy(release, sdk->release, SP_SDK_RELEASE_MAX);
	release[SP_SDK_RELEASE_MAX - 1] = '\0';
	memcpy(out->sdk[out->sdks].service, sdk->service, SP_SDK_SERVICE_MAX);
	out->sdk[out->sdks].service[SP_SDK_SERVICE_MAX - 1] = '\0';
	if (object[0] == '\0')
		(void)snprintf(object, SP_SDK_OBJECT_MAX, "the program");
}

static void list_sdks(const struct sp_region *r, struct sp_core_facts *out)
{
	_Static_assert(SP_SDK_FACT_N <= SP_CORE_FACTS_MAX, "there is room for all");

	for (unsigned i = 0; i < SP_SDK_N && out->sdks < SP_CORE_SDKS_MAX; i++) {
		const struct sp_region_sdk *sdk = &r->sdk[i];
		uint64_t spans = spans_started(r, i);
		uint32_t facts = atomic_load_explicit(&sdk->disproved, memory_order_relaxed);

		if ((spans == 0 && facts == 0) || sp_sdk_texts[i].name == NULL)
			continue;
		out->sdk[out->sdks].name = sp_sdk_texts[i].name;
		say_where(sdk, i, out);
		out->sdk[out->sdks].spans_started = spans;
		list_unknowns(out, facts);
		out->sdks++;
	}
}

/* The number of one of the kernel's 64 signals, or 0. */
static int signal_of(uint32_t number)
{
	return number <= 64 ? (int)number : 0;
}

static const char *context_of(uint32_t is)
{
	static const char *const words[SP_CONTEXT_N] = {
		[SP_CONTEXT_WAITING] = "waiting", [SP_CONTEXT_PUBLISHED] = "published",
		[SP_CONTEXT_OFF] = "off",         [SP_CONTEXT_FOREIGN] = "foreign",
		[SP_CONTEXT_REFUSED] = "refused", [SP_CONTEXT_READ] = "read",
	};

	return is < SP_CONTEXT_N ? words[is] : NULL;
}

static void read_facts(const struct sp_region *r, struct sp_core_facts *out)
{
	*out = (struct sp_core_facts){
		.sampling = word(&r->state) != SP_REGION_STOPPED,
		.signal_number = signal_of(word(&r->signal_number)),
		.threads_armed = word(&r->threads_armed),
		.threads_limit = word(&r->threads_limit),
		.threads_refused = word(&r->threads_refused),
		.spans_open = word(&r->spans_open),
		.thread_context = context_of(word(&r->context)),
		.allocations = (enum sp_allocations_object)word(&r->allocations),
	};
	list_sdks(r, out);
}

static void facts(void *self, struct sp_core_facts *out)
{
	const struct sp_member *m = self;

	read_facts(m->view.region, out);
	if (m->waiter.confined != SP_CONFINED_NOT) {
		out->confined = sp_confinement_text(m->waiter.confined);
		out->sampling = false;
	}
	if (m->waiter.threads.seen > out->threads_armed)
		out->threads_unarmed = m->waiter.threads.seen - out->threads_armed;
	out->threads_unseen = sp_waiter_unseen(&m->waiter);
}

static bool is_served(void *arg, uint32_t pid)
{
	const struct sp_member *m = arg;

	return m->waiter.family->find(m->waiter.family->arg, pid) != NULL;
}

/*
 * If this exporter also serves the parent of the process: its time is known now, and will be in the
 * parent's sum of ended children.
 */
static void tell_parent(struct sp_member *m)
{
	const struct sp_family_hook *family = m->waiter.family;
	struct sp_member *parent;
	struct sp_core_cpu cpu;
	char text[1024];
	char state;

	if (m->is_summed || sp_host_read(&m->host, "stat", text, sizeof(text)) <= 0)
		return;
	parent = family->find(family->arg, (uint32_t)sp_proc_stat(text, SP_STAT_PARENT, &state));
	if (parent == NULL || parent == m)
		return;
	if (parent->below == NULL)
		parent->below = sp_descendants_new();
	sp_descendants_results(m->below, &cpu);
	sp_descendants_ended(parent->below, m->host.pid, cpu.own_ns + cpu.waited_ns);
	m->is_summed = true;
}

static void look_below(void *self)
{
	struct sp_member *m = self;

	if (m->waiter.gone || m->host.proc < 0 || !sp_waiter_may_open(&m->waiter))
		return;
	if (m->below == NULL)
		m->below = sp_descendants_new();
	sp_descendants_scan(m->below, &m->host, is_served, m);
	if (sp_waiter_pending(&m->waiter))
		tell_parent(m);
}

/*
 * The clock of a process exists until its parent has waited for it, and then includes the time of
 * its exit. It is found by the process's number, so the value counts only if the process still had
 * the number after the read. False: the last value stays.
 */
static bool read_clock(struct sp_member *m)
{
	uint64_t ns = sp_host_cpu_ns(&m->host);
	char text[1024];
	char state;

	if (sp_host_read(&m->host, "stat", text, sizeof(text)) <= 0)
		return false;
	(void)sp_proc_stat(text, SP_STAT_PARENT, &state);
	/* After an exec the clock belongs to another program. */
	if (m->waiter.gone ? state != 'Z' : word(&m->view.region->state) == SP_REGION_LEAVING)
		return false;
	m->used_ns = ns;
	return true;
}

/* The region may claim that more was used before profiling than in all. */
static void cpu(void *self, struct sp_core_cpu *out)
{
	struct sp_member *m = self;
	const struct sp_region *r = m->view.region;
	uint64_t brief_ns = counter_read(m, SP_COUNT_BRIEF_CHILDREN_DRAINED) * 1000;

	sp_descendants_results(m->below, out);
	out->is_live = read_clock(m);
	if (m->used_ns > out->own_ns)
		out->own_ns = m->used_ns;
	out->before_ns = atomic_load_explicit(&r->cpu_before_ns, memory_order_relaxed);
	if (out->before_ns > out->own_ns)
		out->before_ns = 0;
	out->unknown_ns -= brief_ns < out->unknown_ns ? brief_ns : out->unknown_ns;
	out->is_cut_off = has_ended(m) && !m->waiter.barred &&
			  word(&r->state) == SP_REGION_SAMPLING && word(&r->flush_asked) == 0;
}

/* After an exec, threads with the same numbers belong to another program. */
static struct sp_thread_labels_part *thread_labels(void *self, uint32_t *places)
{
	const struct sp_member *m = self;

	if (m->waiter.barred || m->waiter.gone || m->host.proc < 0 ||
	    atomic_load_explicit(&m->view.region->state, memory_order_relaxed) == SP_REGION_LEAVING)
		return NULL;
	*places = m->view.label_places;
	return m->view.labels;
}

/*
 * They are in the region, which does not change when the process ends or executes another program.
 */
static struct sp_root_durations *root_durations(void *self)
{
	const struct sp_member *m = self;

	return m->waiter.barred ? NULL : m->view.roots;
}

static void ask_tracer(void *self)
{
	const struct sp_member *m = self;

	atomic_fetch_or_explicit(&m->view.region->deferred_work, SP_WORK_TRACER,
				 memory_order_relaxed);
}

static bool is_tracer_asked(void *self)
{
	const struct sp_member *m = self;

	/* pairs with sp_deferred_work_run() */
	return (atomic_load_explicit(&m->view.region->deferred_work, memory_order_acquire) &
		SP_WORK_TRACER) != 0;
}

static int64_t confined_ns(void *self)
{
	const struct sp_member *m = self;

	return m->waiter.confined != SP_CONFINED_NOT ? m->waiter.free_ns : 0;
}

static void thread_name(void *self, uint32_t tid, char name[SP_THREAD_NAME_BYTES])
{
	struct sp_member *m = self;

	sp_threads_name(&m->host, tid, name);
}

static bool may_open(void *self)
{
	struct sp_member *m = self;

	/* The process is not watched yet. */
	if (m->waiter.host == NULL)
		return sp_rights_compare(&m->host) == 0;
	return sp_waiter_may_open(&m->waiter);
}

static void tell(void *self, enum sp_log_level level, const char *message)
{
	struct sp_member *m = self;

	/*
	 * With rights that the process has given up we open none of its files, not even after its
	 * end.
	 */
	if (m->messages.way == SP_MESSAGES_OURS && !may_open(m))
		m->messages.way = SP_MESSAGES_BY_HOST;
	sp_messages_write(&m->messages, level, message);
}

/*
 * The process has counted a filter that one of our hooks saw. If it does so just now,
 * counter_read() counts it once.
 */
static void tell_confinement(struct sp_member *m)
{
	char text[256];

	if (m->told_confinement || m->waiter.confined == SP_CONFINED_NOT)
		return;
	m->told_confinement = true;
	if (m->waiter.confined == SP_CONFINED_FILTER) {
		if (counter_read(m, SP_COUNT_SECCOMP_STOPPED) == 0)
			counter_add(m, SP_COUNT_SECCOMP_STOPPED, 1);
		return;
	}
	(void)snprintf(text, sizeof(text),
		       "%s: its exporter, which is not so confined, stops serving it; what was "
		       "sampled until then is sent",
		       sp_confinement_text(m->waiter.confined));
	tell(m, SP_LOG_WARN, text);
}

/* Tells the process that we work, at the first call, when everything is set up. */
static unsigned news(void *self)
{
	struct sp_member *m = self;
	unsigned bits;

	if (!m->working)
		sp_view_set_state(&m->view, SP_EXPORTER_WORKING);
	m->working = true;
	bits = sp_waiter_changes(&m->waiter);
	tell_confinement(m);
	return bits;
}

static uint64_t due_ns(void *self)
{
	const struct sp_member *m = self;

	return sp_waiter_due_ns(&m->waiter);
}

static uint32_t flush_left_ms(void *self)
{
	struct sp_member *m = self;

	return sp_waiter_left_ms(&m->waiter);
}

static int flush_pending(void *self)
{
	struct sp_member *m = self;

	return sp_waiter_pending(&m->waiter);
}

static void flushed(void *self)
{
	struct sp_member *m = self;

	sp_waiter_flushed(&m->waiter);
}

static void make_ops(struct sp_member *m, const struct sp_config *config)
{
	(void)snprintf(m->proc, sizeof(m->proc), "/proc/self/fd/%d", m->host.proc);
	m->ops = (struct sp_core_ops){
		.arg = m,
		.config = config,
		.pid = m->host.pid,
		.proc = m->proc,
		.maps = m->host.maps,
		.version = SP_VERSION,
		.own_object = {m->view.region->own_object[0], m->view.region->own_object[1]},
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
		.ask_tracer = ask_tracer,
		.is_tracer_asked = is_tracer_asked,
		.thread_name = thread_name,
		.may_open = may_open,
		.confined_ns = confined_ns,
		.log = tell,
		.news = news,
		.due_ns = due_ns,
		.flush_left_ms = flush_left_ms,
		.flush_pending = flush_pending,
		.flushed = flushed,
	};
}

/* An exporter before us may have counted for this process. */
static void take_over_counters(struct sp_member *m)
{
	const struct sp_region *r = m->view.region;

	for (unsigned c = 0; c < SP_COUNTER_N; c++) {
		uint64_t n = atomic_load_explicit(&r->exporter_counter[c], memory_order_relaxed);

		if (n <= SP_COUNT_MOST)
			m->counter[c] = n;
		else
			note_damage(m, (enum sp_counter)c);
	}
}

int sp_member_open(struct sp_member *m, const struct sp_host_descriptors *fds,
		   const struct sp_config *config)
{
	int err;

	m->host = (struct sp_host){.pidfd = -1, .proc = -1, .maps = -1};
	err = sp_view_open(&m->view, fds->region);
	if (err == 0)
		err = sp_host_open(&m->host, &m->view, fds);
	else
		sp_host_decline(fds);
	if (err != 0)
		return err;
	sp_messages_init(&m->messages, &m->host, m->view.region, config->log_level);
	take_over_counters(m);
	make_ops(m, config);
	m->names = sp_name_texts_new();
	return m->names != NULL ? 0 : -ENOMEM;
}

void sp_member_watch(struct sp_member *m, int event, const struct sp_family_hook *family)
{
	sp_waiter_init(&m->waiter, &m->view, &m->host, m->ops.config, family);
	(void)sp_watch_start(&m->waiter.watch, &m->view.region->wake, event);
}

static const char *reason(int err)
{
	if (err == -EINVAL)
		return "no usable server address";
	if (err == -EPERM || err == -ENOSYS)
		return "eventfd2, epoll_create1 or epoll_ctl was refused";
	return err == -ENOMEM ? "out of memory" : strerror(-err);
}

/*
 * Called after the samples that cannot be sent were counted: a host that is told inherits the
 * counts.
 */
static void tell_gone(struct sp_member *m)
{
	bool is_confined = m->waiter.confined != SP_CONFINED_NOT;
	bool is_refused = m->waiter.barred || (is_confined && m->host.joined);
	bool is_moved = m->waiter.family->ends && !is_confined;

	sp_view_set_state(&m->view, is_refused ? SP_EXPORTER_REFUSED
				    : is_moved ? SP_EXPORTER_MOVED
					       : SP_EXPORTER_GONE);
}

int sp_member_retire(struct sp_member *m)
{
	sp_watch_stop(&m->waiter.watch);
	tell_gone(m);
	if (sp_view_drop_rings(&m->view) != 0)
		return -ENOMEM;
	m->messages.region = m->view.region;
	sp_name_texts_free(m->names);
	m->names = NULL;
	sp_host_close(&m->host);
	return 0;
}

void sp_member_close(struct sp_member *m)
{
	sp_watch_stop(&m->waiter.watch);
	sp_name_texts_free(m->names);
	sp_descendants_free(m->below);
	sp_host_close(&m->host);
	sp_view_close(&m->view);
}

static void tell_failed(struct sp_member *m, int err)
{
	char text[128];

	if (m->host.joined) {
		sp_view_set_state(&m->view, SP_EXPORTER_REFUSED);
		return;
	}
	if (m->names != NULL) {
		(void)snprintf(text, sizeof(text),
			       "cannot start the exporter (%s): not profiling this process",
			       reason(err));
		tell(m, SP_LOG_WARN, text);
	}
	sp_view_fail(&m->view, -err);
}

void sp_member_send_end(struct sp_member *m, int err)
{
	if (err != 0)
		tell_failed(m, err);
	else if (m->view.region != NULL)
		tell_gone(m);
}
