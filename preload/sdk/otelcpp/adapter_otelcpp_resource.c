/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the attributes of opentelemetry-cpp's resource (adapter_otelcpp_resource.h). APP context. */
#include "preload/sdk/otelcpp/adapter_otelcpp_resource.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "preload/lifecycle/sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_proof.h"
#include "sampler/base/readable_sig.h"
#include "sampler/base/text.h"
#include "sampler/base/try_lock.h"

/* No resource has so many attributes. */
#define ATTRIBUTES_MAX 128U
/* No text that we use is so long, and none at all: a command line may be among the attributes. */
#define TEXT_MAX 1024U
#define LONG_TEXT_MAX (4U << 20)

struct text {
	const char *at; /* NULL if it is longer than any that we use */
	size_t len;
};

struct attribute {
	struct text key;
	struct text value; /* at is NULL also if it is no string */
};

/* What becomes of them: pairs, percent-encoded, separated by commas. */
struct output {
	size_t used;
	bool full;
	char text[SP_SDK_ATTRIBUTES_MAX];
};

static struct output output;
static struct sp_try_lock busy;

static bool readable_text(const char *at, size_t len)
{
	const uintptr_t word = sizeof(uintptr_t);
	uintptr_t first = (uintptr_t)at & ~(word - 1);
	uintptr_t last = ((uintptr_t)at + len) & ~(word - 1);

	return at != NULL && len <= LONG_TEXT_MAX && sp_readable(first) && sp_readable(last);
}

/* With the NUL behind it. */
static bool string_at(const void *string, struct text *out)
{
	out->at = sp_otelcpp_member(string, 0);
	out->len = (size_t)sp_otelcpp_member(string, SP_OTELCPP_STRING_LENGTH);
	if (!readable_text(out->at, out->len) || out->at[out->len] != '\0')
		return false;
	if (out->len > TEXT_MAX)
		out->at = NULL;
	return true;
}

static bool is_text(struct text t, const char *text)
{
	return t.len == strlen(text) && memcmp(t.at, text, t.len) == 0;
}

static bool attribute_at(const void *node, struct attribute *out)
{
	out->value = (struct text){NULL, 0};
	if (!sp_otelcpp_readable(node) ||
	    !sp_otelcpp_readable(sp_otelcpp_at(node, SP_OTELCPP_OWNED_INDEX)) ||
	    !string_at(sp_otelcpp_at(node, SP_OTELCPP_OWNED_KEY), &out->key) || out->key.at == NULL)
		return false;
	return sp_otelcpp_byte(node, SP_OTELCPP_OWNED_INDEX) != SP_OTELCPP_OWNED_IS_STRING ||
	       string_at(sp_otelcpp_at(node, SP_OTELCPP_OWNED_VALUE), &out->value);
}

/* What is used of a resource by itself; empty where it has no such attribute. */
struct known {
	struct text service;
	struct text release;
	bool is_cpp; /* it has the attribute that every SDK sets */
};

/* All of its attributes are where they should be. */
static bool is_understood(const void *context, struct known *out)
{
	const void *node = sp_otelcpp_member(context, SP_OTELCPP_RESOURCE_FIRST);
	uintptr_t count = (uintptr_t)sp_otelcpp_member(context, SP_OTELCPP_RESOURCE_COUNT);
	struct attribute a;

	*out = (struct known){{"", 0}, {"", 0}, false};
	if (count > ATTRIBUTES_MAX)
		return false;
	for (uintptr_t i = 0; i < count; i++, node = sp_otelcpp_member(node, 0)) {
		if (!attribute_at(node, &a))
			return false;
		if (a.value.at == NULL)
			continue;
		if (is_text(a.key, "telemetry.sdk.language"))
			out->is_cpp = is_text(a.value, "cpp");
		else if (is_text(a.key, "service.name"))
			out->service = a.value;
		else if (is_text(a.key, "telemetry.sdk.version"))
			out->release = a.value;
	}
	return node == NULL;
}

static void put_byte(char c)
{
	if (output.used + 1 < sizeof(output.text))
		output.text[output.used++] = c;
	else
		output.full = true;
}

static void put(struct text t)
{
	char encoded[3];

	for (size_t i = 0; i < t.len; i++) {
		size_t n = sp_text_percent(encoded, t.at[i]);

		for (size_t k = 0; k < n; k++)
			put_byte(encoded[k]);
	}
}

