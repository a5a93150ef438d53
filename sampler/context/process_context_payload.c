/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Encodes the message ProcessContext of opentelemetry-proto 1.11 (process_context.h):
 * Resource resource = 1, repeated KeyValue attributes = 2. Context: APP; no state.
 *
 * A length is written before what it counts. Lengths are written with two bytes, also where one
 * would do, so that the bytes behind it need not be moved.
 */
#include <stdbool.h>
#include <string.h>

#include "sampler/base/text.h"
#include "sampler/config/config.h"
#include "sampler/context/process_context.h"

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

/* Begins a field with a length. Returns where it begins, for end(). */
static uint8_t *begin(struct writer *w, unsigned number)
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

static void end(struct writer *w, uint8_t *start)
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

static void bytes(struct writer *w, unsigned number, const char *text, size_t len)
{
	uint8_t *start = begin(w, number);

	if (w->full || (size_t)(w->end - w->at) < len) {
		w->full = true;
		return;
	}
	memcpy(w->at, text, len);
	w->at += len;
	end(w, start);
}

/* A KeyValue with a text. What does not fit is left out, whole. */
static void attribute(struct writer *w, unsigned number, const char *key, size_t key_len,
		      const char *value, size_t len)
{
	uint8_t *start = begin(w, number);
	uint8_t *any;

	bytes(w, KEY, key, key_len);
	any = begin(w, VALUE);
	bytes(w, STRING_VALUE, value, len);
	end(w, any);
	end(w, start);
	if (w->full) {
		w->at = start;
		w->full = false;
	}
}

static void text(struct writer *w, unsigned number, const char *key, const char *value)
{
	if (value == NULL)
		value = "";
	attribute(w, number, key, strlen(key), value, strlen(value));
}

/* The list has one name. */
static void key_map(struct writer *w)
{
	static const char key[] = "threadlocal.attribute_key_map";
	uint8_t *start = begin(w, ATTRIBUTE);
	uint8_t *any;
	uint8_t *array;
	uint8_t *element;

	bytes(w, KEY, key, sizeof(key) - 1);
	any = begin(w, VALUE);
	array = begin(w, ARRAY_VALUE);
	element = begin(w, ARRAY_VALUES);
	bytes(w, STRING_VALUE, SP_PROCESS_CONTEXT_ROOT_NAME,
	      sizeof(SP_PROCESS_CONTEXT_ROOT_NAME) - 1);
	end(w, element);
	end(w, array);
	end(w, any);
	end(w, start);
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

static bool is(const char *key, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(key, word, len) == 0;
}

#define TEXT_MAX 1024U /* longer keys and values are left out */

/*
 * OTEL_RESOURCE_ATTRIBUTES but for service.name, which other variables may override. Returns which
 * of always[] it has.
 */
static uint32_t of_environment(struct writer *w, const char *list)
{
	char key[TEXT_MAX];
	char value[TEXT_MAX];
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
		if (is(key, key_len, "service.name"))
			continue;
		attribute(w, RESOURCE_ATTRIBUTE, key, key_len, value, len);
		for (unsigned i = 0; i < ALWAYS; i++)
			has |= is(key, key_len, always[i]) ? 1U << i : 0;
	}
	return has;
}

static void resource(struct writer *w, const struct sp_config *config, const char *instance)
{
	uint8_t *start = begin(w, RESOURCE);
	uint32_t has;

	text(w, RESOURCE_ATTRIBUTE, "service.name", config->service_name);
	has = of_environment(w, config->resource_attributes);
	for (unsigned i = 0; i < ALWAYS; i++) {
		if ((has & 1U << i) != 0)
			continue;
		text(w, RESOURCE_ATTRIBUTE, always[i],
		     strcmp(always[i], "service.instance.id") == 0 ? instance : "");
	}
	end(w, start);
}

size_t sp_process_context_encode(const struct sp_config *config, const char *instance, uint8_t *out,
				 size_t cap)
{
	struct writer w = {.at = out, .end = out + cap};

	/* first, so that they always fit */
	text(&w, ATTRIBUTE, "threadlocal.schema_version", SP_PROCESS_CONTEXT_SCHEMA);
	key_map(&w);
	resource(&w, config, instance);
	return (size_t)(w.at - out);
}
