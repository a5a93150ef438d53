/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process context (process_context.h): finding that of somebody else, reading it, and making ours. Context: APP.
 *
 * Somebody else's is found in /proc/self/maps. It is memory of others, which may change or go while it is read. So
 * the kernel is asked first whether it can be read, it is copied, and each length in the copy is checked.
 *
 * Ours is made and removed step by step as OTEP 4719 orders, by raw system calls, as everything that the trial of
 * a seccomp filter has to know (preload/exporter/trial.c).
 *
 * The message in both is ProcessContext of opentelemetry-proto 1.11: Resource resource = 1, repeated KeyValue
 * attributes = 2.
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

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/base/readable_sig.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"
#include "sampler/config/config.h"

#define PIECE 2048U

/* The begin of the name, behind the five fields before it; NULL if there is none. */
static const char *name_of(const char *line, const char *end)
{
	for (unsigned field = 0; field < 5; field++) {
		line = memchr(line, ' ', (size_t)(end - line));
		if (line == NULL)
			return NULL;
		line++;
	}
	while (line < end && *line == ' ')
		line++;
	return line;
}

static bool begins(const char *name, const char *end, const char *with)
{
	size_t len = strlen(with);

	return (size_t)(end - name) >= len && memcmp(name, with, len) == 0;
}

bool sp_process_maps_line(const char *line, size_t len, uintptr_t *at)
{
	const char *end = line + len;
	const char *name = name_of(line, end);
	const char *rights = memchr(line, ' ', len);
	uint64_t start = 0;

	if (name == NULL || rights == NULL || end - rights < 5 || rights[3] == 'x')
		return false;
	if (!begins(name, end, "[anon_shmem:" SP_PROCESS_CONTEXT_NAME "]") &&
	    !begins(name, end, "[anon:" SP_PROCESS_CONTEXT_NAME "]") &&
	    !begins(name, end, "/memfd:" SP_PROCESS_CONTEXT_NAME))
		return false;
	if (!sp_text_number(&line, 16, &start))
		return false;
	*at = (uintptr_t)start;
	return true;
}

/* Looks at all whole lines of text, and returns how many bytes they have. */
static size_t look_at(const char *text, size_t have, uintptr_t except, uintptr_t *at)
{
	size_t done = 0;
	const char *newline;

	while (*at == 0 && (newline = memchr(text + done, '\n', have - done)) != NULL) {
		(void)sp_process_maps_line(text + done, (size_t)(newline - text) - done, at);
		if (*at == except)
			*at = 0;
		done = (size_t)(newline - text) + 1;
	}
	return done;
}

static int find_line(int fd, uintptr_t except, uintptr_t *at)
{
	char text[PIECE];
	size_t have = 0;
	size_t total = 0;
	long got = 1;

	while (*at == 0 && total < SP_PROCESS_MAPS_MAX) {
		size_t done;

		got = sp_syscall(SYS_read, fd, text + have, sizeof(text) - have);
		if (got <= 0)
			break;
		total += (size_t)got;
		have += (size_t)got;
		done = look_at(text, have, except, at);
		have -= done;
		memmove(text, text + done, have);
		/* a line that is longer has the name of a file */
		if (have == sizeof(text))
			have = 0;
	}
	if (got < 0)
		return -errno;
	return *at == 0 && got > 0 ? -E2BIG : 0;
}

int sp_process_maps_find(uintptr_t except, uintptr_t *at)
{
	int fd = (int)sp_syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
	int err;

	*at = 0;
	if (fd < 0)
		return -errno;
	err = find_line(fd, except, at);
	(void)sp_syscall(SYS_close, fd);
	return err;
}

#define PAYLOAD_MAX 65536U
#define PAGE 4096U
#define WORD 8U

/* What is left of a message. */
struct reader {
	const uint8_t *at;
	const uint8_t *end;
};

