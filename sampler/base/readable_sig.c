/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks the kernel whether memory can be read, by a system call that copies bytes from there:
 * reading an unmapped page ourselves would be a SIGSEGV in the host, while the kernel answers
 * EFAULT.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/base/readable_sig.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/seccomp.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define BYTES 8U

/*
 * Valgrind checks the bytes that it knows a system call will read, and reports bytes that were
 * never written, which most of a stack is. Of process_vm_readv() it checks only the vectors.
 * Outside of valgrind this call is not used, because sandboxes refuse it, and some kill the
 * process.
 */
static bool readable_on_valgrind(uintptr_t address)
{
	uint8_t copy[BYTES];
	struct iovec to = {copy, BYTES};
	struct iovec from = {(void *)address, BYTES};
	int saved = errno;
	long n = sp_syscall_always(SYS_process_vm_readv, sp_syscall_always(SYS_getpid), &to, 1L,
				   &from, 1L, 0L);

	errno = saved;
	return n == (long)BYTES;
}

/*
 * rt_sigprocmask copies the new set before it checks `how`. So with an invalid `how` it changes
 * nothing, and fails with EFAULT if the set cannot be read, else with EINVAL (linux 6.1). A null
 * set means "no set", and the call succeeds.
 */
bool sp_readable(uintptr_t address)
{
	if (address == 0 || sp_seccomp_is_on())
		return false;
	if (sp_arch_on_valgrind())
		return readable_on_valgrind(address);
	return sp_arch_syscall(SYS_rt_sigprocmask, -1, (long)address, 0, BYTES) != -EFAULT;
}
