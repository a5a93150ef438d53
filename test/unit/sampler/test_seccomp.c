/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/base/cpu_clock.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/seccomp_program.h"
#include "sampler/thread/thread.h"

#if defined(__x86_64__)
#define HERE AUDIT_ARCH_X86_64
#else
#define HERE AUDIT_ARCH_AARCH64
#endif

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define EQUAL(k, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), (yes), (no))
#define ANSWER(k) BPF_STMT(BPF_RET | BPF_K, (k))

#define LETS_RETURN(...)                                                                           \
	lets_return((struct sock_filter[]){__VA_ARGS__},                                           \
		    SP_ARRAY_LEN(((struct sock_filter[]){__VA_ARGS__})))

static bool lets_return(struct sock_filter *code, size_t n)
{
	struct sock_fprog program = {.len = (unsigned short)n, .filter = code};

	return sp_seccomp_lets_return(&program);
}

Test(seccomp, finds_out_what_a_filter_does_with_the_end_of_a_handler)
{
	cr_expect(LETS_RETURN(ANSWER(SECCOMP_RET_ALLOW)));
	cr_expect(LETS_RETURN(ANSWER(0x7ffc0000U)), "allowed and logged");
	cr_expect_not(LETS_RETURN(ANSWER(SECCOMP_RET_KILL)));
	cr_expect_not(LETS_RETURN(ANSWER(SECCOMP_RET_ERRNO | EPERM)));
	cr_expect_not(LETS_RETURN(ANSWER(SECCOMP_RET_TRAP)));
	cr_expect(LETS_RETURN(LOAD(nr), EQUAL(SYS_rt_sigreturn, 0, 1), ANSWER(SECCOMP_RET_ALLOW),
			      ANSWER(SECCOMP_RET_KILL)));
	cr_expect_not(LETS_RETURN(LOAD(nr), EQUAL(SYS_write, 0, 1), ANSWER(SECCOMP_RET_ALLOW),
				  ANSWER(SECCOMP_RET_KILL)));
	cr_expect_not(LETS_RETURN(LOAD(nr), EQUAL(SYS_rt_sigreturn, 0, 1), ANSWER(SECCOMP_RET_KILL),
				  ANSWER(SECCOMP_RET_ALLOW)));
	cr_expect(LETS_RETURN(LOAD(arch), EQUAL(HERE, 1, 0), ANSWER(SECCOMP_RET_KILL),
			      ANSWER(SECCOMP_RET_ALLOW)));
}

Test(seccomp, runs_each_kind_of_instruction)
{
	const uint32_t nr = SYS_rt_sigreturn;

	/* as libseccomp makes them, and as nobody does */
	cr_expect(LETS_RETURN(LOAD(nr), BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000U, 2, 0),
			      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, nr - 1, 0, 1),
			      ANSWER(SECCOMP_RET_ALLOW), ANSWER(SECCOMP_RET_KILL)));
	cr_expect(LETS_RETURN(LOAD(nr), BPF_STMT(BPF_MISC | BPF_TAX, 0),
			      BPF_STMT(BPF_LD | BPF_IMM, nr + 7),
			      BPF_STMT(BPF_ALU | BPF_SUB | BPF_X, 0), EQUAL(7, 0, 1),
			      ANSWER(SECCOMP_RET_ALLOW), ANSWER(SECCOMP_RET_KILL)));
	cr_expect(LETS_RETURN(LOAD(nr), BPF_STMT(BPF_ST, 3), BPF_STMT(BPF_LD | BPF_IMM, 0),
			      BPF_STMT(BPF_LDX | BPF_MEM, 3), BPF_STMT(BPF_MISC | BPF_TXA, 0),
			      BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 4),
			      BPF_STMT(BPF_ALU | BPF_OR | BPF_K, 5),
			      BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, 1), EQUAL(nr << 4 | 4, 0, 2),
			      BPF_JUMP(BPF_JMP | BPF_JA, 2, 0, 0), ANSWER(SECCOMP_RET_KILL),
			      ANSWER(SECCOMP_RET_KILL), ANSWER(SECCOMP_RET_ALLOW)));
	cr_expect(LETS_RETURN(
		BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0), EQUAL(sizeof(struct seccomp_data), 0, 1),
		BPF_STMT(BPF_LD | BPF_IMM, SECCOMP_RET_ALLOW), BPF_STMT(BPF_RET | BPF_A, 0)));
	cr_expect(LETS_RETURN(LOAD(args[0]), BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, ~0U, 1, 0),
			      ANSWER(SECCOMP_RET_ALLOW), ANSWER(SECCOMP_RET_KILL)));
}

/* Nothing that the kernel would refuse is read past its end, or is a crash. */
Test(seccomp, leaves_to_the_kernel_what_it_will_refuse)
{
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sock_filter *last = (void *)(page + 4096 - sizeof(*last));
	struct sock_fprog program = {.len = 1, .filter = last};

	cr_assert_neq(page, MAP_FAILED);
	cr_assert_eq(mprotect(page + 4096, 4096, PROT_NONE), 0);
	errno = 5;
	*last = (struct sock_filter)ANSWER(SECCOMP_RET_KILL);

	cr_expect_not(sp_seccomp_lets_return(&program));
	program.len = 2;
	cr_expect(sp_seccomp_lets_return(&program), "there is no second instruction");
	program = (struct sock_fprog){.len = 1, .filter = NULL};
	cr_expect(sp_seccomp_lets_return(&program));
	cr_expect(sp_seccomp_lets_return(NULL));
	cr_expect(sp_seccomp_lets_return(page + 4096));
	cr_expect_not(LETS_RETURN(BPF_JUMP(BPF_JMP | BPF_JA, UINT32_MAX, 0, 0)), "past the end");
	cr_expect_eq(errno, 5);
}

Test(seccomp, is_on_until_every_attempt_was_taken_back)
{
	cr_expect_not(sp_seccomp_is_on());

	sp_seccomp_begin();
	sp_seccomp_begin();
	sp_seccomp_take_back();
	cr_expect(sp_seccomp_is_on());
	sp_seccomp_take_back();

	cr_expect_not(sp_seccomp_is_on());
}

Test(seccomp, nothing_is_asked_of_the_kernel_below_a_filter)
{
	uint64_t ns = 7;

	sp_process_set();
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert(sp_process_is_ours());

	sp_seccomp_begin();

	cr_expect_not(sp_process_is_ours());
	cr_expect_not(sp_cpu_clock_ns(CLOCK_THREAD_CPUTIME_ID, &ns));
	cr_expect_eq(ns, 7);
	cr_expect_null(sp_arena_map(4096));
	cr_expect_null(sp_thread_self());
	cr_expect_null(sp_thread_claim());
	cr_expect_eq(sp_count_read(SP_COUNT_UNARMED_SECCOMP), 1);
}
