/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes and the few macros that every file may use. */
#ifndef SP_COMPILER_H
#define SP_COMPILER_H

/* Visible to the dynamic loader; everything else is hidden by -fvisibility=hidden. */
#define SP_EXPORT __attribute__((visibility("default")))

/*
 * Declares data of another file of our object, so that it is read without the global offset table
 * (-fvisibility=hidden affects only definitions). For data that every span reads.
 */
#define SP_HIDDEN extern __attribute__((visibility("hidden")))

/*
 * Thread-local storage of the preloaded object. Initial-exec because we are loaded at program
 * start: reads are one instruction, never allocate, and are safe inside a signal handler. Static
 * TLS comes out of every thread's stack, so the whole object may use at most 256 bytes of it.
 */
#define SP_TLS __thread __attribute__((tls_model("initial-exec")))

/*
 * Marks a function that may run in the sampling signal handler; check-sigsafe.sh proves that it
 * may.
 */
#define SP_SIGSAFE

/*
 * For functions that read any thread's stack: the sanitizers must not report the red zones there.
 */
#define SP_RAW __attribute__((no_sanitize("address"), no_sanitize("thread")))

#define SP_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SP_UNUSED __attribute__((unused))
#define SP_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/*
 * The option of prctl(2) that gives memory a name in /proc/PID/maps, with address, bytes and name (linux/prctl.h,
 * Linux 5.17: PR_SET_VMA, PR_SET_VMA_ANON_NAME; headers may be older).
 */
#define SP_MEMORY_NAME_OPTION 0x53564d41
#define SP_MEMORY_NAME_ANON 0

#define SP_VERSION "0.1.0"

#define SP_NS_PER_S UINT64_C(1000000000)
#define SP_NS_PER_MS UINT64_C(1000000)

#endif
