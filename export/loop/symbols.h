/* SPDX-License-Identifier: Apache-2.0 */
/* The symbolizer as configured, and the time it may take. */
#ifndef SP_SYMBOLS_H
#define SP_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/objects/modules.h"
#include "export/profile/stack_map.h"
#include "export/symbols/symbolize.h"

/* Sleeps up to ms, and drains. False if something else is due. */
typedef bool (*sp_symbols_pause)(void *arg, uint32_t ms);

struct sp_symbols;

/* For all processes, whose configuration is that of ops. NULL when out of memory. */
struct sp_symbols *sp_symbols_new(const struct sp_core_ops *ops, sp_symbols_pause pause, void *arg);
void sp_symbols_free(struct sp_symbols *s);

/* Names addresses of the process that was last prepared. */
struct sp_symbolizer *sp_symbols_symbolizer(const struct sp_symbols *s);

#define SP_SYMBOLS_MAPS 2U

/*
 * Turns to a process: its counters and its modules, which must live as long as they are used. Reads
 * symbols and looks up lines for everything in its maps (NULL = none), in slices with pauses between them, for at
 * most a quarter of the upload interval, or a quarter of what is left of a flush. Samples that are
 * drained in the pauses are included.
 */
void sp_symbols_prepare(struct sp_symbols *s, const struct sp_core_ops *ops,
			struct sp_modules *modules,
			const struct sp_stack_map *const map[SP_SYMBOLS_MAPS]);

#endif
