/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the process context, writes the records of the thread context, and decides whether this
 * process publishes (thread_context.h). Context: APP, calling thread.
 *
 * A reader may stop the thread between any two instructions. So a record is invalid while its ids
 * change, and only the compiler has to be kept from reordering the stores.
 */
#include "sampler/context/thread_context.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/base/log.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/config/config.h"
#include "sampler/context/foreign_context.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/thread_labels.h"

/*
 * The process context, made and removed in the steps of OTEP 4719. The calls are raw system calls,
 * because this code runs before the trial of a seccomp filter (preload/exporter/trial.c).
 */

/* Names the layout of the records. The OTEP says tls_v1, but readers and writers know this name. */
#define SCHEMA "tlsdesc_v1_dev"
/* The number of the attribute with the local root's span id. */
#define ROOT_KEY 0U

#define LENGTH_BYTES 2U
#define LENGTH_MAX 16383U                               /* of two bytes with seven bits each */
#define BYTES_OF(number) ((uint8_t)((number) << 3 | 2)) /* the key of a field with a length */

/* opentelemetry/proto: field numbers */
enum {
	RESOURCE = 1,
	ATTRIBUTE = 2,
	RESOURCE_ATTRIBUTE = 1,
	KEY = 1,
	VALUE = 2,
	STRING_VALUE = 1,
	ARRAY_VALUE = 5,
	ARRAY_VALUES = 1,
};

struct writer {
	uint8_t *at;
	uint8_t *end;
	bool full;
};

/* Begins a field with a length. Returns its start, for end_field(). */
static uint8_t *begin_field(struct writer *w, unsigned number)
{
	uint8_t *start = w->at;

	if (w->full || w->end - w->at < (ptrdiff_t)(1 + LENGTH_BYTES)) {
		w->full = true;
		return start;
	}
	*w->at = BYTES_OF(number);
	w->at += 1 + LENGTH_BYTES;
	return start;
}

static void end_field(const struct writer *w, uint8_t *start)
{
	size_t len = (size_t)(w->at - start) - 1 - LENGTH_BYTES;

	if (w->full)
		return;
	start[1] = (uint8_t)(len | 0x80U);
	start[2] = (uint8_t)(len >> 7);
}

/* is_encoded: the text is percent-encoded, in a form that was checked (config_parse.c). */
static void put_text(struct writer *w, unsigned number, const char *text, size_t len,
		     bool is_encoded)
{
	uint8_t *start = begin_field(w, number);

	for (size_t i = 0; i < len; i++) {
		char c = text[i];

		if (is_encoded && sp_text_is_escape(text + i, len - i, &c))
			i += 2;
		if (w->at == w->end) {
			w->full = true;
			return;
		}
		*w->at++ = (uint8_t)c;
	}
	end_field(w, start);
}

/*
 * Writes a KeyValue with a text, or with a list of one text. A pair that does not fit is left out.
 */
static void put_pair(struct writer *w, unsigned number, const struct sp_text_pair *p,
		     bool is_encoded, bool is_list)
{
	static const uint8_t around[] = {VALUE, ARRAY_VALUE, ARRAY_VALUES};
	const unsigned depth = is_list ? SP_ARRAY_LEN(around) : 1;
	uint8_t *start = begin_field(w, number);
	uint8_t *field[SP_ARRAY_LEN(around)];

	put_text(w, KEY, p->key, p->key_len, is_encoded);
	for (unsigned i = 0; i < depth; i++)
		field[i] = begin_field(w, around[i]);
	put_text(w, STRING_VALUE, p->value, p->value_len, is_encoded);
	for (unsigned i = depth; i-- > 0;)
		end_field(w, field[i]);
	end_field(w, start);
	if (w->full) {
		w->at = start;
		w->full = false;
	}
}

static struct sp_text_pair pair_of(const char *key, const char *value)
{
	return (struct sp_text_pair){.key = key,
				     .key_len = strlen(key),
				     .value = value != NULL ? value : "",
				     .value_len = value != NULL ? strlen(value) : 0};
}

static bool is_key(const struct sp_text_pair *p, const char *key)
{
	return strlen(key) == p->key_len && memcmp(p->key, key, p->key_len) == 0;
}

/*
 * Writes OTEL_RESOURCE_ATTRIBUTES without service.name, which other variables may override; and the
 * keys that today's readers require, with an empty value if there is none.
 */
