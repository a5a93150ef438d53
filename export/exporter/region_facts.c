/* SPDX-License-Identifier: Apache-2.0 */
/* What a region says of its process, for people (region_facts.h). Context: the exporter. */
#include "export/exporter/region_facts.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "sampler/region/sdk_texts.h"

static uint32_t word(const _Atomic uint32_t *at)
{
	return atomic_load_explicit(at, memory_order_relaxed);
}

uint64_t sp_region_facts_started(const struct sp_region *r, unsigned sdk)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < SP_SPAN_COUNTS; i++)
		sum += atomic_load_explicit(&r->spans[i].started[sdk], memory_order_relaxed);
	return sum;
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
	}
}

/* Whoever writes the region may write anything, also while this is read. */
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
	if (object[0] == '\0')
		(void)snprintf(object, SP_SDK_OBJECT_MAX, "the program");
}

static void list_sdks(const struct sp_region *r, struct sp_core_facts *out)
{
	_Static_assert(SP_SDK_FACT_N <= SP_CORE_FACTS_MAX, "there is room for all");

	for (unsigned i = 0; i < SP_SDK_N && out->sdks < SP_CORE_SDKS_MAX; i++) {
		const struct sp_region_sdk *sdk = &r->sdk[i];
		uint64_t spans = sp_region_facts_started(r, i);
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

/* A number of one of the kernel's 64 signals, or none. */
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

void sp_region_facts(const struct sp_region *r, struct sp_core_facts *out)
{
	*out = (struct sp_core_facts){
		.sampling = word(&r->state) != SP_REGION_STOPPED,
		.signal_number = signal_of(word(&r->signal_number)),
		.threads_armed = word(&r->threads_armed),
		.threads_limit = word(&r->threads_limit),
		.threads_refused = word(&r->threads_refused),
		.spans_open = word(&r->spans_open),
		.thread_context = context_of(word(&r->context)),
	};
	list_sdks(r, out);
}
