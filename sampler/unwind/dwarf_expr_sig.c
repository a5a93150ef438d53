/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack machine of DWARF 5 (2.5), without the operations that have no meaning in call frame
 * information (objects, types, TLS, calls). Compilers emit few of them; hand-written assembly (PLT
 * stubs, OpenSSL, __restore_rt) uses the rest.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/dwarf_expr_sig.h"

#include <errno.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define STACK_DEPTH 24U
/* Branches can loop; 256 steps are ten times the longest expression seen in Debian 12. */
#define STEPS_MAX 256U

enum {
	OP_ADDR = 0x03,
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST1S,
	OP_CONST2U,
	OP_CONST2S,
	OP_CONST4U,
	OP_CONST4S,
	OP_CONST8U,
	OP_CONST8S,
	OP_CONSTU,
	OP_CONSTS,
	OP_DUP,
	OP_DROP,
	OP_OVER,
	OP_PICK,
	OP_SWAP,
	OP_ROT,
	OP_ABS = 0x19,
	OP_AND,
	OP_DIV,
	OP_MINUS,
	OP_MOD,
	OP_MUL,
	OP_NEG,
	OP_NOT,
	OP_OR,
	OP_PLUS,
	OP_PLUS_UCONST,
	OP_SHL,
	OP_SHR,
	OP_SHRA,
	OP_XOR,
	OP_BRA,
	OP_EQ,
	OP_GE,
	OP_GT,
	OP_LE,
	OP_LT,
	OP_NE,
	OP_SKIP,
	OP_LIT0,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
	OP_BREGX = 0x92,
	OP_DEREF_SIZE = 0x94,
	OP_NOP = 0x96,
	OP_CALL_FRAME_CFA = 0x9c,
};

struct machine {
	const struct sp_expr_env *env;
	struct sp_cursor code;
	const uint8_t *start;
	unsigned depth;
	bool failed;
	uintptr_t slot[STACK_DEPTH];
};

static void push(struct machine *m, uint64_t value)
{
	if (m->depth == STACK_DEPTH)
		m->failed = true;
	else
		m->slot[m->depth++] = (uintptr_t)value;
}

static uintptr_t pop(struct machine *m)
{
	if (m->depth == 0) {
		m->failed = true;
		return 0;
	}
	return m->slot[--m->depth];
}

/* The value `below` the top, which has index 0. */
static uintptr_t peek(struct machine *m, unsigned below)
{
	if (below >= m->depth) {
		m->failed = true;
		return 0;
	}
	return m->slot[m->depth - 1 - below];
}

static void push_register(struct machine *m, uint64_t reg)
{
	int64_t offset = sp_cursor_sleb(&m->code);

	if (!sp_regs_known(m->env->regs, reg))
		m->failed = true;
	else
		push(m, m->env->regs->r[reg] + (uint64_t)offset);
}

static void push_memory(struct machine *m, unsigned bytes)
{
	uintptr_t value = 0;
	bool sized = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;

	if (!sized || !sp_stack_read(m->env->stack, pop(m), bytes, &value))
		m->failed = true;
	else
		push(m, value);
}

/* Relative to the byte after the operand, and never outside the expression. */
static void jump(struct machine *m, bool taken)
{
	int64_t distance = sp_cursor_signed(&m->code, 2);
	int64_t back = m->code.at - m->start;

	if (!taken || m->code.failed)
		return;
	if (distance < -back || distance > (int64_t)sp_cursor_left(&m->code))
		m->failed = true;
	else
		m->code.at += distance;
}

static bool run_constant(struct machine *m, uint8_t op)
{
	/* Sizes double every two operations; odd ones are the signed twins. */
	if (op >= OP_CONST1U && op <= OP_CONST8S) {
		unsigned bytes = 1U << ((op - OP_CONST1U) / 2);

		if ((op & 1) != 0)
			push(m, (uint64_t)sp_cursor_signed(&m->code, bytes));
		else
			push(m, sp_cursor_unsigned(&m->code, bytes));
		return true;
	}
	if (op >= OP_LIT0 && op <= OP_LIT31)
		push(m, (uint64_t)(op - OP_LIT0));
	else if (op == OP_ADDR)
		push(m, sp_cursor_unsigned(&m->code, sizeof(uintptr_t)));
	else if (op == OP_CONSTU)
		push(m, sp_cursor_uleb(&m->code));
	else if (op == OP_CONSTS)
		push(m, (uint64_t)sp_cursor_sleb(&m->code));
	else
		return false;
	return true;
}

