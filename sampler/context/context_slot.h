/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread-local variable by which profilers find a thread's record (thread_context.h). Any
 * context but the handler.
 */
#ifndef SP_CONTEXT_SLOT_H
#define SP_CONTEXT_SLOT_H

#include <stdatomic.h>

#define SP_CONTEXT_SYMBOL "otel_thread_ctx_v1"

/*
 * The calling thread's variable: NULL, or its record. It is ours unless an object before us in load
 * order, which is the program, defines the symbol too.
 */
void *_Atomic *sp_context_slot(void);

#endif