static bool varint(struct reader *r, uint64_t *out)
{
	*out = 0;
	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint8_t byte = *r->at++;

		*out |= (uint64_t)(byte & 0x7fU) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* Bytes of a value without a length of its own; by wire type. */
static bool skip_value(struct reader *r, unsigned type)
{
	uint64_t unused;
	size_t bytes = type == 1 ? 8 : 4;

	if (type == 0)
		return varint(r, &unused);
	if ((type != 1 && type != 5) || (size_t)(r->end - r->at) < bytes)
		return false;
	r->at += bytes;
	return true;
}

/* The next field with a length: its number and its bytes. False at the end, or of what is broken. */
static bool next_field(struct reader *r, uint64_t *number, struct reader *value)
{
	uint64_t key;
	uint64_t len;

	while (varint(r, &key)) {
		*number = key >> 3;
		if ((key & 7) != 2) {
			if (!skip_value(r, key & 7))
				return false;
			continue;
		}
		if (!varint(r, &len) || len > (uint64_t)(r->end - r->at))
			return false;
		*value = (struct reader){r->at, r->at + len};
		r->at += len;
		return true;
	}
	return false;
}

/* The first field of that number. */
static bool find_field(struct reader r, uint64_t wanted, struct reader *value)
{
	uint64_t number;

	while (next_field(&r, &number, value))
		if (number == wanted)
			return true;
	return false;
}

static bool is_text(const struct reader *r, const char *text)
{
	return (size_t)(r->end - r->at) == strlen(text) && memcmp(r->at, text, strlen(text)) == 0;
}

/* The place of a name for the local root in an AnyValue with an ArrayValue of strings. */
static int place_in(struct reader any)
{
	struct reader array;
	struct reader element;
	struct reader name;
	uint64_t number;
	int place = -1;

	if (!find_field(any, 5, &array))
		return -1;
	for (int i = 0; i < 256 && next_field(&array, &number, &element); i++) {
		if (number == 1 && find_field(element, 1, &name) &&
		    (is_text(&name, SP_PROCESS_CONTEXT_ROOT_NAME) ||
		     is_text(&name, "datadog.local_root_span_id")))
			place = i;
	}
	return place;
}

static bool is_clean(const struct reader *text)
{
	const char *from = (const char *)text->at;
	size_t len = (size_t)(text->end - text->at);

	return !sp_text_has_control(from, len) && sp_text_valid(from, len);
}

/* Of a Resource: the attribute's text. */
static void copy_service(struct reader resource, char out[SP_PROCESS_CONTEXT_SERVICE_MAX])
{
	struct reader pair;
	struct reader key;
	struct reader any;
	struct reader text;
	uint64_t number;
	size_t len;

	while (next_field(&resource, &number, &pair)) {
		if (number != 1 || !find_field(pair, 1, &key) || !is_text(&key, "service.name") ||
		    !find_field(pair, 2, &any) || !find_field(any, 1, &text))
			continue;
		len = (size_t)(text.end - text.at);
		if (len >= SP_PROCESS_CONTEXT_SERVICE_MAX || !is_clean(&text))
			continue;
		memcpy(out, text.at, len);
		out[len] = '\0';
	}
}

void sp_process_context_find_threads(const uint8_t *message, size_t bytes,
				     struct sp_process_context_threads *out)
{
	struct reader r = {message, message + bytes};
	struct reader pair;
	struct reader key;
	struct reader any;
	uint64_t number;

	*out = (struct sp_process_context_threads){.published = false, .root_key = -1};
	while (next_field(&r, &number, &pair)) {
		if (number == 1)
			copy_service(pair, out->service);
		if (number != 2 || !find_field(pair, 1, &key))
			continue;
		if (is_text(&key, "threadlocal.schema_version"))
			out->published = true;
		if (!is_text(&key, "threadlocal.attribute_key_map") || !find_field(pair, 2, &any))
			continue;
		out->published = true;
		out->root_key = place_in(any);
	}
}

static bool may_read(uintptr_t at, size_t bytes)
{
	for (uintptr_t page = at; page < at + bytes; page += PAGE)
		if (!sp_readable(page))
			return false;
	return bytes >= WORD && sp_readable(at + bytes - WORD);
}

/* Of somebody else, so sanitizers know nothing of it. */
SP_RAW static void copy_memory(void *to, uintptr_t at, size_t bytes)
{
	const volatile uint8_t *from = (const volatile uint8_t *)at;

	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = from[i];
}

static void read_message(const struct sp_process_context *c, struct sp_process_context_threads *out)
{
	size_t bytes = c->payload_bytes;
	uint8_t *message;

	if (c->version != SP_PROCESS_CONTEXT_VERSION || bytes == 0 || bytes > PAYLOAD_MAX ||
	    atomic_load_explicit(&c->published_ns, memory_order_relaxed) == 0 ||
	    !may_read((uintptr_t)c->payload, bytes))
		return;
	message = sp_arena_map(PAYLOAD_MAX);
	if (message == NULL)
		return;
	copy_memory(message, (uintptr_t)c->payload, bytes);
	sp_process_context_find_threads(message, bytes, out);
	sp_arena_unmap(message, PAYLOAD_MAX);
}

static bool read_header(uintptr_t at, struct sp_process_context *header)
{
	if (!may_read(at, sizeof(*header)))
		return false;
	copy_memory(header, at, sizeof(*header));
	return memcmp(header->signature, SP_PROCESS_CONTEXT_NAME, sizeof(header->signature)) == 0;
}

bool sp_process_context_is_at(uintptr_t at)
{
	struct sp_process_context header;

	return read_header(at, &header);
}

void sp_process_context_read(uintptr_t at, struct sp_process_context_threads *out)
{
	struct sp_process_context header;

	*out = (struct sp_process_context_threads){.published = false, .root_key = -1};
	if (read_header(at, &header))
		read_message(&header, out);
}

int sp_process_context_root_key(void)
{
	struct sp_process_context_threads threads;
	uintptr_t at = 0;

	if (!sp_process_context_find_other(&at))
		return -1;
	sp_process_context_read(at, &threads);
	return threads.root_key;
}

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

/* Begins a field with a length. Returns where it begins, for end_field(). */
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

static void end_field(struct writer *w, uint8_t *start)
{
	size_t len;

	if (w->full)
		return;
	len = (size_t)(w->at - start) - 1 - LENGTH_BYTES;
	if (len > LENGTH_MAX) {
		w->full = true;
		return;
	}
	start[1] = (uint8_t)(len | 0x80U);
	start[2] = (uint8_t)(len >> 7);
}

static void put_bytes(struct writer *w, unsigned number, const char *text, size_t len)
{
	uint8_t *start = begin_field(w, number);

	if (w->full || (size_t)(w->end - w->at) < len) {
		w->full = true;
		return;
	}
	memcpy(w->at, text, len);
	w->at += len;
	end_field(w, start);
}

/* A KeyValue with a text. What does not fit is left out, whole. */
static void put_attribute(struct writer *w, unsigned number, const char *key, size_t key_len,
			  const char *value, size_t len)
{
	uint8_t *start = begin_field(w, number);
	uint8_t *any;

	put_bytes(w, KEY, key, key_len);
	any = begin_field(w, VALUE);
	put_bytes(w, STRING_VALUE, value, len);
	end_field(w, any);
	end_field(w, start);
	if (w->full) {
		w->at = start;
		w->full = false;
	}
}

static void put_text(struct writer *w, unsigned number, const char *key, const char *value)
{
	if (value == NULL)
		value = "";
	put_attribute(w, number, key, strlen(key), value, strlen(value));
}

/* The list has one name. */
static void put_key_map(struct writer *w)
{
	static const char key[] = "threadlocal.attribute_key_map";
	uint8_t *start = begin_field(w, ATTRIBUTE);
	uint8_t *any;
	uint8_t *array;
	uint8_t *element;

	put_bytes(w, KEY, key, sizeof(key) - 1);
	any = begin_field(w, VALUE);
	array = begin_field(w, ARRAY_VALUE);
	element = begin_field(w, ARRAY_VALUES);
	put_bytes(w, STRING_VALUE, SP_PROCESS_CONTEXT_ROOT_NAME,
		  sizeof(SP_PROCESS_CONTEXT_ROOT_NAME) - 1);
	end_field(w, element);
	end_field(w, array);
	end_field(w, any);
	end_field(w, start);
}

/* In place; the text is known to be right (config_parse.c). Returns the new length. */
static size_t decode(char *s, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++, n++) {
		s[n] = s[i];
		if (s[i] == '%' && i + 2 < len) {
			s[n] = (char)(sp_text_digit(s[i + 1]) << 4 | sp_text_digit(s[i + 2]));
			i += 2;
		}
	}
	return n;
}

