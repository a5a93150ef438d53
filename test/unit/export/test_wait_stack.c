/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of blocked threads of this process, from sp and pc alone. */
#define _GNU_SOURCE
#include "export/off_cpu/wait_stack.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core_double.h"
#include "test/unit/emulated.h"
#include "test/unit/scratch.h"
#include "tiny_library.h"

#define NOINLINE __attribute__((noinline))

static struct sp_host_objects *host;
static struct sp_unwinder *unwinder;
static struct sp_wait_stacks *stacks;
static struct sp_sample got;
static int pipes[2];
static _Atomic uint32_t tid;
static void *want[2]; /* expected return addresses, from the leaf */
static volatile size_t alloca_bytes = 3000;

static unsigned copies; /* copies of stacks, which are larger than words */

ssize_t process_vm_readv(pid_t pid, const struct iovec *local, unsigned long locals,
			 const struct iovec *remote, unsigned long remotes, unsigned long flags)
{
	copies += local[0].iov_len > 64;
	return syscall(SYS_process_vm_readv, pid, local, locals, remote, remotes, flags);
}

static void set_up(void)
{
	core_reset();
	core.ops.proc = "/proc/self";
	core.ops.pid = (uint32_t)getpid();
	core.config.stack_depth = 64;
	host = sp_host_objects_new("/proc/self", -1);
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	unwinder = sp_unwinder_new(host);
	stacks = sp_wait_stacks_new(&core.ops, unwinder);
	cr_assert_not_null(stacks);
	cr_assert_eq(pipe(pipes), 0);
}

static void tear_down(void)
{
	sp_wait_stacks_free(stacks);
	sp_unwinder_free(unwinder);
	sp_host_objects_free(host);
}

TestSuite(wait_stack, .init = set_up, .fini = tear_down, .timeout = 20);

/* KiB that are mapped for data, as RLIMIT_DATA counts them. */
static long mapped_kib(void)
{
	long field[6] = {0};
	FILE *f = fopen("/proc/self/statm", "r");

	cr_assert_not_null(f);
	for (unsigned i = 0; i < 6; i++)
		cr_assert_eq(fscanf(f, "%ld", &field[i]), 1);
	fclose(f);
	return field[5] * (sysconf(_SC_PAGESIZE) / 1024);
}

/* An exporter serves a thousand processes, and its mappings are limited. */
Test(wait_stack, takes_little_memory_for_each_process)
{
	struct sp_wait_stacks *all[256];
	long before = mapped_kib();

	for (unsigned i = 0; i < 256; i++) {
		all[i] = sp_wait_stacks_new(&core.ops, unwinder);
		cr_assert_not_null(all[i]);
	}
	cr_expect_leq(mapped_kib() - before, 16384, "%ld KiB", mapped_kib() - before);
	for (unsigned i = 0; i < 256; i++)
		sp_wait_stacks_free(all[i]);
}

/* The C library's read() saves no frame pointer, so its caller's frame pointer is unknown. */
static inline __attribute__((always_inline)) void block(void)
{
	char byte;

	tid = (uint32_t)syscall(SYS_gettid);
	cr_assert_eq(read(pipes[0], &byte, 1), 1);
	__asm__ volatile("" ::: "memory");
}

static NOINLINE void block_in_alloca(void)
{
	volatile char *room = __builtin_alloca(alloca_bytes);

	want[0] = __builtin_return_address(0);
	room[0] = 1;
	block();
	room[1] = 1;
}

static NOINLINE void *call_alloca(void *arg)
{
	want[1] = __builtin_return_address(0);
	block_in_alloca();
	__asm__ volatile("" ::: "memory");
	return arg;
}

static uint64_t blocks_in = SYS_read;

static uint32_t wait_until_blocked(struct sp_task_place *place)
{
	for (unsigned i = 0; i < 10000; i++) {
		if (tid != 0 && sp_wait_stacks_place(stacks, tid, place) == 0 &&
		    place->state == SP_TASK_CALLS && place->number == blocks_in)
			return tid;
		usleep(1000);
	}
	cr_assert_fail("the thread does not block");
	return 0;
}

#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer's read() has frames that need the frame pointer */

/* clang keeps frame pointers only as an option for a whole file; the test is the same then. */
#ifdef __clang__
#define WITH_FRAME_POINTER __attribute__((noinline))
#else
#define WITH_FRAME_POINTER __attribute__((noinline, optimize("no-omit-frame-pointer")))
#endif

