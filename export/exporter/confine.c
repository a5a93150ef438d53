/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a seccomp filter over the exporter itself (confine.h). The exporter parses data that others
 * wrote: a mistake there must not give an attacker more than an exporter needs. The filter refuses
 * the calls that the exporter never makes. A list of allowed calls would break: libcurl and the C
 * library load what the machine's name services need, and their calls change with each release. A
 * refused call returns an error, as on a kernel that does not have it.
 *
 * There is no Landlock domain: from inside a domain the kernel allows no access to processes
 * outside (ptrace(2), access mode checks), so the exporter could read no memory map, root or stack
 * of its hosts. Context: the exporter, at start.
 */
#include "export/exporter/confine.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

#include "sampler/base/seccomp_filter.h"

/*
 * Calls of the x32 ABI have this bit, and would get around the list. No other call has so high a
 * number.
 */
#define OTHER_ABI 0x40000000U

/* Numbers that the headers may not have yet; the same on all architectures. */
enum {
	IO_URING_SETUP = 425,
	IO_URING_ENTER = 426,
	IO_URING_REGISTER = 427,
	OPEN_TREE = 428,
	MOVE_MOUNT = 429,
	FSOPEN = 430,
	FSMOUNT = 432,
	PROCESS_MADVISE = 440,
	MOUNT_SETATTR = 442,
};

#define REFUSE_CALL(number) SP_FILTER_IF(number, 0, 1), SP_FILTER_REFUSE

static struct sock_filter filter[] = {
	SP_FILTER_BEGIN,
	BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, OTHER_ABI, 0, 1),
	SP_FILTER_REFUSE,
	/* programs */
	REFUSE_CALL(SYS_execve),
	REFUSE_CALL(SYS_execveat),
	/* other processes */
	REFUSE_CALL(SYS_ptrace),
	REFUSE_CALL(SYS_process_vm_writev),
	REFUSE_CALL(PROCESS_MADVISE),
	/* namespaces, mounts, roots */
	REFUSE_CALL(SYS_unshare),
	REFUSE_CALL(SYS_setns),
	REFUSE_CALL(SYS_mount),
	REFUSE_CALL(SYS_umount2),
	REFUSE_CALL(SYS_pivot_root),
	REFUSE_CALL(SYS_chroot),
	REFUSE_CALL(OPEN_TREE),
	REFUSE_CALL(MOVE_MOUNT),
	REFUSE_CALL(FSOPEN),
	REFUSE_CALL(FSMOUNT),
	REFUSE_CALL(MOUNT_SETATTR),
	REFUSE_CALL(SYS_open_by_handle_at),
	/* the kernel and the machine */
	REFUSE_CALL(SYS_init_module),
	REFUSE_CALL(SYS_finit_module),
	REFUSE_CALL(SYS_delete_module),
	REFUSE_CALL(SYS_kexec_load),
	REFUSE_CALL(SYS_bpf),
	REFUSE_CALL(SYS_perf_event_open),
	REFUSE_CALL(SYS_reboot),
	REFUSE_CALL(SYS_swapon),
	REFUSE_CALL(SYS_swapoff),
	REFUSE_CALL(SYS_acct),
	REFUSE_CALL(SYS_settimeofday),
	REFUSE_CALL(SYS_clock_settime),
	REFUSE_CALL(SYS_sethostname),
	REFUSE_CALL(SYS_syslog),
	/* interfaces in which most mistakes of the kernel were found */
	REFUSE_CALL(SYS_userfaultfd),
	REFUSE_CALL(SYS_add_key),
	REFUSE_CALL(SYS_request_key),
	REFUSE_CALL(SYS_keyctl),
	REFUSE_CALL(SYS_personality),
	REFUSE_CALL(IO_URING_SETUP),
	REFUSE_CALL(IO_URING_ENTER),
	REFUSE_CALL(IO_URING_REGISTER),
	SP_FILTER_ALLOW,
};

bool sp_confine(void)
{
	const struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}
