/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two parts. Decoding executes the call frame instructions of a CIE and an FDE until they describe
 * the row for one pc. Applying computes the caller's registers from a frame's registers and its
 * row, whose rules may be expressions: programs for the stack machine of DWARF 5 (2.5).
 *
 * This file reads the instructions (DWARF 5, 6.4.2, and the extensions of GNU and AArch64) and
 * operations that toolchains emit and hand-written assembly uses (PLT stubs, OpenSSL,
 * __restore_rt). A guessed rule would give a wrong stack, so any other instruction makes the row
 * unreadable, and the exporter, which reads all of DWARF, walks the stack.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/cfi_sig.h"

#include <errno.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* gcc nests at most two deep; more than eight is malformed. */
#define SAVED_STATES 8U
/* Far more than any function in Debian 12 has, and run in less than 1 ms. */
#define INSTRUCTIONS_MAX 65536U

/* The three instructions that have an operand in their low six bits ... */
enum {
	CFA_ADVANCE_LOC = 0x40,
	CFA_OFFSET = 0x80,
	CFA_RESTORE = 0xc0,
	CFA_HIGH_MASK = 0xc0,
	CFA_LOW_MASK = 0x3f,
};

/* ... and the other instructions. */
enum {
	CFA_NOP,
	CFA_ADVANCE_LOC1 = 0x02,
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
	CFA_VAL_EXPRESSION = 0x16,
	CFA_AARCH64_NEGATE_RA_STATE = 0x2d, /* the same number as GNU_window_save */
	CFA_GNU_ARGS_SIZE = 0x2e,
};

struct decoder {
	const struct sp_object *object;
	const struct sp_fde *fde;
	struct sp_cursor code;
	uintptr_t pc;  /* the pc whose row is wanted */
	uintptr_t loc; /* the rules decoded so far hold from here on */
	struct sp_cfi_rules *rules;
	const struct sp_cfi_rules *initial; /* NULL while the CIE's own instructions run */
	bool failed;
	unsigned saved_n;
	struct sp_cfi_rules saved[SAVED_STATES];
};

/* A value that does not fit counts as malformed: no frame is 2 GiB large. */
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

/*
 * Skips an expression and returns its start. The expression is evaluated when the row is applied.
 */
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

/*
 * Executes an instruction that names one register, with or without a second operand. False if it is
 * another instruction.
 */
