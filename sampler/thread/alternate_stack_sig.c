/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures the kernel's signal frame, and tells how much room an alternate stack has.
 *
 * Runs inside the sampling signal on the sampled thread; sp_alternate_stack_own() and
 * sp_alternate_stack_init() are APP.
 */
#include "sampler/thread/alternate_stack.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/seccomp.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* In linux/auxvec.h since 5.14. Older headers lack it, and older kernels do not report it (0). */
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
/*
 * The size of the frame where the kernel does not report it: x86-64 with AVX-512, arm64 with SVE.
 */
#define FRAME_DEFAULT 4096U
/* No frame is larger; a distance beyond it means two different stacks. */
#define FRAME_MAX 65536U

static uint32_t frame_bound; /* as the kernel reports it; written before the first timer exists */
static _Atomic uint32_t
	frame_measured; /* the largest that was seen, our own entry included; 0 = none */

void sp_alternate_stack_init(void)
{
	unsigned long told = getauxval(AT_MINSIGSTKSZ);

	frame_bound = told > 0 && told < FRAME_MAX ? (uint32_t)told : FRAME_DEFAULT;
}

static void measure(uintptr_t interrupted, uintptr_t frame)
{
	uintptr_t distance = interrupted - frame;

	if (distance < FRAME_MAX &&
	    distance > atomic_load_explicit(&frame_measured, memory_order_relaxed))
		atomic_store_explicit(&frame_measured, (uint32_t)distance, memory_order_relaxed);
}

SP_SIGSAFE size_t sp_alternate_stack_room(const void *ucontext, const void *frame)
{
	const ucontext_t *uc = ucontext;
	uintptr_t base = (uintptr_t)uc->uc_stack.ss_sp;
	uintptr_t here = (uintptr_t)frame;

	if (here - base < uc->uc_stack.ss_size)
		return here - base;
	measure(sp_arch_context_reg(ucontext, SP_ARCH_REG_SP), here);
	return SIZE_MAX;
}

static uint32_t size_of(const stack_t *stack)
{
	if ((stack->ss_flags & SS_DISABLE) != 0)
		return 0;
	return stack->ss_size < UINT32_MAX ? (uint32_t)stack->ss_size : UINT32_MAX;
}

SP_SIGSAFE uint32_t sp_alternate_stack_of(const void *ucontext)
{
	return size_of(&((const ucontext_t *)ucontext)->uc_stack);
}

uint32_t sp_alternate_stack_own(void)
{
	stack_t now = {.ss_flags = SS_DISABLE};
	int saved = errno;

	(void)sp_syscall(SYS_sigaltstack, NULL, &now);
	errno = saved;
	return size_of(&now);
}

SP_SIGSAFE bool sp_alternate_stack_holds_sample(uint32_t bytes)
{
	uint32_t frame = atomic_load_explicit(&frame_measured, memory_order_relaxed);

	if (frame == 0 || frame > frame_bound)
		frame = frame_bound;
	return bytes == 0 || bytes >= frame + SP_HANDLER_ROOM_LEAST;
}
