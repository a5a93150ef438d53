/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First decoding: executes the call frame instructions of a CIE and an FDE until they describe the row
 * for one pc. Knows the instructions of DWARF 5 (6.4.2) and the GNU, MIPS and AArch64 extensions
 * that toolchains emit. Anything else makes the row unreadable, because a guessed rule would give a
 * wrong stack. Then expressions: the stack machine of DWARF 5 (2.5), bounded in depth and steps, without the
 * operations that have no meaning in call frame information (objects, types, TLS, calls). Compilers emit few of
 * them; hand-written assembly (PLT stubs, OpenSSL, __restore_rt) uses the rest. Last applying: computes the
 * caller's registers from a frame's registers and its row.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/cfi_sig.h"

#include <errno.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* gcc nests at most two deep; more than eight is malformed. */
#define SAVED_STATES 8U
/* Far more than any function in Debian 12 has, and still less than 1 ms. */
#define INSTRUCTIONS_MAX 65536U

/* The three instructions that carry an operand in their low six bits ... */
enum {
	CFA_ADVANCE_LOC = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_HIGH_MASK = 0xc0,
	CFA_LOW_MASK = 0x3f,
};

/* ... and the others. */
enum {
	CFA_NOP,
	CFA_SET_LOC,
	CFA_ADVANCE_LOC1,
	CFA_ADVANCE_LOC2,
	CFA_ADVANCE_LOC4,
	CFA_OFFSET_EXTENDED,
	CFA_RESTORE_EXTENDED,
	CFA_UNDEFINED,
	CFA_SAME_VALUE,
	CFA_REGISTER,
	CFA_REMEMBER_STATE,
	CFA_RESTORE_STATE,
	CFA_DEF_CFA,
	CFA_DEF_CFA_REGISTER,
	CFA_DEF_CFA_OFFSET,
	CFA_DEF_CFA_EXPRESSION,
	CFA_EXPRESSION,
	CFA_OFFSET_EXTENDED_SF,
	CFA_DEF_CFA_SF,
	CFA_DEF_CFA_OFFSET_SF,
	CFA_VAL_OFFSET,
	CFA_VAL_OFFSET_SF,
	CFA_VAL_EXPRESSION,
	CFA_MIPS_ADVANCE_LOC8 = 0x1d,
	CFA_AARCH64_NEGATE_RA_STATE = 0x2d, /* the same number as GNU_window_save */
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

struct decoder {
	const struct sp_object *object;
	const struct sp_fde *fde;
	struct sp_cursor code;
	uintptr_t pc;  /* looked up */
	uintptr_t loc; /* where the rules so far begin to hold */
	struct sp_cfi_rules *rules;
	const struct sp_cfi_rules *initial; /* NULL while the CIE's own instructions run */
	bool failed;
	unsigned saved_n;
	struct sp_cfi_rules saved[SAVED_STATES];
};

/* Values that do not fit are as good as malformed: no frame is 2 GiB large. */
static int32_t narrow(struct decoder *d, int64_t value)
{
	if (value != (int32_t)value)
		d->failed = true;
	return (int32_t)value;
}

static int64_t factored(struct decoder *d, int64_t value)
{
	int64_t product;

	if (__builtin_mul_overflow(value, d->fde->data_align, &product))
		d->failed = true;
	return product;
}

/* An unsigned operand that must be a plausible offset. */
static int64_t offset_operand(struct decoder *d)
{
	uint64_t v = sp_cursor_uleb(&d->code);

	if (v > INT32_MAX)
		d->failed = true;
	return (int64_t)v;
}

/* Rules for registers that the walk does not track (vector, flags, signing state) are skipped. */
static void set_rule(struct decoder *d, uint64_t reg, enum sp_cfi_how how, int64_t value)
{
	if (reg >= SP_ARCH_REGS)
		return;
	d->rules->how[reg] = (uint8_t)how;
	d->rules->value[reg] = narrow(d, value);
}

static void restore_rule(struct decoder *d, uint64_t reg)
{
	if (d->initial == NULL) {
		d->failed = true;
	} else if (reg < SP_ARCH_REGS) {
		d->rules->how[reg] = d->initial->how[reg];
		d->rules->value[reg] = d->initial->value[reg];
	}
}

static void set_cfa(struct decoder *d, uint64_t reg, int64_t offset)
{
	if (reg >= SP_ARCH_REGS) {
		d->failed = true;
		return;
	}
	d->rules->cfa_how = SP_CFI_REGISTER;
	d->rules->cfa_reg = (uint8_t)reg;
	d->rules->cfa_value = narrow(d, offset);
}

static void set_cfa_offset(struct decoder *d, int64_t offset)
{
	if (d->rules->cfa_how != SP_CFI_REGISTER)
		d->failed = true;
	else
		d->rules->cfa_value = narrow(d, offset);
}

/* Skips an expression and returns where it starts. It is evaluated only when the row is applied. */
static int64_t block_operand(struct decoder *d)
{
	int64_t at = d->code.at - (const uint8_t *)d->object->start;

	sp_cursor_skip(&d->code, sp_cursor_uleb(&d->code));
	return at;
}

static void advance(struct decoder *d, uint64_t delta)
{
	uintptr_t bytes;

	if (__builtin_mul_overflow(delta, d->fde->code_align, &bytes) ||
	    __builtin_add_overflow(d->loc, bytes, &d->loc))
		d->failed = true;
}

/* The instructions that name one register, with or without a second operand. False if it is none of them. */
static bool run_rule(struct decoder *d, uint8_t op, uint64_t reg)
{
	switch (op) {
	case CFA_OFFSET_EXTENDED:
		set_rule(d, reg, SP_CFI_OFFSET, factored(d, offset_operand(d)));
		return true;
	case CFA_OFFSET_EXTENDED_SF:
		set_rule(d, reg, SP_CFI_OFFSET, factored(d, sp_cursor_sleb(&d->code)));
		return true;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		set_rule(d, reg, SP_CFI_OFFSET, factored(d, -offset_operand(d)));
		return true;
	case CFA_VAL_OFFSET:
		set_rule(d, reg, SP_CFI_VAL_OFFSET, factored(d, offset_operand(d)));
		return true;
	case CFA_VAL_OFFSET_SF:
		set_rule(d, reg, SP_CFI_VAL_OFFSET, factored(d, sp_cursor_sleb(&d->code)));
		return true;
	case CFA_REGISTER:
		set_rule(d, reg, SP_CFI_REGISTER, offset_operand(d));
		return true;
	case CFA_EXPRESSION:
		set_rule(d, reg, SP_CFI_EXPR, block_operand(d));
		return true;
	case CFA_VAL_EXPRESSION:
		set_rule(d, reg, SP_CFI_VAL_EXPR, block_operand(d));
		return true;
	case CFA_RESTORE_EXTENDED:
		restore_rule(d, reg);
		return true;
	case CFA_UNDEFINED:
		set_rule(d, reg, SP_CFI_UNDEFINED, 0);
		return true;
	case CFA_SAME_VALUE:
		set_rule(d, reg, SP_CFI_SAME, 0);
		return true;
	case CFA_DEF_CFA:
		set_cfa(d, reg, offset_operand(d));
		return true;
	case CFA_DEF_CFA_SF:
		set_cfa(d, reg, factored(d, sp_cursor_sleb(&d->code)));
		return true;
	case CFA_DEF_CFA_REGISTER:
		set_cfa(d, reg, d->rules->cfa_value);
		return true;
	default:
		return false;
	}
}

static void run_one(struct decoder *d)
{
	struct sp_cursor *code = &d->code;
	uint8_t op = sp_cursor_u8(code);
	uint8_t low = op & CFA_LOW_MASK;

	switch ((op & CFA_HIGH_MASK) != 0 ? op & CFA_HIGH_MASK : op) {
	case CFA_ADVANCE_LOC:
		advance(d, low);
		return;
	case CFA_OFFSET:
		set_rule(d, low, SP_CFI_OFFSET, factored(d, offset_operand(d)));
		return;
	case CFA_RESTORE:
		restore_rule(d, low);
		return;
	case CFA_NOP:
	case CFA_AARCH64_NEGATE_RA_STATE: /* Every return address is stripped, signed or not. */
		return;
	case CFA_SET_LOC:
		d->loc = sp_ehframe_pointer(d->object, code, d->fde->pointer_encoding);
		return;
	case CFA_ADVANCE_LOC1 ... CFA_ADVANCE_LOC4: /* sizes double */
		advance(d, sp_cursor_unsigned(code, 1U << (op - CFA_ADVANCE_LOC1)));
		return;
	case CFA_MIPS_ADVANCE_LOC8:
		advance(d, sp_cursor_unsigned(code, 8));
		return;
	case CFA_DEF_CFA_OFFSET:
		set_cfa_offset(d, offset_operand(d));
		return;
	case CFA_DEF_CFA_OFFSET_SF:
		set_cfa_offset(d, factored(d, sp_cursor_sleb(code)));
		return;
	case CFA_DEF_CFA_EXPRESSION:
		d->rules->cfa_value = narrow(d, block_operand(d));
		d->rules->cfa_how = SP_CFI_VAL_EXPR;
		return;
	case CFA_GNU_ARGS_SIZE:
		(void)sp_cursor_uleb(code);
		return;
	case CFA_REMEMBER_STATE:
		if (d->saved_n == SAVED_STATES)
			d->failed = true;
		else
			d->saved[d->saved_n++] = *d->rules;
		return;
	case CFA_RESTORE_STATE:
		/* The CFA is part of the state: gcc's epilogues rely on it. */
		if (d->saved_n == 0)
			d->failed = true;
		else
			*d->rules = d->saved[--d->saved_n];
		return;
	default:
		if (!run_rule(d, op, sp_cursor_uleb(code)))
			d->failed = true;
		return;
	}
}

/* Runs until the rules are those in force at pc. */
static int run(struct decoder *d, struct sp_cursor code)
{
	d->code = code;
	for (unsigned n = 0; sp_cursor_left(&d->code) > 0; n++) {
		if (n == INSTRUCTIONS_MAX)
			return -EINVAL;
		run_one(d);
		if (d->failed || d->code.failed)
			return -EINVAL;
		if (d->loc > d->pc)
			break;
	}
	return 0;
}

int sp_cfi_decode(const struct sp_object *object, const struct sp_fde *fde, uintptr_t pc,
		  struct sp_cfi_row *row)
{
	struct sp_cfi_rules initial;
	struct decoder d;

