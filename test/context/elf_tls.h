/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process has the thread-local variable otel_thread_ctx_v1, as an eBPF profiler finds it. */
#ifndef TEST_CONTEXT_ELF_TLS_H
#define TEST_CONTEXT_ELF_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Looks through the objects that the process has mapped for one that defines the variable and has a
 * TLS descriptor for it. *offset is from the thread pointer. False if there is none, or the
 * variable has no offset that is the same in all threads.
 */
bool elf_tls_find(pid_t pid, int64_t *offset);

#endif
