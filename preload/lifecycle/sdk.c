/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts about each SDK and about another publisher of spans: stores and logs them. Contexts:
 * INIT, APP.
 */
#include "preload/lifecycle/sdk.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/lifecycle/state.h"
#include "sampler/base/log.h"
#include "sampler/base/text.h"
#include "sampler/base/try_lock.h"
#include "sampler/config/config_table.h"
#include "sampler/context/foreign_context.h"
#include "sampler/context/thread_context.h"
#include "sampler/region/region.h"

static _Atomic uint32_t disproved[SP_SDK_N];

/*
 * Instances of an SDK that were reached. The thread that counts the first instance writes the
 * texts.
 */
static struct reached {
	_Atomic uint32_t instances;
	_Atomic uint32_t way; /* written after the texts */
	char object[SP_SDK_OBJECT_MAX];
	char release[SP_SDK_RELEASE_MAX];
	char service[SP_SDK_SERVICE_MAX];
} reached[SP_SDK_N];

/* An SDK that cannot be read may never lead to an activation, which would read the log level. */
static void read_log_level(void)
{
	if (!sp_lifecycle_active())
		sp_config_parse_log_level();
}

void sp_sdk_disproved(enum sp_sdk sdk, enum sp_sdk_fact fact)
{
	struct sp_region *r = sp_region_now();
	uint32_t bit = UINT32_C(1) << fact;
	/* no data is lost without this fact, so there is no warning */
	enum sp_log_level level = fact == SP_SDK_FACT_SPAN ? SP_LOG_INFO : SP_LOG_WARN;

	if ((atomic_fetch_or_explicit(&disproved[sdk], bit, memory_order_relaxed) & bit) != 0)
		return;
	/* written here, too, because the next publication may be far away */
	atomic_fetch_or_explicit(&r->sdk[sdk].disproved, bit, memory_order_relaxed);
	read_log_level();
	if (fact == SP_SDK_FACT_OWN_STORAGE)
		sp_log(level, "%s: the program's own context storage is not understood: %s",
		       sp_sdk_texts[sdk].name, sp_sdk_fact_texts[fact].instead);
	else if (fact == SP_SDK_FACT_INSTANCES)
		sp_log(level, "%s: %s: %s", sp_sdk_texts[sdk].name, sp_sdk_fact_texts[fact].name,
		       sp_sdk_fact_texts[fact].instead);
	else
		sp_log(level, "%s: this release's %s is not understood: %s", sp_sdk_texts[sdk].name,
		       sp_sdk_fact_texts[fact].name, sp_sdk_fact_texts[fact].instead);
}

void sp_sdk_publish(enum sp_sdk sdk, struct sp_region_sdk *out)
{
	/* pairs with sp_sdk_reached() */
	uint32_t way = atomic_load_explicit(&reached[sdk].way, memory_order_acquire);

	atomic_store_explicit(&out->disproved,
			      atomic_load_explicit(&disproved[sdk], memory_order_relaxed),
			      memory_order_relaxed);
	atomic_store_explicit(&out->instances,
			      atomic_load_explicit(&reached[sdk].instances, memory_order_relaxed),
			      memory_order_relaxed);
	if (way == SP_SDK_WAY_UNKNOWN ||
	    atomic_load_explicit(&out->way, memory_order_relaxed) == way)
		return;
	memcpy(out->object, reached[sdk].object, sizeof(out->object));
	memcpy(out->release, reached[sdk].release, sizeof(out->release));
	memcpy(out->service, reached[sdk].service, sizeof(out->service));
	/* pairs with list_sdks() in export/exporter/member.c */
	atomic_store_explicit(&out->way, way, memory_order_release);
}

void sp_sdk_reached(enum sp_sdk sdk, const struct sp_sdk_reached *instance)
{
	struct sp_region *r = sp_region_now();
	struct reached *first = &reached[sdk];

	if (atomic_fetch_add_explicit(&first->instances, 1, memory_order_relaxed) == 0) {
		sp_elf_path_at(instance->address, first->object, sizeof(first->object));
		(void)sp_fmt_snprintf(first->release, sizeof(first->release), "%s",
				      instance->release);
		(void)sp_fmt_snprintf(first->service, sizeof(first->service), "%s",
				      instance->service);
		atomic_store_explicit(&first->way, instance->way, memory_order_release);
	}
	/* published now, because the next publication may be far away */
	sp_sdk_publish(sdk, &r->sdk[sdk]);
}

/*
 * Slots for resources that are being read. The slot whose resource is used never becomes free
 * again.
 */
#define READERS_MAX 16U
static struct {
	struct sp_try_lock reader;
	struct sp_sdk_resource resource;
} place[READERS_MAX];
static struct sp_sdk_resource *_Atomic resource;

bool sp_sdk_service_is_made_up(const char *name, size_t len)
{
	static const char unknown[] = SP_CONFIG_UNKNOWN_SERVICE;

	return len >= sizeof(unknown) - 1 && memcmp(name, unknown, sizeof(unknown) - 1) == 0;
}

struct sp_sdk_resource *sp_sdk_resource_begin(const void *frame)
{
	for (unsigned i = 0; i < READERS_MAX; i++) {
		/*
		 * The lock of the used slot seems to be free in a forked child, so its address is
		 * compared, too.
		 */
		if (&place[i].resource != atomic_load_explicit(&resource, memory_order_relaxed) &&
		    sp_try_lock_in(&place[i].reader, (uintptr_t)frame)) {
			place[i].resource.service[0] = place[i].resource.attributes[0] = '\0';
			return &place[i].resource;
		}
	}
	return NULL;
}

