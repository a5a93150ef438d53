/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads which attribute of another publisher's records holds the local root's id, from the message
 * of its process context (process_context.h). Context: APP.
 *
 * The message is memory of others, which may change or go while it is read. So the kernel is asked
 * first whether it can be read, it is copied, and each length in the copy is checked.
 */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/base/readable_sig.h"
#include "sampler/base/text.h"
#include "sampler/context/process_context.h"

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
static bool skip(struct reader *r, unsigned type)
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
static bool next(struct reader *r, uint64_t *number, struct reader *value)
{
	uint64_t key;
	uint64_t len;

	while (varint(r, &key)) {
		*number = key >> 3;
		if ((key & 7) != 2) {
			if (!skip(r, key & 7))
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
static bool find(struct reader r, uint64_t wanted, struct reader *value)
{
	uint64_t number;

	while (next(&r, &number, value))
		if (number == wanted)
			return true;
	return false;
}

static bool is(const struct reader *r, const char *text)
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

	if (!find(any, 5, &array))
		return -1;
	for (int i = 0; i < 256 && next(&array, &number, &element); i++) {
		if (number == 1 && find(element, 1, &name) &&
		    (is(&name, SP_PROCESS_CONTEXT_ROOT_NAME) ||
		     is(&name, "datadog.local_root_span_id")))
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

	while (next(&resource, &number, &pair)) {
		if (number != 1 || !find(pair, 1, &key) || !is(&key, "service.name") ||
		    !find(pair, 2, &any) || !find(any, 1, &text))
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
	while (next(&r, &number, &pair)) {
		if (number == 1)
			copy_service(pair, out->service);
		if (number != 2 || !find(pair, 1, &key))
			continue;
		if (is(&key, "threadlocal.schema_version"))
			out->published = true;
		if (!is(&key, "threadlocal.attribute_key_map") || !find(pair, 2, &any))
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
SP_RAW static void copy(void *to, uintptr_t at, size_t bytes)
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
	copy(message, (uintptr_t)c->payload, bytes);
	sp_process_context_find_threads(message, bytes, out);
	sp_arena_unmap(message, PAYLOAD_MAX);
}

static bool read_header(uintptr_t at, struct sp_process_context *header)
{
	if (!may_read(at, sizeof(*header)))
		return false;
	copy(header, at, sizeof(*header));
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