/* The keys that every reader of today wants to find, if need be with an empty value. */
static const char *const always[] = {
	"service.version",    "service.instance.id",    "deployment.environment.name",
	"telemetry.sdk.name", "telemetry.sdk.language", "telemetry.sdk.version",
};
#define ALWAYS (sizeof(always) / sizeof(always[0]))

static bool is_word(const char *key, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(key, word, len) == 0;
}

#define ATTRIBUTE_MAX 1024U /* longer keys and values are left out */

/*
 * OTEL_RESOURCE_ATTRIBUTES but for service.name, which other variables may override. Returns which
 * of always[] it has.
 */
static uint32_t put_environment(struct writer *w, const char *list)
{
	char key[ATTRIBUTE_MAX];
	char value[ATTRIBUTE_MAX];
	struct sp_text_pair p;
	uint32_t has = 0;

	while (list != NULL && sp_text_next_pair(&list, &p)) {
		size_t key_len = p.key_len;
		size_t len = p.value_len;

		if (key_len > sizeof(key) || len > sizeof(value) || p.value == NULL)
			continue;
		memcpy(key, p.key, key_len);
		memcpy(value, p.value, len);
		key_len = decode(key, key_len);
		len = decode(value, len);
		if (is_word(key, key_len, "service.name"))
			continue;
		put_attribute(w, RESOURCE_ATTRIBUTE, key, key_len, value, len);
		for (unsigned i = 0; i < ALWAYS; i++)
			has |= is_word(key, key_len, always[i]) ? 1U << i : 0;
	}
	return has;
}

static void put_resource(struct writer *w, const struct sp_config *config, const char *instance)
{
	uint8_t *start = begin_field(w, RESOURCE);
	uint32_t has;

	put_text(w, RESOURCE_ATTRIBUTE, "service.name", config->service_name);
	has = put_environment(w, config->resource_attributes);
	for (unsigned i = 0; i < ALWAYS; i++) {
		if ((has & 1U << i) != 0)
			continue;
		put_text(w, RESOURCE_ATTRIBUTE, always[i],
			 strcmp(always[i], "service.instance.id") == 0 ? instance : "");
	}
	end_field(w, start);
}

size_t sp_process_context_encode(const struct sp_config *config, const char *instance, uint8_t *out,
				 size_t cap)
{
	struct writer w = {.at = out, .end = out + cap};

	/* first, so that they always fit */
	put_text(&w, ATTRIBUTE, "threadlocal.schema_version", SP_PROCESS_CONTEXT_SCHEMA);
	put_key_map(&w);
	put_resource(&w, config, instance);
	return (size_t)(w.at - out);
}

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
