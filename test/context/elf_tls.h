/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the thread-local variable otel_thread_ctx_v1 of a process, like an eBPF profiler. */
#ifndef TEST_CONTEXT_ELF_TLS_H
#define TEST_CONTEXT_ELF_TLS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Searches the process for an object that defines the variable and has a TLS descriptor for the variable. *offset is
 * relative to the thread pointer. False if there is no such object, or if the variable's offset differs between
 * threads.
 */
bool elf_tls_find(pid_t pid, int64_t *offset);

#endif
