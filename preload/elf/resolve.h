/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The real functions behind our hooks, and the few libc functions that older glibc keeps outside
 * libc.so.6. One row per symbol; a found address is cached, a failure never is. APP.
 */
#ifndef SP_RESOLVE_H
#define SP_RESOLVE_H

// clang-format off
#define SP_FOR_EACH_NEXT(X) \
	X(otel_tracer_start_span) \
	X(otel_tracer_start_span_with_context) \
	X(otel_tracer_start_span_ex) \
	X(otel_span_update_name) \
	X(otel_span_end) \
	X(otel_span_destroy) \
	X(otel_span_get_context) \
	X(otel_span_context_trace_id) \
	X(otel_span_context_span_id) \
	X(otel_span_context_trace_flags) \
	X(otel_span_context_destroy) \
	X(otel_span_set_string_attribute) \
	X(otel_span_set_int64_attribute) \
	X(otel_span_set_bool_attribute) \
	X(otel_span_set_double_attribute) \
	X(otel_span_set_attribute) \
	X(otel_span_set_status) \
	X(otel_context_attach) \
	X(otel_context_scope_detach) \
	X(otel_context_current) \
	X(otel_context_span_context) \
	X(otel_context_destroy) \
	X(otel_last_error_message) \
	X(otel_api_set_last_error) \
	X(otel_api_clear_last_error) \
	X(__libc_start_main) \
	X(pthread_create) \
	X(pthread_exit) \
	X(pthread_attr_getstacksize) \
	X(thrd_create) \
	X(fork) \
	X(_exit) \
	X(_Exit) \
	X(quick_exit) \
	X(execve) \
	X(execv) \
	X(execvp) \
	X(execvpe) \
	X(execl) \
	X(execle) \
	X(execlp) \
	X(fexecve) \
	X(execveat) \
	X(prctl) \
	X(syscall) \
	X(ptrace) \
	X(chroot) \
	X(setrlimit) \
	X(setrlimit64) \
	X(prlimit) \
	X(prlimit64) \
	X(setuid) \
	X(setreuid) \
	X(setresuid) \
	X(sigaction) \
	X(sigaltstack) \
	X(getenv) \
	X(__register_atfork) \
	X(dlerror) \
	X(dlsym) \
	X(_dl_find_object)
// clang-format on

#define SP_NEXT_ENUM_(sym) SP_NEXT_##sym,
struct sp_elf_range;

enum sp_next { SP_FOR_EACH_NEXT(SP_NEXT_ENUM_) SP_NEXT_N };

/* The rows before this one are functions of SDKs; from here on they are the C library's. */
#define SP_NEXT_SDK_N SP_NEXT___libc_start_main

const char *sp_next_name(enum sp_next which);

/* The address, or NULL when no loaded object after ours defines the symbol (yet). */
void *sp_next(enum sp_next which);

/* The address as a typed function pointer; sym must be declared. */
#define SP_NEXT(sym) ((__typeof__(&(sym)))sp_next(SP_NEXT_##sym))

/* The address if it is in the cache, else NULL; asks the loader nothing. */
void *sp_next_known(enum sp_next which);

/*
 * INIT. Finds the C library's functions of the list, so that a hook in a forked child never waits
 * for the loader's lock, which another thread of the host may have held at the fork.
 */
void sp_next_early(void);

/*
 * Fills in the SDKs' functions: the definitions of that object; for a function that it does not
 * define, the definition of any object after ours. NULL = no object defines it.
 */
void sp_next_sdk(const struct sp_elf_range *object, void *found[SP_NEXT_SDK_N]);

/* The first definition of that name; NULL = none. */
void *sp_resolve(const char *name);

/*
 * SP_TAIL_CALL defines a function that asks another function for an address and jumps there, with
 * the stack and the arguments of its caller. It is for functions whose calls C cannot hand on:
 * functions with "...", and functions that read their return address. Integer arguments in
 * registers are handed on (System V AMD64: six, and al for "..."; AAPCS64: eight), vector arguments
 * are not.
 *
 * All three parameters are strings. target is a function that takes the same arguments, or the
 * first few of them, and returns the address; scope is "" or a directive such as ".hidden".
 */
// clang-format off
#if defined(__x86_64__)

/* seven words and the return address: the stack is aligned for the call */
#define SP_TAIL_PUSH_(reg) "push %" reg "\n.cfi_adjust_cfa_offset 8\n"
#define SP_TAIL_POP_(reg) "pop %" reg "\n.cfi_adjust_cfa_offset -8\n"
#define SP_TAIL_BODY_(target) \
	SP_TAIL_PUSH_("rdi") SP_TAIL_PUSH_("rsi") SP_TAIL_PUSH_("rdx") SP_TAIL_PUSH_("rcx") \
	SP_TAIL_PUSH_("r8") SP_TAIL_PUSH_("r9") SP_TAIL_PUSH_("rax") \
	"call " target "\nmov %rax, %r11\n" \
	SP_TAIL_POP_("rax") SP_TAIL_POP_("r9") SP_TAIL_POP_("r8") SP_TAIL_POP_("rcx") \
	SP_TAIL_POP_("rdx") SP_TAIL_POP_("rsi") SP_TAIL_POP_("rdi") \
	"jmp *%r11\n"

#elif defined(__aarch64__)

#define SP_TAIL_BODY_(target) \
	"stp x29, x30, [sp, #-80]!\n" \
	".cfi_def_cfa_offset 80\n.cfi_offset x29, -80\n.cfi_offset x30, -72\n" \
	"mov x29, sp\n" \
	"stp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\n" \
	"stp x4, x5, [sp, #48]\nstp x6, x7, [sp, #64]\n" \
	"bl " target "\nmov x16, x0\n" \
	"ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\n" \
	"ldp x4, x5, [sp, #48]\nldp x6, x7, [sp, #64]\n" \
	"ldp x29, x30, [sp], #80\n" \
	".cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\n" \
	"br x16\n"

#endif

#define SP_TAIL_CALL(name, target, scope) \
	__asm__(".text\n.balign 16\n.globl " name "\n" scope "\n" \
		".type " name ", %function\n" name ":\n.cfi_startproc\n" \
		SP_TAIL_BODY_(target) \
		".cfi_endproc\n.size " name ", .-" name "\n")
// clang-format on

#endif