	if (fde->return_reg >= SP_ARCH_REGS)
		return -EINVAL;
	row->object_start = object->start;
	row->object_end = object->end;
	row->return_reg = (uint8_t)fde->return_reg;
	row->signal_frame = fde->signal_frame;
	row->rules = (struct sp_cfi_rules){.cfa_how = SP_CFI_SAME};
	d.object = object;
	d.fde = fde;
	d.pc = pc;
	d.loc = fde->pc_begin;
	d.rules = &row->rules;
	d.initial = NULL;
	d.failed = false;
	d.saved_n = 0;
	if (run(&d, fde->initial) != 0)
		return -EINVAL;
	initial = row->rules;
	d.initial = &initial;
	return run(&d, fde->program);
}

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

/* What has two operands and one result. DWARF compares as signed. False if it is another operation. */
static bool compute(uint8_t op, uintptr_t a, uintptr_t b, uintptr_t *result)
{
	switch (op) {
	case OP_AND:
		*result = a & b;
		return true;
	case OP_OR:
		*result = a | b;
		return true;
	case OP_XOR:
		*result = a ^ b;
		return true;
	case OP_PLUS:
		*result = a + b;
		return true;
	case OP_MINUS:
		*result = a - b;
		return true;
	case OP_MUL:
		*result = a * b;
		return true;
	case OP_SHL:
	case OP_SHR:
	case OP_SHRA:
		*result = shift(op, a, b);
		return true;
	case OP_EQ:
	case OP_NE:
		*result = (a == b) == (op == OP_EQ);
		return true;
	case OP_GE:
	case OP_LT:
		*result = ((intptr_t)a >= (intptr_t)b) == (op == OP_GE);
		return true;
	case OP_GT:
	case OP_LE:
		*result = ((intptr_t)a > (intptr_t)b) == (op == OP_GT);
		return true;
	default:
		return false;
	}
}

/* What brings a value of its own. False if it is another operation. */
static bool push_operand(struct machine *m, uint8_t op)
{
	struct sp_cursor *code = &m->code;
	unsigned bytes;

	switch (op) {
	case OP_LIT0 ... OP_LIT31:
		push(m, (uint64_t)(op - OP_LIT0));
		return true;
	case OP_BREG0 ... OP_BREG31:
		push_register(m, (uint64_t)(op - OP_BREG0));
		return true;
	case OP_BREGX:
		push_register(m, sp_cursor_uleb(code));
		return true;
	case OP_CONST1U ... OP_CONST8S: /* sizes double every two; odd ones are the signed twins */
		bytes = 1U << ((op - OP_CONST1U) / 2);
		push(m, (op & 1) != 0 ? (uint64_t)sp_cursor_signed(code, bytes)
				      : sp_cursor_unsigned(code, bytes));
		return true;
	case OP_ADDR:
		push(m, sp_cursor_unsigned(code, sizeof(uintptr_t)));
		return true;
	case OP_CONSTU:
		push(m, sp_cursor_uleb(code));
		return true;
	case OP_CONSTS:
		push(m, (uint64_t)sp_cursor_sleb(code));
		return true;
	case OP_DEREF:
		push_memory(m, sizeof(uintptr_t));
		return true;
	case OP_DEREF_SIZE:
		push_memory(m, sp_cursor_u8(code));
		return true;
	case OP_CALL_FRAME_CFA:
		m->failed |= !m->env->has_cfa;
		push(m, m->env->cfa);
		return true;
	default:
		return false;
	}
}

static void run_operation(struct machine *m, uint8_t op)
{
	uintptr_t a;
	uintptr_t b;
	uintptr_t c;

	if (push_operand(m, op))
		return;
	switch (op) {
	case OP_DUP:
	case OP_OVER:
		push(m, peek(m, op == OP_OVER));
		return;
	case OP_DROP:
		(void)pop(m);
		return;
	case OP_PICK:
		push(m, peek(m, sp_cursor_u8(&m->code)));
		return;
	case OP_SWAP:
		a = pop(m);
		b = pop(m);
		push(m, a);
		push(m, b);
		return;
	case OP_ROT:
		a = pop(m);
		b = pop(m);
		c = pop(m);
		push(m, a);
		push(m, c);
		push(m, b);
		return;
	case OP_ABS:
		a = pop(m);
		push(m, (intptr_t)a < 0 ? 0 - a : a);
		return;
	case OP_NEG:
		push(m, 0 - pop(m));
		return;
	case OP_NOT:
		push(m, ~pop(m));
		return;
	case OP_PLUS_UCONST:
		push(m, pop(m) + sp_cursor_uleb(&m->code));
		return;
	case OP_NOP:
		return;
	case OP_SKIP:
	case OP_BRA:
		jump(m, op == OP_SKIP || pop(m) != 0);
		return;
	default:
		b = pop(m);
		a = pop(m);
		m->failed |= !compute(op, a, b, &c);
		if (!m->failed)
			push(m, c);
		return;
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
		run_operation(&m, op);
		if (m.failed || m.code.failed)
			return -EINVAL;
	}
	*result = pop(&m);
	return m.failed || m.code.failed ? -EINVAL : 0;
}

static int evaluate(const struct sp_cfi_row *row, const struct sp_expr_env *env, int32_t place,
		    uintptr_t *result)
{
	struct sp_cursor c = sp_cursor_over(row->object_start + (uint32_t)place, row->object_end);
	uint64_t bytes = sp_cursor_uleb(&c);

	if (c.failed || bytes > sp_cursor_left(&c))
		return -EINVAL;
	c.end = c.at + bytes;
	return sp_dwarf_expr_eval(env, c, result);
}

/* The value that register `reg` had in the caller. False if it is lost. */
static bool recover(const struct sp_cfi_row *row, const struct sp_expr_env *env, unsigned reg,
		    uintptr_t *value)
{
	int32_t operand = row->rules.value[reg];
	uintptr_t at = env->cfa + (uintptr_t)(intptr_t)operand;

	switch ((enum sp_cfi_how)row->rules.how[reg]) {
	case SP_CFI_SAME:
	case SP_CFI_UNDEFINED:
		return false;
	case SP_CFI_REGISTER:
		if (!sp_regs_known(env->regs, (uint32_t)operand))
			return false;
		*value = env->regs->r[operand];
		return true;
	case SP_CFI_VAL_OFFSET:
		*value = at;
		return true;
	case SP_CFI_VAL_EXPR:
		return evaluate(row, env, operand, value) == 0;
	case SP_CFI_EXPR:
		return evaluate(row, env, operand, &at) == 0 &&
		       sp_stack_read(env->stack, at, sizeof(*value), value);
	case SP_CFI_OFFSET:
		return sp_stack_read(env->stack, at, sizeof(*value), value);
	}
	return false;
}

static int find_cfa(const struct sp_cfi_row *row, const struct sp_expr_env *env, uintptr_t *cfa)
{
	const struct sp_cfi_rules *rules = &row->rules;

	if (rules->cfa_how == SP_CFI_VAL_EXPR)
		return evaluate(row, env, rules->cfa_value, cfa);
	if (rules->cfa_how != SP_CFI_REGISTER || !sp_regs_known(env->regs, rules->cfa_reg))
		return -EINVAL;
	*cfa = env->regs->r[rules->cfa_reg] + (uintptr_t)(intptr_t)rules->cfa_value;
	return 0;
}

/*
 * A register that cannot be recovered becomes unknown, and the step goes on: most registers are
 * never needed, and a later rule that needs this one fails by itself.
 */
static void recover_all(const struct sp_cfi_row *row, const struct sp_expr_env *env,
			struct sp_regs *caller)
{
	*caller = *env->regs;
	/* By definition the CFA is the caller's sp; a rule for sp (signal frames) overrides. */
	sp_regs_set(caller, SP_ARCH_REG_SP, env->cfa);
	for (unsigned reg = 0; reg < SP_ARCH_REGS; reg++) {
		uintptr_t value;

		if (row->rules.how[reg] == SP_CFI_SAME)
			continue;
		if (recover(row, env, reg, &value))
			sp_regs_set(caller, reg, value);
		else
			caller->known &= ~(UINT64_C(1) << reg);
	}
}

int sp_cfi_apply(const struct sp_cfi_row *row, struct sp_regs *regs, struct sp_stack_view *stack)
{
	struct sp_expr_env env = {.regs = regs, .stack = stack};
	struct sp_regs caller;
	enum sp_cfi_how return_how = row->rules.how[row->return_reg];

	if (return_how == SP_CFI_UNDEFINED)
		return 0;
	/*
	 * On architectures where the return address has a column of its own, "same value" would
	 * make the frame its own caller.
	 */
	if (return_how == SP_CFI_SAME && row->return_reg == SP_ARCH_REG_PC)
		return -EINVAL;
	if (find_cfa(row, &env, &env.cfa) != 0)
		return -EINVAL;
	env.has_cfa = true;
	recover_all(row, &env, &caller);
	if (!sp_regs_known(&caller, row->return_reg) || !sp_regs_known(&caller, SP_ARCH_REG_SP))
		return -EFAULT;
	sp_regs_set_pc(&caller, sp_arch_strip(caller.r[row->return_reg]));
	if (caller.pc == 0)
		return 0;
	*regs = caller;
	return 1;
}