static void put_resource(struct writer *w, const struct sp_config *config, const char *instance)
{
	static const char *const always[] = {
		"service.instance.id", "service.version",        "deployment.environment.name",
		"telemetry.sdk.name",  "telemetry.sdk.language", "telemetry.sdk.version",
	};
	const char *list = config->resource_attributes;
	struct sp_text_pair p = pair_of("service.name", config->service_name);
	uint8_t *start = begin_field(w, RESOURCE);
	uint32_t has = 0;

	if (w->full)
		return;
	put_pair(w, RESOURCE_ATTRIBUTE, &p, false, false);
	while (list != NULL && sp_text_next_pair(&list, &p)) {
		if (p.value == NULL || is_key(&p, "service.name"))
			continue;
		put_pair(w, RESOURCE_ATTRIBUTE, &p, true, false);
		for (unsigned i = 0; i < SP_ARRAY_LEN(always); i++)
			has |= is_key(&p, always[i]) ? 1U << i : 0;
	}
	for (unsigned i = 0; i < SP_ARRAY_LEN(always); i++) {
		p = pair_of(always[i], i == 0 ? instance : "");
		if ((has & 1U << i) == 0)
			put_pair(w, RESOURCE_ATTRIBUTE, &p, false, false);
	}
	end_field(w, start);
}

size_t sp_process_context_encode(const struct sp_config *config, const char *instance, uint8_t *out,
				 size_t cap)
{
	const struct sp_text_pair schema = pair_of("threadlocal.schema_version", SCHEMA);
	const struct sp_text_pair map =
		pair_of("threadlocal.attribute_key_map", SP_PROCESS_CONTEXT_ROOT_NAME);
	/* No field is longer than the largest length of LENGTH_BYTES. */
	struct writer w = {.at = out, .end = out + (cap < LENGTH_MAX ? cap : LENGTH_MAX)};

	/* These come first, so that they always fit. */
	put_pair(&w, ATTRIBUTE, &schema, false, false);
	put_pair(&w, ATTRIBUTE, &map, false, true);
	put_resource(&w, config, instance);
	return (size_t)(w.at - out);
}

/* Pages that are not touched cost nothing; most messages need one. */
#define BYTES 16384U

/* linux/memfd.h, linux/random.h; headers may be older. */
#define NO_EXEC_SEAL 0x0008U
#define DO_NOT_WAIT 1U

static _Atomic bool others; /* the program has mapped a process context itself */

/*
 * Maps a memfd with the name SP_PROCESS_CONTEXT_NAME privately, because kernels without
 * CONFIG_ANON_VMA_NAME show no other name of a mapping. RLIMIT_FSIZE is checked first: a larger
 * file raises SIGXFSZ, which by default ends the process.
 */
static struct sp_process_context *map(void)
{
	struct rlimit limit;
	void *at = MAP_FAILED;
	long fd;

