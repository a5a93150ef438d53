/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a seccomp filter for one system call, rt_sigreturn. A filter that forbids it kills the
 * process at the end of the next signal handler; a program without handlers may well install one,
 * and our timers would then be the end of it. So the filter is evaluated before the kernel gets it.
 * The instructions that a filter may consist of are those that kernel/seccomp.c of Linux 6.1 checks
 * for.
 *
 * Context: APP, async-signal-safe.
 */
#include "sampler/base/seccomp_program.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "sampler/base/readable_sig.h"

#define PAGE 4096U

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

/* Linux 4.14; headers may be older. */
#ifndef SECCOMP_RET_ACTION_FULL
#define SECCOMP_RET_ACTION_FULL 0xffff0000U
#endif
#ifndef SECCOMP_RET_LOG
#define SECCOMP_RET_LOG 0x7ffc0000U
#endif

static bool is_readable(const void *memory, size_t bytes)
{
	uintptr_t page = (uintptr_t)memory & ~(uintptr_t)(PAGE - 1);
	uintptr_t last = (uintptr_t)memory + bytes - 1;

	if (last < page)
		return false;
	for (; page <= last; page += PAGE)
		if (!sp_readable(page))
			return false;
	return true;
}

struct machine {
	uint32_t a;
	uint32_t x;
	uint32_t memory[BPF_MEMWORDS];
	struct seccomp_data data;
};

static uint32_t calculate(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b != 0 ? a / b : 0;
	case BPF_OR:
		return a | b;
	case BPF_AND:
		return a & b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	case BPF_RSH:
		return b < 32 ? a >> b : 0;
	case BPF_XOR:
		return a ^ b;
	default:
		return 0U - a;
	}
}

static bool is_taken(uint16_t code, uint32_t a, uint32_t b)
{
	switch (BPF_OP(code)) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default:
		return (a & b) != 0;
	}
}

static uint32_t load(const struct machine *m, const struct sock_filter *f)
{
	uint32_t value = 0;

	switch (BPF_MODE(f->code)) {
	case BPF_IMM:
		return f->k;
	case BPF_MEM:
		return m->memory[f->k % BPF_MEMWORDS];
	case BPF_ABS:
		if (f->k <= sizeof(m->data) - sizeof(value))
			memcpy(&value, (const char *)&m->data + f->k, sizeof(value));
		return value;
	default:
		return sizeof(m->data);
	}
}

/*
 * Jumps go forward only, so the loop ends. Programs that the kernel would not accept are refused.
 */
static uint32_t run(const struct sock_filter *f, size_t n, struct machine *m)
{
	for (size_t at = 0; at < n; at++) {
		uint16_t code = f[at].code;
		uint32_t b = BPF_SRC(code) == BPF_X ? m->x : f[at].k;

		switch (BPF_CLASS(code)) {
		case BPF_LD:
			m->a = load(m, &f[at]);
			break;
		case BPF_LDX:
			m->x = load(m, &f[at]);
			break;
		case BPF_ST:
			m->memory[f[at].k % BPF_MEMWORDS] = m->a;
			break;
		case BPF_STX:
			m->memory[f[at].k % BPF_MEMWORDS] = m->x;
			break;
		case BPF_ALU:
			m->a = calculate(code, m->a, b);
			break;
		case BPF_JMP:
			if (BPF_OP(code) == BPF_JA)
				at += f[at].k;
			else
				at += is_taken(code, m->a, b) ? f[at].jt : f[at].jf;
			break;
		case BPF_RET:
			return BPF_RVAL(code) == BPF_A ? m->a : f[at].k;
		default:
			if (BPF_MISCOP(code) == BPF_TAX)
				m->x = m->a;
			else
				m->a = m->x;
			break;
		}
	}
	return 0;
}

bool sp_seccomp_lets_return(const void *program)
{
	const struct sock_fprog *p = program;
	struct machine m;
	uint32_t action;

	memset(&m, 0, sizeof(m));
	m.data.nr = SYS_rt_sigreturn;
	m.data.arch = ARCHITECTURE;
	if (!is_readable(p, sizeof(*p)) || p->len == 0 || p->len > BPF_MAXINSNS ||
	    !is_readable(p->filter, p->len * sizeof(p->filter[0])))
		return true;
	action = run(p->filter, p->len, &m) & SECCOMP_RET_ACTION_FULL;
	return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG;
}