static bool is_clean(struct text t)
{
	return t.len != 0 && !sp_text_has_control(t.at, t.len) && sp_text_valid(t.at, t.len);
}

/* One for which there is no room is left out. */
static void put_attribute(const struct attribute *a)
{
	size_t before = output.used;

	if (a->value.at == NULL || !is_clean(a->key) || !is_clean(a->value))
		return;
	output.full = false;
	if (before != 0)
		put_byte(',');
	put(a->key);
	put_byte('=');
	put(a->value);
	if (output.full)
		output.used = before;
}

static bool is_made_up(const struct attribute *a)
{
	return is_text(a->key, "service.name") && a->value.at != NULL &&
	       sp_sdk_service_is_made_up(a->value.at, a->value.len);
}

/* First those that are always used, as there may not be room for all. */
static void put_all(const void *context, bool of_service)
{
	const void *node = sp_otelcpp_member(context, SP_OTELCPP_RESOURCE_FIRST);
	struct attribute a;

	for (; node != NULL && attribute_at(node, &a); node = sp_otelcpp_member(node, 0)) {
		bool is_service =
			is_text(a.key, "service.name") || is_text(a.key, "service.namespace");

		if (is_service == of_service && !is_made_up(&a))
			put_attribute(&a);
	}
}

static void copy_clean(struct text t, char *out, size_t cap)
{
	if (t.len >= cap || !is_clean(t))
		return;
	memcpy(out, t.at, t.len);
	out[t.len] = '\0';
}

static void hand_on(const void *context, struct text service)
{
	const struct attribute a = {.key = {"service.name", 12}, .value = service};
	char name[SP_SDK_SERVICE_MAX] = "";

	output.used = 0;
	put_all(context, true);
	put_all(context, false);
	output.text[output.used] = '\0';
	if (!is_made_up(&a))
		copy_clean(service, name, sizeof(name));
	sp_sdk_resource(name, output.text);
}

/* By the name in the typeinfo before its vtable. */
static bool is_of_type(const void *object, const char *type)
{
	const void *vptr;
	const void *info;
	const char *name;
	size_t size = strlen(type) + 1;

	if (!sp_otelcpp_readable(object))
		return false;
	vptr = sp_otelcpp_member(object, 0);
	if ((uintptr_t)vptr < sizeof(void *) ||
	    !sp_otelcpp_readable((const void *)((uintptr_t)vptr - sizeof(void *))))
		return false;
	info = (const void *)sp_otelcpp_member((const void *)((uintptr_t)vptr - sizeof(void *)), 0);
	if (info == NULL || !sp_otelcpp_readable(sp_otelcpp_at(info, sizeof(void *))))
		return false;
	name = sp_otelcpp_member(info, sizeof(void *));
	return readable_text(name, size) && memcmp(name, type, size) == 0;
}

/* The tracer's context. */
static const void *find(const struct sp_otelcpp *sdk, const void *tracer)
{
	for (unsigned long i = 1; i < SP_OTELCPP_TRACER_WORDS; i++) {
		const void *context = sp_otelcpp_member(tracer, i * sizeof(void *));

		if (is_of_type(context, sdk->names->tracer_context_type))
			return context;
	}
	return NULL;
}

void sp_otelcpp_resource_read(const struct sp_otelcpp *sdk, const void *span,
			      char release[SP_SDK_RELEASE_MAX])
{
	const void *tracer = sp_otelcpp_member(span, SP_OTELCPP_SPAN_TRACER);
	const void *context;
	struct known known;

	release[0] = '\0';
	if (tracer == NULL || !sp_otelcpp_readable(tracer) ||
	    !sp_otelcpp_readable(
		    sp_otelcpp_at(tracer, (SP_OTELCPP_TRACER_WORDS - 1) * sizeof(void *))))
		return;
	context = find(sdk, tracer);
	if (context == NULL)
		return;
	if (!sp_otelcpp_readable(sp_otelcpp_at(context, SP_OTELCPP_RESOURCE_COUNT)) ||
	    !is_understood(context, &known)) {
		sp_sdk_disproved(sdk->names->sdk, SP_SDK_FACT_RESOURCE);
		return;
	}
	if (!known.is_cpp)
		return;
	copy_clean(known.release, release, SP_SDK_RELEASE_MAX);
	if (!sp_try_lock(&busy))
		return;
	hand_on(context, known.service);
	sp_unlock(&busy);
}