static WITH_FRAME_POINTER void block_with_frame_pointer(void)
{
	want[0] = __builtin_return_address(0);
	block();
}

static NOINLINE void *call_with_frame_pointer(void *arg)
{
	want[1] = __builtin_return_address(0);
	block_with_frame_pointer();
	__asm__ volatile("" ::: "memory");
	return arg;
}

/* Larger than the part of a stack that is copied first. */
static NOINLINE void block_below_an_array(void)
{
	char array[48 << 10];

	want[0] = __builtin_return_address(0);
	__asm__ volatile("" : : "r"(array) : "memory");
	block();
}

static NOINLINE void *call_with_array(void *arg)
{
	want[1] = __builtin_return_address(0);
	block_below_an_array();
	__asm__ volatile("" ::: "memory");
	return arg;
}

static void (*volatile by_pointer)(void) = block_in_alloca;

static NOINLINE void *call_by_pointer(void *arg)
{
	want[1] = __builtin_return_address(0);
	by_pointer();
	__asm__ volatile("" ::: "memory");
	return arg;
}

#ifdef __x86_64__
static void (*volatile slot)(void) = block_in_alloca;

/* Code that is compiled with -fno-plt calls other objects like this. */
static NOINLINE void *call_by_slot(void *arg)
{
	want[1] = __builtin_return_address(0);
	__asm__ volatile("sub $128, %%rsp\n\tcall *%0\n\tadd $128, %%rsp"
			 :
			 : "m"(slot)
			 : "memory", "cc", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10",
			   "r11");
	return arg;
}
#endif

/* The thread goes on afterwards, and was never interrupted: its read() returned one byte. */
static void walk(void *(*entry)(void *arg))
{
	struct sp_task_place place;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, entry, NULL), 0);
	cr_assert_eq(sp_wait_stacks_walk(stacks, wait_until_blocked(&place), &place, &got), 0);
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	pthread_join(thread, NULL);
}

/* The index of the frame with that return address, searched from frame i on. */
static unsigned expect_return(unsigned i, const void *address)
{
	while (i < got.depth && got.pc[i] != (uint64_t)(uintptr_t)address - 1)
		i++;
	cr_assert_lt(i, got.depth, "the return to %p is missing", address);
	return i;
}

/* An upgrade replaces files of running programs. The mapped object stays the same, and stacks lead through it. */
Test(wait_stack, leads_through_an_object_whose_file_was_replaced)
{
	char path[TINY_PATH_MAX], other[TINY_PATH_MAX];
	const uint8_t *code;
	uint8_t byte[16];
	void *library;

	if (emulated())
		cr_skip_test("the emulator shows its own memory");
	tiny_library("-g", path);
	tiny_library("-g -O0", other);
	library = dlopen(path, RTLD_NOW);
	cr_assert_not_null(library, "%s", dlerror());
	code = dlsym(library, "outer");
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	cr_assert_eq(rename(other, path), 0);
	/* In a folder for temporary files the exporter holds the mapped file. */
	cr_expect(sp_host_objects_read(host, (uintptr_t)code, byte, sizeof(byte)));
	cr_expect_eq(memcmp(byte, code, sizeof(byte)), 0);
	walk(call_alloca);
	cr_assert(sp_host_objects_read(host, (uintptr_t)code, byte, sizeof(byte)));
	cr_expect_eq(memcmp(byte, code, sizeof(byte)), 0);
	sp_wait_stacks_free(stacks);
	stacks = NULL;
	cr_expect_not(sp_host_objects_read_own(host, (uintptr_t)code, byte, sizeof(byte)));
	dlclose(library);
	(void)unlink(path);
}

Test(wait_stack, goes_on_through_alloca)
{
	unsigned at;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	walk(call_alloca);
	at = expect_return(0, want[0]);
	cr_expect_eq(expect_return(at, want[1]), at + 1);
	cr_expect_eq(at, 2, "read(), its caller, and then");
	cr_expect(got.flags & SP_SAMPLE_ROOTED);
}

/* A walk that is cut because enough frames were found does not copy more of the stack. */
Test(wait_stack, is_copied_once_where_no_more_frames_are_wanted)
{
	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	core.config.stack_depth = 2;
	walk(call_alloca);
	cr_expect_eq(got.depth, 2);
	cr_expect_eq(copies, 1);
}

