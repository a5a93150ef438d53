/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that publishes spans in OpenTelemetry's thread context (OTEP 4947), as the tracers of
 * other languages do, and nothing else. It stands for an SDK that nobody can hook.
 */
#ifndef TEST_HOSTS_LIB_PUBLISHER_H
#define TEST_HOSTS_LIB_PUBLISHER_H

#include <stdint.h>

/*
 * The span is active on the calling thread from now on; 0 = none. Its trace id is made of it. With a
 * root other than 0 the record has that in attribute 0, behind another one.
 */
typedef void publisher_publish(uint64_t span, uint64_t root);
publisher_publish publish;

/* Publishes a process context (OTEP 4719), which says that attribute 0 is the local root's id. */
typedef void publisher_publish_process(void);
publisher_publish_process publish_process;

/* The thread's variable is that pointer, whatever it is. */
typedef void publisher_point(void *record);
publisher_point point;

#endif
