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
	X(sigaction) \
	X(sigaltstack) \
	X(getenv) \
	X(dlerror) \
	X(dlsym) \
	X(_dl_find_object)
// clang-format on

#define SP_NEXT_ENUM_(sym) SP_NEXT_##sym,
struct sp_elf_range;

enum sp_next { SP_FOR_EACH_NEXT(SP_NEXT_ENUM_) SP_NEXT_N };

/* The C library's begin here; before it are the SDKs' functions. */
#define SP_NEXT_SDK_N SP_NEXT___libc_start_main

const char *sp_next_name(enum sp_next which);

/* The address, or NULL when no loaded object after ours defines the symbol (yet). */
void *sp_next(enum sp_next which);

/* As a typed function pointer; sym must be declared. */
#define SP_NEXT(sym) ((__typeof__(&(sym)))sp_next(SP_NEXT_##sym))

/* The same if it was found before: asks the loader nothing. */
void *sp_next_known(enum sp_next which);

/*
 * INIT. Finds the C library's functions among them, so that a hook called in a forked child never
 * waits for the loader's lock, which another thread of the host may have held at the fork.
 */
void sp_next_early(void);

/*
 * Fills in the SDKs' functions: those of that object, and of the others what any object after ours defines. NULL
 * where none does.
 */
void sp_next_sdk(const struct sp_elf_range *object, void *found[SP_NEXT_SDK_N]);

/* Look-up by name. NULL if absent. */
void *sp_resolve(const char *name);

/*
 * SP_TAIL_CALL defines a function that asks another one for an address and jumps there, with stack and
 * arguments as the caller made them. For calls that C cannot hand on: functions with "...", and functions
 * that look at their return address. Integer arguments in registers are kept (System V AMD64: six,
 * and al for "..."; AAPCS64: eight), vector arguments are not.
 *
 * All three are strings: target is a function with the same arguments, or the first few of them, that
 * returns the address to jump to; scope is "" or a directive such as ".hidden".
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