Test(wait_stack, goes_on_through_frame_pointers)
{
	unsigned at;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	walk(call_with_frame_pointer);
	at = expect_return(0, want[0]);
	cr_expect_eq(expect_return(at, want[1]), at + 1);
	cr_expect_eq(at, 2, "read(), its caller, and then");
	cr_expect(got.flags & SP_SAMPLE_ROOTED);
}

Test(wait_stack, goes_on_behind_an_array)
{
	unsigned at;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	walk(call_with_array);
	at = expect_return(0, want[0]);
	cr_expect_eq(expect_return(at, want[1]), at + 1);
	cr_expect(got.flags & SP_SAMPLE_ROOTED);
}

/* The stack ends, and behind it is a large mapping of the thread's creator, which must not be searched to its end. */
Test(wait_stack, is_not_searched_for_far_behind_the_stack)
{
	size_t stack = (size_t)256 << 10, behind = (size_t)4 << 20;
	struct sp_task_place place;
	pthread_attr_t attr;
	pthread_t thread;
	void *at = mmap(NULL, stack + behind, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	cr_assert_neq(at, MAP_FAILED);
	pthread_attr_init(&attr);
	cr_assert_eq(pthread_attr_setstack(&attr, at, stack), 0);
	cr_assert_eq(pthread_create(&thread, &attr, call_by_pointer, NULL), 0);
	cr_assert_eq(sp_wait_stacks_walk(stacks, wait_until_blocked(&place), &place, &got), 0);
	cr_expect_not(got.flags & SP_SAMPLE_TRUNCATED, "what there was to search was searched");
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	pthread_join(thread, NULL);
}

/* Not on aarch64, where these frames are found without the frame pointer. */
#ifdef __x86_64__
/* The memory of the host contains the target of such a call. */
Test(wait_stack, goes_on_through_a_call_by_a_slot)
{
	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	walk(call_by_slot);
	cr_expect_eq(expect_return(0, want[0]), 2);
	cr_expect(got.flags & SP_SAMPLE_ROOTED);
}
#endif

#ifdef __x86_64__
/*
 * A read() that keeps its return address only in a register meanwhile: in one with an argument of the system call,
 * which the kernel shows, or in another one.
 */
#define READ_WITH_RETURN_IN(reg)                                                                   \
	__asm__(".pushsection .text\n"                                                             \
		".type read_with_return_in_" #reg ", @function\n"                                  \
		"read_with_return_in_" #reg ":\n"                                                  \
		".cfi_startproc\n"                                                                 \
		"pushq %" #reg "\n"                                                                \
		".cfi_adjust_cfa_offset 8\n"                                                       \
		"movq 8(%rsp), %" #reg "\n"                                                        \
		".cfi_register %rip, %" #reg "\n"                                                  \
		"movq $0, 8(%rsp)\n"                                                               \
		"xorl %eax, %eax\n"                                                                \
		"syscall\n"                                                                        \
		"movq %" #reg ", 8(%rsp)\n"                                                        \
		".cfi_offset %rip, -8\n"                                                           \
		"popq %" #reg "\n"                                                                 \
		".cfi_adjust_cfa_offset -8\n"                                                      \
		"ret\n"                                                                            \
		".cfi_endproc\n"                                                                   \
		".popsection\n");                                                                  \
	ssize_t read_with_return_in_##reg(int fd, void *to, size_t bytes);                         \
	static NOINLINE void block_with_return_in_##reg(void)                                      \
	{                                                                                          \
		char byte;                                                                         \
                                                                                                   \
		want[0] = __builtin_return_address(0);                                             \
		tid = (uint32_t)syscall(SYS_gettid);                                               \
		cr_assert_eq(read_with_return_in_##reg(pipes[0], &byte, 1), 1);                    \
	}                                                                                          \
                                                                                                   \
	static NOINLINE void *call_with_return_in_##reg(void *arg)                                 \
	{                                                                                          \
		block_with_return_in_##reg();                                                      \
		__asm__ volatile("" ::: "memory");                                                 \
		return arg;                                                                        \
	}

READ_WITH_RETURN_IN(r8)
READ_WITH_RETURN_IN(r15)

Test(wait_stack, goes_on_with_a_return_address_among_the_arguments)
{
	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	walk(call_with_return_in_r8);
	cr_expect_eq(expect_return(0, want[0]), 2, "the read, its caller, and then");
	cr_expect(got.flags & SP_SAMPLE_ROOTED);
}

Test(wait_stack, is_not_whole_where_the_return_address_is_not_known)
{
	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	walk(call_with_return_in_r15);
	cr_expect_eq(got.depth, 1, "%u", got.depth);
	cr_expect_not(got.flags & SP_SAMPLE_ROOTED);
}
#endif

static NOINLINE void block_in_vfork(void)
{
	pid_t pid;

	want[0] = __builtin_return_address(0);
	tid = (uint32_t)syscall(SYS_gettid);
	pid = vfork();
	if (pid == 0) {
		char byte;

		_exit(read(pipes[0], &byte, 1) == 1 ? 0 : 1);
	}
	cr_expect_eq(waitpid(pid, NULL, 0), pid);
}

static NOINLINE void *call_vfork(void *arg)
{
	want[1] = __builtin_return_address(0);
	block_in_vfork();
	__asm__ volatile("" ::: "memory");
	return arg;
}

/* vfork() keeps its return address in a register, because the child uses the stack. */
Test(wait_stack, of_vfork_has_its_callers)
{
	unsigned at;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
#ifdef SYS_vfork
	blocks_in = SYS_vfork;
#else
	blocks_in = SYS_clone;
#endif
	walk(call_vfork);
	at = expect_return(0, want[0]);
	cr_expect_eq(expect_return(at, want[1]), at + 1);
	cr_expect_eq(at, 2, "vfork(), its caller, and then");
	cr_expect(got.flags & SP_SAMPLE_ROOTED);
}

Test(wait_stack, ends_where_no_call_says_whom_it_calls)
{
	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	walk(call_by_pointer);
#ifdef __aarch64__
	cr_expect_eq(expect_return(0, want[0]), 2);
	cr_expect(got.flags & SP_SAMPLE_ROOTED);
#else
	cr_expect_eq(got.depth, 2, "read() and its caller");
	cr_expect_not(got.flags & SP_SAMPLE_ROOTED);
#endif
}

#endif

Test(wait_stack, of_a_thread_that_has_gone_on_is_none)
{
	struct sp_task_place place;
	pthread_t thread;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	cr_assert_eq(pthread_create(&thread, NULL, call_alloca, NULL), 0);
	(void)wait_until_blocked(&place);
	cr_assert_eq(write(pipes[1], "x", 1), 1);
	pthread_join(thread, NULL);
	cr_expect_lt(sp_wait_stacks_walk(stacks, tid, &place, &got), 0);
	/* The kernel reports the end of a thread a moment before it is gone. */
	while (sp_wait_stacks_place(stacks, tid, &place) == 0)
		sched_yield();
	cr_expect_eq(sp_wait_stacks_place(stacks, tid, &place), -ESRCH);
	cr_expect_null(sp_wait_stacks_refusal(stacks), "an end is no refusal");
}

/* A host may write the id of a thread of another process. */
Test(wait_stack, of_a_thread_of_another_process_is_none)
{
	struct sp_task_place place;

	cr_expect_eq(sp_wait_stacks_place(stacks, (uint32_t)getppid(), &place), -ESRCH);
}

static unsigned asked;
static bool is_asked;

static void count_asked(void *self)
{
	(void)self;
	asked++;
	is_asked = true;
}

static bool still_asked(void *self)
{
	(void)self;
	return is_asked;
}

/* Starts a process that is not dumpable, and for which this process has no capability. It is the host from now on. */
static pid_t start_untraceable(void)
{
	static char proc[32];
	int ends[2];
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct none[2] = {{.effective = 0}};
	char byte;
	pid_t pid;

	cr_assert_eq(syscall(SYS_capset, &header, none), 0);
	cr_assert_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_DUMPABLE, 0);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)write(ends[1], "x", 1);
		for (;;)
			(void)pause();
	}
	cr_assert_gt(pid, 0);
	cr_assert_eq(read(ends[0], &byte, 1), 1);
	(void)snprintf(proc, sizeof(proc), "/proc/%d", pid);
	core.ops.proc = proc;
	core.ops.ask_tracer = count_asked;
	core.ops.is_tracer_asked = still_asked;
	scratch_make();
	return pid;
}

