/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that publishes spans in OpenTelemetry's thread context (OTEP 4947), as the tracers of other languages do,
 * and nothing else. It stands for an SDK that cannot be hooked.
 */
#ifndef TEST_HOSTS_LIB_PUBLISHER_H
#define TEST_HOSTS_LIB_PUBLISHER_H

#include <stdint.h>

/*
 * Makes the span active on the calling thread; 0 = none. The trace id is derived from the span's. If root is not 0,
 * attribute 0 of the record has it, behind another attribute.
 */
typedef void publisher_publish(uint64_t span, uint64_t root);
publisher_publish publish;

/* Publishes a process context (OTEP 4719), which says that attribute 0 is the local root's id. */
typedef void publisher_publish_process(void);
publisher_publish_process publish_process;

/* Makes the thread's variable this pointer, whatever it is. */
typedef void publisher_point(void *record);
publisher_point point;

#endif
