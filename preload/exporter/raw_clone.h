/* SPDX-License-Identifier: Apache-2.0 */
/*
 * clone(2), clone3(2) and prctl(2) without libc and errno. sp_arch_syscall() makes system calls with at most
 * four arguments.
 *
 * The C library's clone() is not used for two reasons: it may be replaced by the host's own, and it
 * stores function and argument in the first words of the new stack, which are wrong where an
 * emulator forks instead and the child goes on with its parent's stack. Here function and argument
 * are in registers that the system call preserves. APP context.
 */
#ifndef SP_RAW_CLONE_H
#define SP_RAW_CLONE_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#define SP_CLONE3_NR 435L /* the same on all architectures; headers may be older */
#define SP_CLONE_SIGNAL 0xffUL

/* As clone3(2) takes them, since Linux 5.3. */
struct sp_clone_args {
	uint64_t flags;
	uint64_t pidfd;
	uint64_t child_tid;
	uint64_t parent_tid;
	uint64_t exit_signal;
	uint64_t stack; /* its lowest byte */
	uint64_t stack_size;
	uint64_t tls;
};

/* clone3(2) is tried first: it is what a filter is known to let pass (trial.h). */
extern _Atomic bool sp_raw_clone_by_3;

static inline long sp_raw_clone_call(long call, unsigned long first, void *second,
				     void (*run)(void *), void *arg);

/*
 * The child runs run(arg), which must not return. Returns the child's id or a negative errno.
 * stack_top is a multiple of 16, or NULL for a copy of our own stack, which is only for children
 * that do not share our memory.
 */
static inline long sp_raw_clone(unsigned long flags, void *stack_top, void (*run)(void *),
				void *arg)
{
	/* The kernel takes the sum of stack and stack_size. */
	const uint64_t some = stack_top != NULL ? 16 : 0;
	const struct sp_clone_args args = {.flags = flags & ~SP_CLONE_SIGNAL,
					   .exit_signal = flags & SP_CLONE_SIGNAL,
					   .stack = (uint64_t)(uintptr_t)stack_top - some,
					   .stack_size = some};

	if (atomic_load_explicit(&sp_raw_clone_by_3, memory_order_relaxed)) {
		long rc = sp_raw_clone_call(SP_CLONE3_NR, (unsigned long)(uintptr_t)&args,
					    (void *)sizeof(args), run, arg);

		/* The C library, too, goes on with clone(2) then. */
		if (rc != -ENOSYS)
			return rc;
		atomic_store_explicit(&sp_raw_clone_by_3, false, memory_order_relaxed);
	}
	return sp_raw_clone_call(SYS_clone, flags, stack_top, run, arg);
}

/* One of the two system calls, with two arguments. */
static inline long sp_raw_clone_call(long call, unsigned long first, void *second,
				     void (*run)(void *), void *arg)
{
#if defined(__x86_64__)
	long rc;
	register void (*keep_run)(void *) __asm__("r12") = run;
	register void *keep_arg __asm__("r13") = arg;
	register long child_tid __asm__("r10") = 0;
	register long tls __asm__("r8") = 0;

	__asm__ volatile("syscall\n\t"
			 "testq %%rax, %%rax\n\t"
			 "jnz 1f\n\t"
			 "xorl %%ebp, %%ebp\n\t"
			 "andq $-16, %%rsp\n\t"
			 "movq %%r13, %%rdi\n\t"
			 "call *%%r12\n\t"
			 "ud2\n"
			 "1:"
			 : "=a"(rc)
			 : "0"(call), "D"(first), "S"(second), "d"(0L), "r"(child_tid), "r"(tls),
			   "r"(keep_run), "r"(keep_arg)
			 : "rcx", "r11", "cc", "memory");
	return rc;
#elif defined(__aarch64__)
	register long number __asm__("x8") = call;
	register long x0 __asm__("x0") = (long)first;
	register void *x1 __asm__("x1") = second;
	register long parent_tid __asm__("x2") = 0;
	register long tls __asm__("x3") = 0;
	register long child_tid __asm__("x4") = 0;
	register void (*keep_run)(void *) __asm__("x19") = run;
	register void *keep_arg __asm__("x20") = arg;

	__asm__ volatile("svc #0\n\t"
			 "cbnz x0, 1f\n\t"
			 "mov x29, xzr\n\t"
			 "mov x30, xzr\n\t"
			 "mov x0, x20\n\t"
			 "blr x19\n\t"
			 "brk #1\n"
			 "1:"
			 : "+r"(x0)
			 : "r"(number), "r"(x1), "r"(parent_tid), "r"(tls), "r"(child_tid),
			   "r"(keep_run), "r"(keep_arg)
			 : "cc", "memory");
	return x0;
#else
#error "clone is written for x86-64 and aarch64"
#endif
}

/* prctl(2). It has five arguments, and valgrind checks all of them. */
static inline long sp_raw_prctl(long option, long value)
{
#if defined(__x86_64__)
	long rc;
	register long fourth __asm__("r10") = 0;
	register long fifth __asm__("r8") = 0;

	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "0"((long)SYS_prctl), "D"(option), "S"(value), "d"(0L), "r"(fourth),
			   "r"(fifth)
			 : "rcx", "r11", "memory");
	return rc;
#elif defined(__aarch64__)
	register long number __asm__("x8") = SYS_prctl;
	register long x0 __asm__("x0") = option;
	register long x1 __asm__("x1") = value;
	register long x2 __asm__("x2") = 0;
	register long x3 __asm__("x3") = 0;
	register long x4 __asm__("x4") = 0;

	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(number), "r"(x1), "r"(x2), "r"(x3), "r"(x4)
			 : "memory");
	return x0;
#endif
}

#endif
