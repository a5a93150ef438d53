/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The facts about each SDK: which of our assumptions (sampler/region/sdk_texts.h) proved wrong,
 * where the SDK is, and how we found it. And the publisher of the thread context in the program.
 */
#ifndef SP_SDK_H
#define SP_SDK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/config/config.h"
#include "sampler/region/region.h"
#include "sampler/region/sdk_texts.h"

/*
 * APP. That fact does not hold for that SDK: logs it the first time, and publishes it for the
 * status file.
 */
void sp_sdk_disproved(enum sp_sdk sdk, enum sp_sdk_fact fact);

/* An instance of an SDK that was reached. */
struct sp_sdk_reached {
	enum sp_sdk_way way;
	const void *address; /* in its object */
	const char *release; /* as the SDK says it; "" = unknown */
	const char *service; /* service.name of its resource; "" = none */
};

/* APP. Called once for each instance of that SDK. */
void sp_sdk_reached(enum sp_sdk sdk, const struct sp_sdk_reached *instance);

/* Any context. Copies the facts about that SDK into its entry in the region. */
void sp_sdk_publish(enum sp_sdk sdk, struct sp_region_sdk *out);

/* With the NUL. */
#define SP_SDK_ATTRIBUTES_MAX 2048U

/*
 * The resource of an SDK, which is read at its first span. service is its service.name, "" = none;
 * attributes are in the form of OTEL_RESOURCE_ATTRIBUTES.
 */
struct sp_sdk_resource {
	char service[SP_SDK_SERVICE_MAX];
	char attributes[SP_SDK_ATTRIBUTES_MAX];
};

/*
 * APP. Several threads may start the first spans of a program at once, and the thread that starts
 * sampling has to know the service. So each of these threads reads the resource into a separate
 * slot and waits for nobody. NULL if 16 threads are reading at this moment. frame: a frame of the
 * caller that does not return before sp_sdk_resource_end().
 */
struct sp_sdk_resource *sp_sdk_resource_begin(const void *frame);

/*
 * APP. That resource is complete. The first complete resource is used if it comes before sampling
 * starts: its service.name, unless a variable of ours or of Pyroscope names the service. One
 * warning says so if the profiles go to another service.
 */
void sp_sdk_resource_end(struct sp_sdk_resource *r);

/* Any context. Whether an SDK made that name up because the program has not named its service. */
bool sp_sdk_service_is_made_up(const char *name, size_t len);

/* APP, one thread at a time, before the configuration is parsed: hands the resource to it. */
void sp_sdk_resource_configure(void);

/*
 * APP. The object at that address reads variables of OpenTelemetry, and its classes are not those
 * of an SDK that we know. Logs this once at level info if the program has no other SDK that we
 * know: none was found so far, and has_names() finds none. has_names() walks through all objects,
 * so it is called last.
 */
void sp_sdk_asked_in_vain(const void *address, bool (*has_names)(void));

/*
 * INIT, before the host's main(). Asks the loader once for definitions of the variable. Later may
 * be too late: a forked child may be the first to record a span, and another thread of its parent
 * may have held the loader's lock at the fork. A library that is opened later finds our variable.
 */
void sp_publisher_search(void);

/* Any context. Whether an object that was loaded at the start defines the variable. */
bool sp_publisher_found(void);

/* APP, one thread at a time, at activation. */
void sp_publisher_prepare(const struct sp_config *config);

/*
 * APP. The program publishes a process context (OTEP 4719) in the memory at that address; if the
 * mapping has no name, the content is checked first. True if the context says that threads publish
 * their spans: their records will label samples from now on.
 */
bool sp_publisher_announced(uintptr_t at, bool has_name);

/*
 * APP, after sp_publisher_announced(), once sampling is on. Sampling then goes on in forked
 * children, too, even if it was on before.
 */
void sp_publisher_read_on(void);

/*
 * Any context. Records of another publisher label samples, so sampling goes on in a forked child.
 */
bool sp_publisher_is_read(void);

#endif
