/* SPDX-License-Identifier: Apache-2.0 */
/* The waits of one process, summed up for the profile that is being collected. */
#ifndef SP_WAITS_H
#define SP_WAITS_H

#include <stdint.h>

#include "export/export.h"
#include "export/objects/modules.h"
#include "export/objects/unwind_snapshot.h"
#include "export/off_cpu/off_cpu.h"
#include "export/profile/bounded_names.h"
#include "export/profile/interval.h"
#include "export/profile/stack_map.h"

/* What a target and its waits have in common. */
struct sp_waits_env {
	const struct sp_core_ops *ops;
	struct sp_modules *modules;
	struct sp_unwinder *unwinder;
	struct sp_bounded_names *threads; /* NULL = no thread_name labels */
};

struct sp_waits;

/* NULL when out of memory. The objects that env points to must outlive it; env itself is copied. */
struct sp_waits *sp_waits_new(const struct sp_waits_env *env);
void sp_waits_free(struct sp_waits *w);

/* All functions accept NULL: it has no map, is never due, and they do nothing. */
void sp_waits_run(struct sp_waits *w);   /* examines the threads if it is time */
void sp_waits_clear(struct sp_waits *w); /* another profile has begun */
/*
 * Moves the map to the caller, and an empty one takes its place. The other parts are valid until
 * sp_waits_clear(). False without memory for an empty map.
 */
bool sp_waits_take(struct sp_waits *w, struct sp_interval_parts *parts);
uint64_t sp_waits_due_ns(const struct sp_waits *w);
const struct sp_stack_map *sp_waits_map(const struct sp_waits *w);

/* False for NULL. */
bool sp_waits_results(const struct sp_waits *w, struct sp_off_cpu_results *out);

#endif