static void end_untraceable(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	scratch_remove();
}

static void expect_refusal(const char *why, unsigned asks)
{
	cr_assert_not_null(sp_wait_stacks_refusal(stacks));
	cr_expect_str_eq(sp_wait_stacks_refusal(stacks), why);
	cr_expect_not(sp_wait_stacks_may_try(stacks), "until some time has passed");
	cr_expect_eq(asked, asks, "asked %u times", asked);
	asked = 0;
}

#ifndef __SANITIZE_ADDRESS__
Test(wait_stack, leads_through_no_memory_that_may_not_be_read_any_more)
{
	struct sp_task_place found;
	uint8_t byte;
	pid_t pid;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	walk(call_alloca);
	cr_expect(sp_host_objects_read_own(host, (uintptr_t)want, &byte, 1));
	pid = start_untraceable();
	sp_wait_stacks_yama = in_scratch("none");
	cr_expect_lt(sp_wait_stacks_place(stacks, (uint32_t)pid, &found), 0);
	cr_expect_not(sp_host_objects_read_own(host, (uintptr_t)want, &byte, 1));
	end_untraceable(pid);
}
#endif

Test(wait_stack, of_a_process_that_may_not_be_traced_is_refused_and_yama_asked)
{
	static const struct {
		const char *scope;
		const char *of_place;
		const char *of_stack;
		unsigned asks;
	} rows[] = {
		{"0\n", "the program is not dumpable, or another user's",
		 "process_vm_readv is not allowed", 0},
		{"1\n", "Yama needs the program's permission",
		 "Yama needs the program's permission", 1},
		{"2\n", "Yama forbids it", "Yama forbids it", 0},
		{"3\n", "Yama forbids it", "Yama forbids it", 0},
		{NULL, "the program is not dumpable, or another user's",
		 "process_vm_readv is not allowed", 0},
	};
	struct sp_task_place place = {.state = SP_TASK_CALLS, .sp = 1U << 20, .pc = 1U << 20};
	struct sp_task_place found;
	pid_t pid;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	pid = start_untraceable();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		sp_wait_stacks_yama = in_scratch("none");
		if (rows[i].scope != NULL)
			sp_wait_stacks_yama = scratch_write("scope", rows[i].scope, 2);
		cr_expect_lt(sp_wait_stacks_place(stacks, (uint32_t)pid, &found), 0);
		expect_refusal(rows[i].of_place, rows[i].asks);
		cr_expect_lt(sp_wait_stacks_walk(stacks, (uint32_t)pid, &place, &got), 0);
		expect_refusal(rows[i].of_stack, rows[i].asks);
	}
	end_untraceable(pid);
}

