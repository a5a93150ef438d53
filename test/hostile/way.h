/* SPDX-License-Identifier: Apache-2.0 */
/* The whole way of a sample, from the stack map to the double's verdict, without clock or network. */
#ifndef HOSTILE_WAY_H
#define HOSTILE_WAY_H

#include "export/profile/encode.h"
#include "export/push/request.h"
#include "test/pyroscope/routes.h"

#define WAY_NOW INT64_C(1700000000000000000)

struct way {
	struct sp_core_ops ops;
	struct sp_config config;
	struct sp_pprof_limits limits; /* of each profile */
	struct sp_stack_map *map;
	struct sp_stack_map *waits; /* NULL = no waits */
	struct pd_double server;
	uint64_t put;         /* samples */
	uint64_t sent;        /* samples, by the encoder */
	unsigned profiles;    /* sent profiles */
	unsigned refused;     /* refused labels of the configuration */
	uint64_t digest;      /* of all requests */
	struct sp_bytes last; /* the last encoded profile */
	unsigned names;       /* name ids 1..names are texts of name_text */
	const char *(*name_text)(uint32_t id, size_t *len);
	uint64_t counter[SP_COUNTER_N];
};

/* One at a time, because the exporter's functions have no argument for it. */
void way_start(struct way *w);
void way_end(struct way *w);
/* At the end of each test. */
void way_fini(void);

/* Puts a sample, like the handler. */
void way_put(struct way *w, struct sp_sample *s);

/* Encodes all samples, sends them, and expects that every profile is accepted. The map is empty again. */
void way_send(struct way *w, const char *what);

/* No profile was refused or lost, and every sample arrived. */
void way_expect_all(struct way *w, const char *what);

/* A generator that gives the same numbers in every run. */
uint64_t way_random(uint64_t *state);

#endif