static void compare(const char *service)
{
	static _Atomic bool told;

	/* before activation, the configuration compares them */
	if (sp_lifecycle_active() && service[0] != '\0' &&
	    strcmp(service, sp_lifecycle_config()->service_name) != 0 &&
	    !atomic_exchange_explicit(&told, true, memory_order_relaxed))
		sp_log(SP_LOG_WARN, SP_CONFIG_OTHER_SERVICE, sp_lifecycle_config()->service_name,
		       service);
}

void sp_sdk_resource_end(struct sp_sdk_resource *r)
{
	struct sp_sdk_resource *none = NULL;
	/* pairs with sp_sdk_resource_configure() */
	bool is_used = atomic_compare_exchange_strong_explicit(
		&resource, &none, r, memory_order_acq_rel, memory_order_relaxed);

	compare(r->service);
	for (unsigned i = 0; i < READERS_MAX && !is_used; i++)
		if (r == &place[i].resource)
			sp_unlock(&place[i].reader);
}

void sp_sdk_resource_configure(void)
{
	const struct sp_sdk_resource *r = atomic_load_explicit(&resource, memory_order_acquire);

	if (r != NULL)
		sp_config_copy_resource(r->attributes, r->service);
}

void sp_sdk_asked_in_vain(const void *address, bool (*has_names)(void))
{
	static _Atomic bool told;
	char path[SP_SDK_OBJECT_MAX];

	if (atomic_load_explicit(&told, memory_order_relaxed))
		return;
	for (unsigned sdk = 0; sdk < SP_SDK_N; sdk++) {
		if (atomic_load_explicit(&reached[sdk].instances, memory_order_relaxed) != 0)
			return;
	}
	read_log_level();
	if (!sp_log_prints(SP_LOG_INFO) || has_names() ||
	    atomic_exchange_explicit(&told, true, memory_order_relaxed))
		return;
	sp_elf_path_at(address, path, sizeof(path));
	sp_log(SP_LOG_INFO,
	       "no supported OpenTelemetry SDK was found, although %s reads variables of "
	       "OpenTelemetry",
	       path[0] != '\0' ? path : "the program");
}

/*
 * The publisher of the thread context (OTEP 4947) in this program. It is our object, unless an
 * object that was there at the start defines the variable; then the records of that object label
 * samples.
 */

static struct sp_elf_tls at_start;
static _Atomic bool is_read;
static _Atomic bool is_announced; /* the program has published a process context */

void sp_publisher_search(void)
{
	struct sp_elf_tls other;

	sp_elf_find_tls(SP_CONTEXT_SYMBOL, &other);
	/* Most programs have no such variable, and the write would cost a page of memory. */
	if (other.n != 0 || sp_config_says(SP_VAR_ACTIVE_SPAN, "context"))
		at_start = other;
}

bool sp_publisher_found(void)
{
	return at_start.n != 0;
}

void sp_publisher_prepare(const struct sp_config *config)
{
	struct sp_foreign_context_setup setup = {.variables = 0};
	bool forced = config->active_span == SP_ACTIVE_CONTEXT;
	bool reads;

	sp_thread_context_init(config, at_start.before_ours);
	reads = forced ||
		(config->active_span == SP_ACTIVE_AUTO &&
		 (at_start.n != 0 || atomic_load_explicit(&is_announced, memory_order_relaxed)));
	atomic_store_explicit(&is_read, reads, memory_order_relaxed);
	if (!forced && config->active_span != SP_ACTIVE_AUTO)
		return;
	for (; setup.variables < at_start.listed; setup.variables++)
		setup.variable[setup.variables] = at_start.at[setup.variables];
	setup.tls_begin = at_start.begin;
	setup.tls_end = at_start.end;
	sp_foreign_context_start(&setup);
}

bool sp_publisher_is_read(void)
{
	return atomic_load_explicit(&is_read, memory_order_relaxed);
}

/*
 * Profiles get the service name of that library's spans, unless a variable of ours names the
 * service.
 */
static void take_service(const char *service)
{
	static const char key[] = "service.name=";
	struct sp_sdk_resource *r;
	size_t n = sizeof(key) - 1;

	_Static_assert(sizeof(key) + 3UL * SP_PROCESS_CONTEXT_SERVICE_MAX <= SP_SDK_ATTRIBUTES_MAX,
		       "each byte of it may take three");
	if (service[0] == '\0' || sp_sdk_service_is_made_up(service, strlen(service)))
		return;
	r = sp_sdk_resource_begin(__builtin_frame_address(0));
	if (r == NULL)
		return;
	(void)sp_fmt_snprintf(r->service, sizeof(r->service), "%s", service);
	memcpy(r->attributes, key, n);
	for (size_t i = 0; service[i] != '\0'; i++)
		n += sp_text_percent(r->attributes + n, service[i]);
	r->attributes[n] = '\0';
	sp_sdk_resource_end(r);
}

bool sp_publisher_announced(uintptr_t at, bool has_name)
{
	struct sp_process_context_threads threads;

	if (!has_name && !sp_process_context_is_at(at))
		return false;
	sp_process_context_made_by_program();
	if (!sp_config_allows_context())
		return false;
	sp_process_context_read(at, &threads);
	if (!threads.published)
		return false;
	take_service(threads.service);
	if (threads.root_key >= 0)
		sp_foreign_context_set_root_key(threads.root_key);
	atomic_store_explicit(&is_announced, true, memory_order_relaxed);
	return true;
}

void sp_publisher_read_on(void)
{
	atomic_store_explicit(&is_read, true, memory_order_relaxed);
}