	if (sp_syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 ||
	    (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < BYTES))
		return NULL;
	fd = sp_syscall(SYS_memfd_create, SP_PROCESS_CONTEXT_NAME,
			MFD_CLOEXEC | MFD_ALLOW_SEALING | NO_EXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = sp_syscall(SYS_memfd_create, SP_PROCESS_CONTEXT_NAME,
				MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return NULL;
	if (sp_syscall(SYS_ftruncate, (int)fd, (long)BYTES) == 0)
		at = (void *)sp_syscall(SYS_mmap, NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE,
					(int)fd, 0);
	(void)sp_syscall(SYS_close, (int)fd);
	/* Readers would take a child with this mapping for its parent. */
	if (at != MAP_FAILED && sp_syscall(SYS_madvise, at, (long)BYTES, MADV_DONTFORK) != 0) {
		(void)sp_syscall(SYS_munmap, at, BYTES);
		at = MAP_FAILED;
	}
	return at != MAP_FAILED ? at : NULL;
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
	/* The time comes last: a reader that sees a time reads the other members. */
	atomic_store_explicit(&c->published_ns,
			      (uint64_t)now.tv_sec * SP_NS_PER_S + (uint64_t)now.tv_nsec + 1,
			      memory_order_release);
}

int sp_process_context_publish(const struct sp_config *config)
{
	struct sp_process_context *c;

	if (sp_seccomp_is_on())
		return -ENOSYS;
	if (atomic_load_explicit(&others, memory_order_relaxed))
		return -EEXIST;
	c = map();
	if (c == NULL)
		return -ENOMEM;
	fill(c, config);
	/* Also if the call fails: a profiler may wait for this very call. */
	(void)sp_syscall(SYS_prctl, SP_MEMORY_NAME_OPTION, SP_MEMORY_NAME_ANON, c, (long)BYTES,
			 SP_PROCESS_CONTEXT_NAME);
	atomic_store_explicit(&sp_process_context_own, c, memory_order_release);
	return 0;
}

void sp_process_context_made_by_program(void)
{
	atomic_store_explicit(&others, true, memory_order_relaxed);
}

static void withdraw(void)
{
	struct sp_process_context *c =
		atomic_exchange_explicit(&sp_process_context_own, NULL, memory_order_acq_rel);

	if (c == NULL)
		return;
	atomic_store_explicit(&c->published_ns, 0, memory_order_seq_cst);
	/* Below a seccomp filter the mapping stays, and its time says that it is not valid. */
	(void)sp_syscall(SYS_munmap, c, BYTES);
}

#define FLAG_SAMPLED 1U /* A span that is not sampled is not recorded, and never comes here. */

_Atomic bool sp_thread_context_on;
_Atomic uint32_t sp_thread_context_turn = 1;

static struct {
	const struct sp_config *config;
	_Atomic uint32_t is; /* enum sp_region_context */
	_Atomic bool begun;  /* a thread is publishing the process context, or has done so */
	_Atomic bool alone;  /* the search found no other process context, or failed */
	_Atomic uint32_t failures;
	_Atomic bool has_failed; /* and deferred work has not allowed another attempt yet */
} state;

/*
 * A program may lack a descriptor or memory for a moment, for example at a peak of load. So the
 * next calls of deferred work, a second apart, allow another attempt each.
 */
#define FAILURES_MAX 8U

static void set_state(enum sp_region_context now)
{
	atomic_store_explicit(&state.is, (uint32_t)now, memory_order_relaxed);
}

enum sp_region_context sp_thread_context_state(void)
{
	return (enum sp_region_context)atomic_load_explicit(&state.is, memory_order_relaxed);
}

enum sp_region_context sp_thread_context_publisher(void)
{
	enum sp_region_context is = sp_thread_context_state();

	return is != SP_CONTEXT_PUBLISHED &&
			       atomic_load_explicit(&sp_foreign_context_seen, memory_order_relaxed)
		       ? SP_CONTEXT_READ
		       : is;
}

/* Makes each thread check again, at the next change of its active span, whether it publishes. */
static void next_turn(void)
{
	if (atomic_fetch_add_explicit(&sp_thread_context_turn, 1, memory_order_relaxed) ==
	    UINT32_MAX)
		atomic_store_explicit(&sp_thread_context_turn, 1, memory_order_relaxed);
}

void sp_thread_context_init(const struct sp_config *config, bool is_programs)
{
	bool wanted = config->thread_context;

	state.config = config;
	set_state(!wanted ? SP_CONTEXT_OFF : is_programs ? SP_CONTEXT_FOREIGN : SP_CONTEXT_WAITING);
	atomic_store_explicit(&state.begun, false, memory_order_relaxed);
	atomic_store_explicit(&state.alone, false, memory_order_relaxed);
	atomic_store_explicit(&state.failures, 0, memory_order_relaxed);
	atomic_store_explicit(&state.has_failed, false, memory_order_relaxed);
	atomic_store_explicit(&sp_thread_context_on, wanted && !is_programs, memory_order_relaxed);
	sp_thread_labels_watch(SP_THREAD_LABELS_CONTEXT, wanted && !is_programs);
	if (wanted && is_programs)
		sp_log(SP_LOG_WARN,
		       "SPANPROF_THREAD_CONTEXT=true: the program defines " SP_CONTEXT_SYMBOL
		       " itself; not publishing");
}

/* Stops publishing: another library publishes, or the kernel refuses. */
static void give_up(enum sp_region_context why)
{
	bool published = sp_thread_context_state() == SP_CONTEXT_PUBLISHED;

	set_state(why);
	sp_log(SP_LOG_WARN, "SPANPROF_THREAD_CONTEXT=true: %s; not publishing",
	       why == SP_CONTEXT_FOREIGN ? "another library publishes its own"
					 : "the process context cannot be published");
	if (!published) {
		atomic_store_explicit(&sp_thread_context_on, false, memory_order_relaxed);
		return;
	}
	withdraw();
	next_turn();
}

/* Takes the thread's record out of its variable. */
static void hide(struct sp_thread_context *c)
{
	void *_Atomic *slot;

	if (c->shown == 0)
		return;
	slot = sp_context_slot();
	c->shown = 0;
	if (atomic_load_explicit(slot, memory_order_relaxed) == &c->record)
		atomic_store_explicit(slot, NULL, memory_order_relaxed);
}

/*
 * The first thread with a span publishes the process context. Another thread that comes meanwhile
 * does not wait; it shows its record at its next change.
 */
static bool begin(void)
{
	int err;

	if (sp_thread_context_state() == SP_CONTEXT_PUBLISHED)
		return true;
	if (sp_thread_context_state() != SP_CONTEXT_WAITING ||
	    atomic_exchange_explicit(&state.begun, true, memory_order_relaxed))
		return false;
	err = sp_process_context_publish(state.config);
	if (err == 0)
		set_state(SP_CONTEXT_PUBLISHED);
	else if (err == -ENOMEM &&
		 atomic_fetch_add_explicit(&state.failures, 1, memory_order_relaxed) <
			 FAILURES_MAX - 1)
		atomic_store_explicit(&state.has_failed, true, memory_order_relaxed);
	else
		give_up(err == -EEXIST ? SP_CONTEXT_FOREIGN : SP_CONTEXT_REFUSED);
	return err == 0;
}

/*
 * Searching all mappings takes longer than the rest of the first span, so it is done later. Until
 * then the process may have two contexts if the program makes one by raw system calls.
 */
void sp_thread_context_search(void)
{
	uintptr_t at = 0;

	if (atomic_exchange_explicit(&state.has_failed, false, memory_order_relaxed))
		atomic_store_explicit(&state.begun, false, memory_order_relaxed);
	if (sp_thread_context_state() != SP_CONTEXT_PUBLISHED ||
	    atomic_exchange_explicit(&state.alone, true, memory_order_relaxed))
		return;
	if (sp_process_context_find_other(&at))
		give_up(SP_CONTEXT_FOREIGN);
}

/* Stores the record in the thread's variable. False if this thread must not publish, or not yet. */
static bool show(struct sp_thread_context *c, uint32_t turn)
{
	struct sp_context_record *r = &c->record;
	void *_Atomic *slot = sp_context_slot();
	const void *has = atomic_load_explicit(slot, memory_order_relaxed);
	int saved = errno;
	bool ok = has == NULL || has == r;

	if (!ok && sp_thread_context_state() <= SP_CONTEXT_PUBLISHED)
		give_up(SP_CONTEXT_FOREIGN);
	ok = ok && begin();
	errno = saved;
	if (!ok) {
		hide(c);
		return false;
	}
	r->flags = FLAG_SAMPLED;
	r->attributes = sizeof(*r) - offsetof(struct sp_context_record, key);
	r->key = ROOT_KEY;
	r->len = sizeof(r->root_id);
	atomic_signal_fence(memory_order_release);
	atomic_store_explicit(slot, r, memory_order_relaxed);
	c->shown = turn;
	return true;
}

void sp_thread_context_write(struct sp_thread_context *c, const struct sp_span_stack *s)
{
	uint32_t turn = atomic_load_explicit(&sp_thread_context_turn, memory_order_relaxed);
	struct sp_span_record span;
	bool active = sp_span_stack_peek_span(s, &span) == SP_SPAN_KNOWN;
	struct sp_context_record *r = &c->record;
	char root_id[SP_TEXT_ID_SIZE];

	atomic_store_explicit(&r->valid, 0, memory_order_relaxed);
	if (c->shown != turn && (active || c->shown != 0) && !show(c, turn))
		return;
	if (!active)
		return;
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(r->trace_id, span.trace, sizeof(r->trace_id));
	memcpy(r->span_id, &span.span_id, sizeof(r->span_id));
	if (c->root_id != span.root_id) {
		c->root_id = span.root_id;
		sp_text_id(root_id, span.root_id);
		memcpy(r->root_id, root_id, sizeof(r->root_id));
	}
	atomic_signal_fence(memory_order_seq_cst);
	/*
	 * Another thread may be ending all publishing now (sp_thread_context_stop()), and the
	 * record would stay valid for ever. Either that thread invalidates this record after our
	 * store, or we see here that publishing has ended.
	 */
	atomic_store_explicit(&r->valid, 1, memory_order_seq_cst);
	if (!atomic_load_explicit(&sp_thread_context_on, memory_order_seq_cst))
		sp_thread_context_invalidate(c);
}

void sp_thread_context_ended(struct sp_thread_context *c)
{
	sp_thread_context_invalidate(c);
	hide(c);
}

void sp_thread_context_clean(struct sp_thread_context *c)
{
	sp_thread_context_invalidate(c);
	c->shown = 0;
}

void sp_thread_context_forked(struct sp_thread_context *c)
{
	atomic_store_explicit(&sp_process_context_own, NULL, memory_order_relaxed);
	if (c != NULL)
		sp_thread_context_ended(c);
	next_turn();
	atomic_store_explicit(&state.begun, false, memory_order_relaxed);
	atomic_store_explicit(&state.alone, false, memory_order_relaxed);
	atomic_store_explicit(&state.failures, 0, memory_order_relaxed);
	atomic_store_explicit(&state.has_failed, false, memory_order_relaxed);
	if (sp_thread_context_state() == SP_CONTEXT_PUBLISHED)
		set_state(SP_CONTEXT_WAITING);
}

bool sp_thread_context_stop(void)
{
	/* pairs with sp_thread_context_write(), like the store of sp_thread_context_invalidate() */
	if (!atomic_exchange_explicit(&sp_thread_context_on, false, memory_order_seq_cst))
		return false;
	if (sp_thread_context_state() <= SP_CONTEXT_PUBLISHED)
		set_state(SP_CONTEXT_OFF);
	withdraw();
	return true;
}

void sp_thread_context_invalidate(struct sp_thread_context *c)
{
	atomic_store_explicit(&c->record.valid, 0, memory_order_seq_cst);
}