/* The next attempt must not wait two seconds: the host may have ended by then. */
Test(wait_stack, is_looked_for_as_soon_as_the_host_gave_leave)
{
	struct sp_task_place found;
	pid_t pid;

	if (emulated())
		cr_skip_test("the emulator shows itself in /proc");
	pid = start_untraceable();
	sp_wait_stacks_yama = scratch_write("scope", "1\n", 2);
	cr_assert_lt(sp_wait_stacks_place(stacks, (uint32_t)pid, &found), 0);
	cr_expect_not(sp_wait_stacks_may_try(stacks), "it has not given it yet");
	cr_assert_lt(sp_wait_stacks_place(stacks, (uint32_t)pid, &found), 0);
	is_asked = false;
	cr_expect(sp_wait_stacks_may_try(stacks));
	cr_assert_lt(sp_wait_stacks_place(stacks, (uint32_t)pid, &found), 0);
	is_asked = false;
	cr_expect_not(sp_wait_stacks_may_try(stacks), "it gave it, and that was of no use");
	end_untraceable(pid);
}

Test(wait_stack, at_any_address_is_bounded)
{
	static const uint64_t at[] = {0,
				      8,
				      4096,
				      1U << 20,
				      UINT64_MAX,
				      UINT64_MAX - 7,
				      UINT64_C(1) << 47,
				      (UINT64_C(1) << 47) - 8};
	struct sp_task_place place = {.state = SP_TASK_CALLS, .number = SYS_read};

	for (unsigned i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
		place.sp = at[i];
		place.pc = at[(i + 3) % (sizeof(at) / sizeof(at[0]))];
		cr_expect_lt(sp_wait_stacks_walk(stacks, (uint32_t)getpid(), &place, &got), 0);
	}
}
