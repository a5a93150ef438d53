/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of each SDK: which of the facts that we assume of it (sampler/region/sdk_texts.h)
 * proved wrong, where it is, and how it was reached; and of what else publishes spans in the program.
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
};

/* APP. To be called once for each instance of that SDK. */
void sp_sdk_reached(enum sp_sdk sdk, const struct sp_sdk_reached *instance);

/* Any context. Copies what is known of that SDK into its entry in the region. */
void sp_sdk_publish(enum sp_sdk sdk, struct sp_region_sdk *out);

/* With the NUL. */
#define SP_SDK_SERVICE_MAX 256U
#define SP_SDK_ATTRIBUTES_MAX 2048U

/*
 * APP. The resource of an SDK, read at its first span: service is its service.name, "" = none, and
 * attributes are in the form of OTEL_RESOURCE_ATTRIBUTES. The first one is used where no variable
 * says otherwise, if it comes before sampling starts. One warning tells if the profiles go to
 * another service.
 */
void sp_sdk_resource(const char *service, const char *attributes);

/* Any context. An SDK made that name up, as the program has not named its service. */
bool sp_sdk_service_is_made_up(const char *name, size_t len);

/* APP, one thread at a time, before the configuration is parsed: hands the resource on to it. */
void sp_sdk_resource_configure(void);

/*
 * APP. The object around that address asks for variables of OpenTelemetry and has no SDK that is
 * found by its classes. Says so once at level info if there is no other SDK that we know: none was reached,
 * and has_names(), which takes a walk through the objects and so is asked last, finds none.
 */
void sp_sdk_asked_in_vain(const void *address, bool (*has_names)(void));

/*
 * INIT, before the host's main(). Asks the loader for definitions of the variable, once and for all: a forked
 * child may be the first to record a span, and another thread of its parent may have held the loader's
 * lock at the fork. A library that is opened later finds our variable.
 */
void sp_publisher_look(void);

/* Any context. An object that was there at the start defines the variable. */
bool sp_publisher_found(void);

/* APP, one thread at a time, at activation. */
void sp_publisher_prepare(const struct sp_config *config);

/*
 * APP. The memory at that address is one that the program publishes a process context (OTEP 4719) in; without a
 * name it is looked at first. True if it says that threads publish their spans: their records are to label
 * samples from now on.
 */
bool sp_publisher_announced(uintptr_t at, bool has_name);

/* APP, after that, once sampling is on. A forked child goes on with it, also where sampling was on before. */
void sp_publisher_read_on(void);

/* Any context. Samples are labelled by what others publish: a forked child goes on with that, too. */
bool sp_publisher_is_read(void);

#endif
