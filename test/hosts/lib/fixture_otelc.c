/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the C SDK with the same exported names: no exporter, no threads, no C++, but an
 * exact memory of what it was asked. Hosts that only need spans link with it, and so does the test
 * that compares every call with and without the preloaded object. Steered by the environment:
 *
 *   FIXTURE_CALLS=file   one line per call with its arguments; handles are numbered, so that two
 *                        runs can be compared
 *   FIXTURE_SPANS=file   one JSON line per ended span: name, trace_id, span_id, pid, attributes
 *   FIXTURE_SEED=n       ids from n alone; otherwise from the process id, so that a forked child's
 *                        spans have ids of their own
 *   FIXTURE_ERRNO=n      every call leaves errno at n; otherwise as it was
 *   FIXTURE_UNSAMPLED=1  spans carry the flags of an unsampled one
 *
 * A span named "(none)" is refused: start returns NULL, as an SDK out of memory would.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/common/fixture.h"
#include "test/sdk/opentelemetry_c.h"

/* Written before each call, where several copies of this are in one process. */
#ifndef FIXTURE_COPY
#define FIXTURE_COPY ""
#endif

#define ATTRIBUTES_MAX 8
#define TEXT_MAX 512

struct attribute {
	char key[64];
	char value[TEXT_MAX];
};

struct attribute_map {
	unsigned number;
	int used;
	/* As the original: the value is read when the map is applied, not when it is set. */
	const char *key[ATTRIBUTES_MAX];
	const char *value[ATTRIBUTES_MAX];
};

struct span {
	unsigned number;
	struct span *previous;
	char name[TEXT_MAX];
	char trace_id[33];
	char span_id[17];
	int used;
	struct attribute attribute[ATTRIBUTES_MAX];
};

static _Atomic unsigned spans;
static _Atomic unsigned maps;
static int the_tracer;
static __thread struct span *current;

__attribute__((format(printf, 1, 2))) static void record(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fixture_record(FIXTURE_COPY, format, args, "");
	va_end(args);
}

/* What a call leaves in errno: what the test asked for, else what the host had. */
static int errno_after(void)
{
	return fixture_errno_after(false);
}

static const char *shown(const char *text)
{
	return text != NULL ? text : "(null)";
}

static uint64_t id_of(unsigned number, uint64_t kind)
{
	const char *seed = getenv("FIXTURE_SEED");
	uint64_t base = seed != NULL ? (uint64_t)atoi(seed) : (uint64_t)getpid();
	uint64_t id = fixture_scrambled(base << 34 ^ (uint64_t)number << 2 ^ kind);

	return id != 0 ? id : 1;
}

__attribute__((visibility("default"))) void
otelc_init_tracer_provider(const char *service_name, const char *service_version,
			   const char *service_namespace, const char *service_instance_id)
{
	int after = errno_after();

	record("init %s %s %s %s\n", shown(service_name), shown(service_version),
	       shown(service_namespace), shown(service_instance_id));
	errno = after;
}

__attribute__((visibility("default"))) void otelc_destroy_tracer_provider(void)
{
}

__attribute__((visibility("default"))) void *otelc_get_tracer(void)
{
	return &the_tracer;
}

__attribute__((visibility("default"))) void otelc_destroy_tracer(void *tracer)
{
	(void)tracer;
}

static void set_trace(struct span *s, const char *remote_context)
{
	const char *remote = remote_context != NULL ? strstr(remote_context, "00-") : NULL;

	if (remote != NULL && strlen(remote) >= 55)
		memcpy(s->trace_id, remote + 3, 32);
	else if (s->previous != NULL)
		memcpy(s->trace_id, s->previous->trace_id, 32);
	else
		snprintf(s->trace_id, sizeof(s->trace_id), "%016" PRIx64 "%016" PRIx64,
			 id_of(s->number, 1), id_of(s->number, 2));
}

__attribute__((visibility("default"))) void *otelc_start_span(void *tracer, const char *span_name,
							      otelc_span_kind_t span_kind,
							      const char *remote_context)
{
	int after = errno_after();
	struct span *s = NULL;

	if (span_name == NULL || strcmp(span_name, "(none)") != 0)
		s = calloc(1, sizeof(*s));
	if (s != NULL) {
		s->number = atomic_fetch_add(&spans, 1) + 1;
		s->previous = current;
		current = s;
		snprintf(s->name, sizeof(s->name), "%s", shown(span_name));
		snprintf(s->span_id, sizeof(s->span_id), "%016" PRIx64, id_of(s->number, 3));
		set_trace(s, remote_context);
	}
	record("start %s %.400s %d %s -> %u\n", tracer == &the_tracer ? "tracer" : "foreign",
	       shown(span_name), (int)span_kind, shown(remote_context), s != NULL ? s->number : 0U);
	errno = after;
	return s;
}

