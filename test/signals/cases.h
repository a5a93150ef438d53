/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signal suite's cases: ordinary uses of signals, each a function that uses CPU time meanwhile
 * and prints what a program can see of its signals. A profiler must not change a word of it.
 * Run by main.c, one case per process.
 */
#ifndef TEST_SIGNALS_CASES_H
#define TEST_SIGNALS_CASES_H

/* X(name, what the table says) */
// clang-format off
#define FOR_EACH_CASE(X) \
	X(reset_signal, "`signal(n, SIG_DFL)` for every n, in a loop") \
	X(reset_sigaction, "the same by `sigaction`") \
	X(ignore_signal, "`signal(n, SIG_IGN)` for every n, in a loop") \
	X(reset_raw, "our own signal reset by the raw system call") \
	X(set_and_read, "handlers set and read back, in a loop") \
	X(one_shot, "`SA_RESETHAND`") \
	X(variants, "`sysv_signal`, `bsd_signal`, `ssignal`, `sigset`, `sigignore`, `siginterrupt`") \
	X(sigwait, "`sigwait` on a full set in a thread, all threads block all") \
	X(sigwaitinfo, "the same with `sigwaitinfo`") \
	X(sigtimedwait, "the same with `sigtimedwait`") \
	X(signalfd, "the same with `signalfd`") \
	X(sigsuspend, "`sigsuspend` with an empty mask") \
	X(blanket_threads, "threads that block all (thread pool of nginx)") \
	X(blanket_inherited, "threads born with all blocked (HAProxy, asio)") \
	X(blanket_sections, "critical sections that block all") \
	X(own_section, "critical sections that block just one signal") \
	X(blanket_polls, "all blocked, `ppoll`, `pselect`, `epoll_pwait` with an empty mask") \
	X(full_polls, "nothing blocked, the same with a full mask") \
	X(blanket_jump, "masks kept by `sigsetjmp` and `swapcontext`") \
	X(out_of_band, "`SIGURG` for out-of-band data") \
	X(from_outside, "a handler for a signal that another process sends") \
	X(blocked_from_outside, "a signal sent from outside while all is blocked") \
	X(interruptions, "waits of every kind: no `EINTR` more than without us") \
	X(alternate_stack, "a `SIGSEGV` handler that works on a 16 KiB alternate stack") \
	X(coroutines, "`makecontext` coroutines with 16 KiB stacks")
// clang-format on

#define DECLARE_CASE_(name, words) void case_##name(int signo);
FOR_EACH_CASE(DECLARE_CASE_)
#undef DECLARE_CASE_

#endif
