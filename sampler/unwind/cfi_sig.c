/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decoding: executes the call frame instructions of a CIE and an FDE until they describe the row
 * for one pc. Knows the instructions of DWARF 5 (6.4.2) and the GNU, MIPS and AArch64 extensions
 * that toolchains emit. Anything else makes the row unreadable, because a guessed rule would give a
 * wrong stack.
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

static void save_state(struct decoder *d)
{
	if (d->saved_n == SAVED_STATES)
		d->failed = true;
	else
		d->saved[d->saved_n++] = *d->rules;
}

/* The CFA is part of the state: gcc's epilogues rely on it. */
static void restore_state(struct decoder *d)
{
	if (d->saved_n == 0)
		d->failed = true;
	else
		*d->rules = d->saved[--d->saved_n];
}

static bool run_location(struct decoder *d, uint8_t op)
{
	switch (op) {
	case CFA_SET_LOC:
		d->loc = sp_ehframe_pointer(d->object, &d->code, d->fde->pointer_encoding);
		return true;
	case CFA_ADVANCE_LOC1:
		advance(d, sp_cursor_unsigned(&d->code, 1));
		return true;
	case CFA_ADVANCE_LOC2:
		advance(d, sp_cursor_unsigned(&d->code, 2));
		return true;
	case CFA_ADVANCE_LOC4:
		advance(d, sp_cursor_unsigned(&d->code, 4));
		return true;
	case CFA_MIPS_ADVANCE_LOC8:
		advance(d, sp_cursor_unsigned(&d->code, 8));
		return true;
	default:
		return false;
	}
}

static bool run_cfa(struct decoder *d, uint8_t op)
{
	uint64_t reg;

	switch (op) {
	case CFA_DEF_CFA:
		reg = sp_cursor_uleb(&d->code);
		set_cfa(d, reg, offset_operand(d));
		return true;
	case CFA_DEF_CFA_SF:
		reg = sp_cursor_uleb(&d->code);
		set_cfa(d, reg, factored(d, sp_cursor_sleb(&d->code)));
		return true;
	case CFA_DEF_CFA_REGISTER:
		set_cfa(d, sp_cursor_uleb(&d->code), d->rules->cfa_value);
		return true;
	case CFA_DEF_CFA_OFFSET:
		set_cfa_offset(d, offset_operand(d));
		return true;
	case CFA_DEF_CFA_OFFSET_SF:
		set_cfa_offset(d, factored(d, sp_cursor_sleb(&d->code)));
		return true;
	case CFA_DEF_CFA_EXPRESSION:
		d->rules->cfa_value = narrow(d, block_operand(d));
		d->rules->cfa_how = SP_CFI_VAL_EXPR;
		return true;
	default:
		return false;
	}
}

/* The instructions that name one register, with or without a second operand. */
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
	default:
		return false;
	}
}

static void run_other(struct decoder *d, uint8_t op)
{
	if (run_location(d, op) || run_cfa(d, op))
		return;
	switch (op) {
	case CFA_NOP:
	case CFA_AARCH64_NEGATE_RA_STATE: /* Every return address is stripped, signed or not. */
		return;
	case CFA_GNU_ARGS_SIZE:
		(void)sp_cursor_uleb(&d->code);
		return;
	case CFA_REMEMBER_STATE:
		save_state(d);
		return;
	case CFA_RESTORE_STATE:
		restore_state(d);
		return;
	default:
		if (!run_rule(d, op, sp_cursor_uleb(&d->code)))
			d->failed = true;
		return;
	}
}

static void run_one(struct decoder *d)
{
	uint8_t op = sp_cursor_u8(&d->code);
	uint8_t low = op & CFA_LOW_MASK;

	switch (op & CFA_HIGH_MASK) {
	case CFA_ADVANCE_LOC:
		advance(d, low);
		return;
	case CFA_OFFSET:
		set_rule(d, low, SP_CFI_OFFSET, factored(d, offset_operand(d)));
		return;
	case CFA_RESTORE:
		restore_rule(d, low);
		return;
	default:
		run_other(d, op);
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
