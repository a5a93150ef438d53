/* SPDX-License-Identifier: Apache-2.0 */
/* Lines as the kernel writes them: the number of the call, its arguments, stack pointer and address. */
#include "sampler/base/masking_call.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <sys/syscall.h>

static bool is_masking(long number, const char *arguments)
{
	char line[256];

	(void)snprintf(line, sizeof(line), "%ld %s 0x7ffc10 0x7f0001\n", number, arguments);
	return sp_masking_call(line);
}

Test(masking_call, is_a_wait_for_signals)
{
	cr_expect(is_masking(SYS_rt_sigtimedwait, "0x0 0x0 0x0 0x0 0x0 0x0"));
	cr_expect(is_masking(SYS_rt_sigsuspend, "0x0 0x0 0x0 0x0 0x0 0x0"));
}

Test(masking_call, is_a_wait_that_was_given_a_mask)
{
	cr_expect(is_masking(SYS_ppoll, "0x1 0x1 0x0 0x7f10 0x8 0x0"));
	cr_expect(is_masking(SYS_pselect6, "0x1 0x0 0x0 0x0 0x0 0x7f10"));
	cr_expect(is_masking(SYS_epoll_pwait, "0x3 0x7f00 0x1 0xffffffff 0x7f10 0x8"));
	cr_expect(is_masking(441 /* epoll_pwait2 */, "0x3 0x7f00 0x1 0x0 0x7f10 0x8"));
	cr_expect(is_masking(SYS_io_pgetevents, "0x3 0x1 0x1 0x7f00 0x0 0x7f10"));
	cr_expect(is_masking(SYS_io_uring_enter, "0x3 0x0 0x1 0x1 0x7f10 0x8"));
}

Test(masking_call, is_none_without_a_mask)
{
	cr_expect_not(is_masking(SYS_ppoll, "0x1 0x1 0x0 0x0 0x8 0x0"));
	cr_expect_not(is_masking(SYS_epoll_pwait, "0x3 0x7f00 0x1 0xffffffff 0x0 0x8"));
	cr_expect_not(is_masking(441 /* epoll_pwait2 */, "0x3 0x7f00 0x1 0x0 0x0 0x8"));
	cr_expect_not(is_masking(SYS_io_uring_enter, "0x3 0x0 0x1 0x1 0x0 0x0"));
	cr_expect_not(is_masking(SYS_read, "0x1 0x1 0x1 0x1 0x1 0x1"));
	cr_expect_not(sp_masking_call("running\n"));
}
