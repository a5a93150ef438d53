/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions of the seccomp filters of the profiler's own processes (seccomp(2)). Any context. */
#ifndef SP_SECCOMP_FILTER_H
#define SP_SECCOMP_FILTER_H

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__)
#define SP_FILTER_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define SP_FILTER_ARCH AUDIT_ARCH_AARCH64
#else
#error "filters are written for x86-64 and aarch64"
#endif

/* Loads a field of struct seccomp_data, or the lower half of an argument of the call. */
#define SP_FILTER_LOAD(field)                                                                      \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offsetof(struct seccomp_data, field))
#define SP_FILTER_LOAD_ARG(n) SP_FILTER_LOAD(args[n])

/* If the loaded value equals `value`, skips `then` instructions, else `otherwise` instructions. */
#define SP_FILTER_IF(value, then, otherwise)                                                       \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), then, otherwise)

#define SP_FILTER_ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* The call fails with EPERM. */
#define SP_FILTER_REFUSE BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

/*
 * The beginning of each filter: refuses calls of another architecture, which have other numbers,
 * and then loads the number of the call.
 */
#define SP_FILTER_BEGIN                                                                            \
	SP_FILTER_LOAD(arch), SP_FILTER_IF(SP_FILTER_ARCH, 1, 0), SP_FILTER_REFUSE,                \
		SP_FILTER_LOAD(nr)

#endif