__attribute__((visibility("default"))) char *otelc_extract_context_from_current_span(void *span)
{
	int after = errno_after();
	const struct span *s = span;
	char *text = NULL;

	if (asprintf(&text, "1 11 traceparent 55 00-%s-%s-%s", s->trace_id, s->span_id,
		     getenv("FIXTURE_UNSAMPLED") != NULL ? "00" : "01") < 0)
		abort();
	record("extract %u\n", s->number);
	errno = after;
	return text;
}

__attribute__((visibility("default"))) void *otelc_create_attr_map(void)
{
	int after = errno_after();
	struct attribute_map *m = calloc(1, sizeof(*m));

	if (m == NULL)
		abort();
	m->number = atomic_fetch_add(&maps, 1) + 1;
	record("create_map -> %u\n", m->number);
	errno = after;
	return m;
}

__attribute__((visibility("default"))) void otelc_set_str_attr(void *attr_map, const char *key,
							       const char *value)
{
	int after = errno_after();
	struct attribute_map *m = attr_map;

	if (m->used == ATTRIBUTES_MAX)
		abort();
	m->key[m->used] = key;
	m->value[m->used] = value;
	m->used++;
	record("set_str %u %s\n", m->number, key);
	errno = after;
}

#define NUMBER_SETTER(function, type)                                                              \
	__attribute__((visibility("default"))) void function(void *attr_map, const char *key,      \
							     type value)                           \
	{                                                                                          \
		int after = errno_after();                                                         \
                                                                                                   \
		record(#function " %u %s %.6g\n", ((struct attribute_map *)attr_map)->number, key, \
		       (double)value);                                                             \
		errno = after;                                                                     \
	}

NUMBER_SETTER(otelc_set_bool_attr, int)
NUMBER_SETTER(otelc_set_int32_t_attr, int32_t)
NUMBER_SETTER(otelc_set_int64_t_attr, int64_t)
NUMBER_SETTER(otelc_set_uint64_t_attr, uint64_t)
NUMBER_SETTER(otelc_set_double_attr, double)

__attribute__((visibility("default"))) void otelc_destroy_attr_map(void *attr_map)
{
	int after = errno_after();

	record("destroy_map %u\n", ((struct attribute_map *)attr_map)->number);
	free(attr_map);
	errno = after;
}

__attribute__((visibility("default"))) void
otelc_set_span_status(void *span, otelc_span_status_code_t code, const char *description)
{
	int after = errno_after();

	record("status %u %d %s\n", ((struct span *)span)->number, (int)code, shown(description));
	errno = after;
}

__attribute__((visibility("default"))) void otelc_set_span_attrs(void *span, void *attr_map)
{
	int after = errno_after();
	struct span *s = span;
	struct attribute_map *m = attr_map;

	for (int i = 0; i < m->used && s->used < ATTRIBUTES_MAX; i++, s->used++) {
		struct attribute *a = &s->attribute[s->used];

		snprintf(a->key, sizeof(a->key), "%s", m->key[i]);
		snprintf(a->value, sizeof(a->value), "%s", m->value[i]);
	}
	record("apply %u %u\n", s->number, m->number);
	errno = after;
}

__attribute__((visibility("default"))) void otelc_add_span_event(void *span, const char *event_name,
								 void *attr_map)
{
	int after = errno_after();

	record("event %u %s %s\n", ((struct span *)span)->number, shown(event_name),
	       attr_map != NULL ? "map" : "(null)");
	errno = after;
}

/* Names and values in tests hold nothing that JSON would have to escape. */
static void write_span(const struct span *s)
{
	char line[8 * TEXT_MAX];
	int len;

	/* A host may have forbidden itself the system call below. */
	if (getenv("FIXTURE_SPANS") == NULL)
		return;
	len = snprintf(line, sizeof(line),
		       "{\"name\":\"%s\",\"trace_id\":\"%s\",\"span_id\":\"%s\",\"pid\":%d,"
		       "\"attributes\":{",
		       s->name, s->trace_id, s->span_id, (int)getpid());

	for (int i = 0; i < s->used; i++)
		len += snprintf(line + len, sizeof(line) - (size_t)len, "%s\"%s\":\"%s\"",
				i > 0 ? "," : "", s->attribute[i].key, s->attribute[i].value);
	len += snprintf(line + len, sizeof(line) - (size_t)len, "}}\n");
	fixture_append("FIXTURE_SPANS", line, (size_t)len);
}

__attribute__((visibility("default"))) void otelc_end_span(void *span)
{
	int after = errno_after();
	struct span *s = span;

	record("end %u\n", s != NULL ? s->number : 0U);
	if (s != NULL) {
		write_span(s);
		if (current == s)
			current = s->previous;
		free(s);
	}
	errno = after;
}
