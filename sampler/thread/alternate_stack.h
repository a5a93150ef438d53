/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with an alternate signal stack (sigaltstack(2)). Where a handler of the host uses such
 * stacks, ours has to run there too: the stacks of goroutines and fibers are too small for any
 * handler. But an alternate stack may be just large enough for the host's own handler. If it cannot
 * hold the kernel's signal frame, the kernel kills the process (SIGSEGV); if it cannot hold our
 * frames below that, they overrun it. So a thread whose alternate stack cannot hold a sample gets
 * no timer, and a sample has no frames where there is no room for a walk.
 *
 * How large the kernel's frame is depends on the processor's registers. AT_MINSIGSTKSZ is an upper
 * bound that includes registers which hardly any program may use (AMX: 8 KiB). So the handler
 * measures the frames that it sees.
 */
#ifndef SP_ALTERNATE_STACK_H
#define SP_ALTERNATE_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/* Bytes that the handler needs below its own frame, with a walk and without. */
#define SP_HANDLER_ROOM_WALK 7168U
#define SP_HANDLER_ROOM_LEAST 2048U

/*
 * SIG, in the handler itself. Bytes of the alternate stack below the caller's frame; SIZE_MAX where the
 * handler runs on an ordinary stack.
 */
SP_SIGSAFE size_t sp_alternate_stack_room(const void *ucontext, const void *frame);

/* SIG. The size of the interrupted thread's alternate stack, 0 if it has none. */
SP_SIGSAFE uint32_t sp_alternate_stack_of(const void *ucontext);

/* APP. The same of the calling thread. errno preserved. */
uint32_t sp_alternate_stack_own(void);

/* Any context. The handler may run on an alternate stack of that size; always true for 0, none. */
SP_SIGSAFE bool sp_alternate_stack_holds_sample(uint32_t bytes);

/* APP, at activation. */
void sp_alternate_stack_init(void);

#endif