static bool run_rule(struct decoder *d, uint8_t op, uint64_t reg)
{
	switch (op) {
	case CFA_OFFSET_EXTENDED:
		set_rule(d, reg, SP_CFI_OFFSET, factored(d, offset_operand(d)));
		return true;
	case CFA_OFFSET_EXTENDED_SF:
		set_rule(d, reg, SP_CFI_OFFSET, factored(d, sp_cursor_sleb(&d->code)));
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
	case CFA_ADVANCE_LOC1 ... CFA_ADVANCE_LOC4: /* operand of 1, 2, 4 bytes */
		advance(d, sp_cursor_unsigned(code, 1U << (op - CFA_ADVANCE_LOC1)));
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

/* Executes instructions until the rules hold at pc. */
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

/*
 * Expressions are a few bytes long. If an expression is longer, or needs more stack, the exporter
 * walks the stack.
 */
#define EXPRESSION_MAX 64U
#define STACK_DEPTH 8U

enum {
	OP_DEREF = 0x06,
	OP_CONST1U = 0x08,
	OP_CONST8S = 0x0f,
	OP_CONSTU,
	OP_CONSTS,
	OP_DROP = 0x13,
	OP_AND = 0x1a,
	OP_MINUS = 0x1c,
	OP_MUL = 0x1e,
	OP_PLUS = 0x22,
	OP_PLUS_UCONST,
	OP_SHL,
	OP_GE = 0x2a,
	OP_LIT0 = 0x30,
	OP_LIT31 = 0x4f,
	OP_BREG0 = 0x70,
	OP_BREG31 = 0x8f,
};

/* A frame whose caller is computed. */
struct frame {
	const struct sp_cfi_row *row;
	const struct sp_regs *regs;
	struct sp_stack_view *stack;
	uintptr_t cfa;
};

/* Operations that push a value. */
static int operand(const struct frame *f, struct sp_cursor *code, uint8_t op, uintptr_t *value)
{
	unsigned bytes = 1U << ((op - OP_CONST1U) / 2 & 3);

	switch (op) {
	case OP_LIT0 ... OP_LIT31:
		*value = op - (uintptr_t)OP_LIT0;
		return 0;
	case OP_CONST1U ... OP_CONST8S: /* every second one doubles the size; odd ones are signed */
		*value = (op & 1) != 0 ? (uintptr_t)sp_cursor_signed(code, bytes)
				       : sp_cursor_unsigned(code, bytes);
		return 0;
	case OP_CONSTU:
		*value = sp_cursor_uleb(code);
		return 0;
	case OP_CONSTS:
		*value = (uintptr_t)sp_cursor_sleb(code);
		return 0;
	case OP_BREG0 ... OP_BREG31:
		*value = (uintptr_t)sp_cursor_sleb(code);
		if (!sp_regs_known(f->regs, op - (uint64_t)OP_BREG0))
			return -EFAULT;
		*value += f->regs->r[op - OP_BREG0];
		return 0;
	default:
		return -EINVAL;
	}
}

/* Operations with two operands. DWARF compares as signed. */
static int combine(uint8_t op, uintptr_t *a, uintptr_t b)
{
	switch (op) {
	case OP_AND:
		*a &= b;
		return 0;
	case OP_PLUS:
		*a += b;
		return 0;
	case OP_MINUS:
		*a -= b;
		return 0;
	case OP_MUL:
		*a *= b;
		return 0;
	case OP_SHL:
		*a = b < 8 * sizeof(b) ? *a << b : 0;
		return 0;
	case OP_GE:
		*a = (intptr_t)*a >= (intptr_t)b;
		return 0;
	default:
		return -EINVAL;
	}
}

/*
 * Evaluates the expression at that offset; n_given is 1 if its stack begins with the CFA. -EFAULT
 * if a register is lost or memory cannot be read, -EINVAL if the expression is malformed or of a
 * form that only the exporter reads.
 */
static int evaluate(const struct frame *f, int32_t place, unsigned n_given, uintptr_t *result)
{
	struct sp_cursor code =
		sp_cursor_over(f->row->object_start + (uint32_t)place, f->row->object_end);
	uint64_t bytes = sp_cursor_uleb(&code);
	uintptr_t slot[STACK_DEPTH] = {f->cfa};
	unsigned n = n_given;
	int rc = 0;

	if (bytes > EXPRESSION_MAX || bytes > sp_cursor_left(&code))
		return -EINVAL;
	code.end = code.at + bytes;
	while (rc == 0 && sp_cursor_left(&code) > 0) {
		uint8_t op = sp_cursor_u8(&code);

		if (n > 0 && op == OP_PLUS_UCONST)
			slot[n - 1] += sp_cursor_uleb(&code);
		else if (n > 0 && op == OP_DEREF)
			rc = sp_stack_read(f->stack, slot[n - 1], sizeof(slot[0]), &slot[n - 1])
				     ? 0
				     : -EFAULT;
		else if ((n > 0 && op == OP_DROP) ||
			 (n > 1 && combine(op, &slot[n - 2], slot[n - 1]) == 0))
			n--;
		else if (n < STACK_DEPTH)
			rc = operand(f, &code, op, &slot[n++]);
		else
			rc = -EINVAL;
	}
	if (rc == 0 && (code.failed || n == 0))
		rc = -EINVAL;
	if (rc == 0)
		*result = slot[n - 1];
	return rc;
}

/*
 * Computes the value of register `reg` in the caller. -EFAULT if the value is lost, -EINVAL as in
 * evaluate().
 */
static int recover(const struct frame *f, unsigned reg, uintptr_t *value)
{
	int32_t place = f->row->rules.value[reg];
	uintptr_t at = f->cfa + (uintptr_t)(intptr_t)place;
	int rc = 0;

	switch ((enum sp_cfi_how)f->row->rules.how[reg]) {
	case SP_CFI_REGISTER:
		if (!sp_regs_known(f->regs, (uint32_t)place))
			return -EFAULT;
		*value = f->regs->r[place];
		return 0;
	case SP_CFI_VAL_EXPR:
		return evaluate(f, place, 1, value);
	case SP_CFI_EXPR:
		rc = evaluate(f, place, 1, &at);
		break;
	case SP_CFI_OFFSET:
		break;
	case SP_CFI_SAME:
	case SP_CFI_UNDEFINED:
		return -EFAULT;
	}
	if (rc == 0 && !sp_stack_read(f->stack, at, sizeof(*value), value))
		rc = -EFAULT;
	return rc;
}

static int find_cfa(struct frame *f)
{
	const struct sp_cfi_rules *rules = &f->row->rules;

	if (rules->cfa_how == SP_CFI_VAL_EXPR)
		return evaluate(f, rules->cfa_value, 0, &f->cfa);
	if (rules->cfa_how != SP_CFI_REGISTER || !sp_regs_known(f->regs, rules->cfa_reg))
		return -EFAULT;
	f->cfa = f->regs->r[rules->cfa_reg] + (uintptr_t)(intptr_t)rules->cfa_value;
	return 0;
}

/*
 * A register that cannot be recovered becomes unknown, and the step continues: most registers are
 * never needed, and a later rule that needs this one fails by itself.
 */
static int recover_all(const struct frame *f, struct sp_regs *caller)
{
	*caller = *f->regs;
	/* By definition the CFA is the caller's sp; a rule for sp (signal frames) overrides. */
	sp_regs_set(caller, SP_ARCH_REG_SP, f->cfa);
	for (unsigned reg = 0; reg < SP_ARCH_REGS; reg++) {
		uintptr_t value;
		int rc;

		if (f->row->rules.how[reg] == SP_CFI_SAME)
			continue;
		rc = recover(f, reg, &value);
		if (rc == -EINVAL)
			return rc;
		if (rc == 0)
			sp_regs_set(caller, reg, value);
		else
			caller->known &= ~(UINT64_C(1) << reg);
	}
	return 0;
}

int sp_cfi_apply(const struct sp_cfi_row *row, struct sp_regs *regs, struct sp_stack_view *stack)
{
	struct frame f = {.row = row, .regs = regs, .stack = stack};
	enum sp_cfi_how return_how = row->rules.how[row->return_reg];
	struct sp_regs caller;
	int rc;

	if (return_how == SP_CFI_UNDEFINED)
		return 0;
	/*
	 * If the return address has a column of its own, "same value" would make the frame its own
	 * caller.
	 */
	if (return_how == SP_CFI_SAME && row->return_reg == SP_ARCH_REG_PC)
		return -EFAULT;
	rc = find_cfa(&f);
	if (rc == 0)
		rc = recover_all(&f, &caller);
	if (rc != 0)
		return rc;
	if (!sp_regs_known(&caller, row->return_reg) || !sp_regs_known(&caller, SP_ARCH_REG_SP))
		return -EFAULT;
	sp_regs_set_pc(&caller, sp_arch_strip(caller.r[row->return_reg]));
	if (caller.pc == 0)
		return 0;
	*regs = caller;
	return 1;
}