static bool run_access(struct machine *m, uint8_t op)
{
	if (op >= OP_BREG0 && op <= OP_BREG31)
		push_register(m, (uint64_t)(op - OP_BREG0));
	else if (op == OP_BREGX)
		push_register(m, sp_cursor_uleb(&m->code));
	else if (op == OP_DEREF)
		push_memory(m, sizeof(uintptr_t));
	else if (op == OP_DEREF_SIZE)
		push_memory(m, sp_cursor_u8(&m->code));
	else if (op == OP_CALL_FRAME_CFA && m->env->has_cfa)
		push(m, m->env->cfa);
	else
		return false;
	return true;
}

static bool run_stack(struct machine *m, uint8_t op)
{
	uintptr_t a;
	uintptr_t b;
	uintptr_t c;

	switch (op) {
	case OP_DUP:
		push(m, peek(m, 0));
		return true;
	case OP_DROP:
		(void)pop(m);
		return true;
	case OP_OVER:
		push(m, peek(m, 1));
		return true;
	case OP_PICK:
		push(m, peek(m, sp_cursor_u8(&m->code)));
		return true;
	case OP_SWAP:
		a = pop(m);
		b = pop(m);
		push(m, a);
		push(m, b);
		return true;
	case OP_ROT:
		a = pop(m);
		b = pop(m);
		c = pop(m);
		push(m, a);
		push(m, c);
		push(m, b);
		return true;
	default:
		return false;
	}
}

static bool run_unary(struct machine *m, uint8_t op)
{
	switch (op) {
	case OP_ABS:
		push(m, (intptr_t)peek(m, 0) < 0 ? 0 - pop(m) : pop(m));
		return true;
	case OP_NEG:
		push(m, 0 - pop(m));
		return true;
	case OP_NOT:
		push(m, ~pop(m));
		return true;
	case OP_PLUS_UCONST:
		push(m, pop(m) + sp_cursor_uleb(&m->code));
		return true;
	case OP_NOP:
		return true;
	case OP_SKIP:
		jump(m, true);
		return true;
	case OP_BRA:
		jump(m, pop(m) != 0);
		return true;
	default:
		return false;
	}
}

/* Shifts by the word size or more are undefined in C and shift everything out in DWARF. */
static uintptr_t shift(uint8_t op, uintptr_t value, uintptr_t by)
{
	unsigned last = 8 * sizeof(value) - 1;

	if (op == OP_SHRA)
		return (uintptr_t)((intptr_t)value >> (by > last ? last : by));
	if (by > last)
		return 0;
	return op == OP_SHL ? value << by : value >> by;
}

/* DWARF compares as signed. */
static bool compare(uint8_t op, intptr_t a, intptr_t b)
{
	switch (op) {
	case OP_EQ:
		return a == b;
	case OP_GE:
		return a >= b;
	case OP_GT:
		return a > b;
	case OP_LE:
		return a <= b;
	case OP_LT:
		return a < b;
	default:
		return a != b;
	}
}

static bool run_binary(struct machine *m, uint8_t op)
{
	uintptr_t b = pop(m);
	uintptr_t a = pop(m);

	switch (op) {
	case OP_AND:
		push(m, a & b);
		return true;
	case OP_OR:
		push(m, a | b);
		return true;
	case OP_XOR:
		push(m, a ^ b);
		return true;
	case OP_PLUS:
		push(m, a + b);
		return true;
	case OP_MINUS:
		push(m, a - b);
		return true;
	case OP_MUL:
		push(m, a * b);
		return true;
	case OP_SHL:
	case OP_SHR:
	case OP_SHRA:
		push(m, shift(op, a, b));
		return true;
	case OP_EQ:
	case OP_GE:
	case OP_GT:
	case OP_LE:
	case OP_LT:
	case OP_NE:
		push(m, compare(op, (intptr_t)a, (intptr_t)b));
		return true;
	default:
		return false;
	}
}

int sp_dwarf_expr_eval(const struct sp_expr_env *env, struct sp_cursor code, uintptr_t *result)
{
	struct machine m;

	m.env = env;
	m.code = code;
	m.start = code.at;
	m.depth = 0;
	m.failed = false;
	if (env->has_cfa)
		push(&m, env->cfa);
	for (unsigned steps = 0; sp_cursor_left(&m.code) > 0; steps++) {
		uint8_t op = sp_cursor_u8(&m.code);

		if (steps == STEPS_MAX)
			return -EINVAL;
		if (!run_constant(&m, op) && !run_access(&m, op) && !run_stack(&m, op) &&
		    !run_unary(&m, op) && !run_binary(&m, op))
			return -EINVAL;
		if (m.failed || m.code.failed)
			return -EINVAL;
	}
	*result = pop(&m);
	return m.failed || m.code.failed ? -EINVAL : 0;
}
