/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy of our variables that sp_config_capture() takes. Written in INIT context by the only
 * thread there is, and once more before it is parsed, by sp_config_copy_resource(); read-only
 * afterwards.
 */
#ifndef SP_CONFIG_COPY_H
#define SP_CONFIG_COPY_H

#include <stdbool.h>
#include <stddef.h>

#include "sampler/config/config_table.h"

#define SP_CONFIG_VALUE_MAX 8192U
#define SP_CONFIG_COPY_MAX 32768U
#define SP_CONFIG_SERVICE_MAX 255U
#define SP_CONFIG_UNKNOWN_MAX 8U
#define SP_CONFIG_NAME_MAX 64U

enum sp_config_state {
	SP_STATE_UNSET, /* absent or empty: the same, as OTel demands */
	SP_STATE_SET,
	SP_STATE_TOO_LONG, /* more than SP_CONFIG_VALUE_MAX bytes */
	SP_STATE_NO_ROOM,  /* the copy was full */
};

/* The value of one name of a variable; *text is "" unless SP_STATE_SET. */
enum sp_config_state sp_config_copy_get(enum sp_config_id id, unsigned source, const char **text);

/*
 * For messages: the name that the user has set, which may be an alias, of that variable; the same of the other one if
 * none is set; and then our name of that.
 */
const char *sp_config_copy_name(enum sp_config_id id, enum sp_config_id other);

/* SPANPROF_ names that are in no table: the first of them, cut at SP_CONFIG_NAME_MAX - 1 bytes. */
struct sp_config_unknown {
	unsigned n; /* how many there were */
	char name[SP_CONFIG_UNKNOWN_MAX][SP_CONFIG_NAME_MAX];
};
const struct sp_config_unknown *sp_config_copy_unknown(void);

/*
 * APP, one thread at a time. The copy as an environment for the exporter, with that service name: a
 * NULL-terminated list that is valid until the next call. It disables spanprof, in case the object
 * is preloaded into every program of the system.
 */
char *const *sp_config_copy_environment(const char *service_name);

/*
 * APP, one thread at a time, before the copy is parsed. Resource attributes that the program gave
 * its SDK, in the form of OTEL_RESOURCE_ATTRIBUTES, which wins where both have a key. service is
 * the service.name among them, NULL = none. Only the first call after a capture counts.
 */
void sp_config_copy_resource(const char *attributes, const char *service);

/* The service.name that the program gave its SDK; NULL if that is not known. */
const char *sp_config_copy_sdk_service(void);

/* True once after each capture, for whoever reports what is wrong with it. */
bool sp_config_copy_first_look(void);

#endif
