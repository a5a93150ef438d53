/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The byte reader; every call frame instruction and operation of an expression, by hand; malformed programs; rows
 * that are applied to registers; and all real data in this process.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "sampler/unwind/cfi_sig.h"
#include "test/unit/sampler/dwarf_bytes.h"

#define PC UINT64_C(0x400000)

Test(cursor, reads_both_kinds_of_leb128, .timeout = 20)
{
	struct sp_cursor c = over(BYTES(0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 0x3f));

	cr_assert_eq(sp_cursor_uleb(&c), 624485);
	cr_assert_eq(sp_cursor_sleb(&c), -1);
	cr_assert_eq(sp_cursor_sleb(&c), -128);
	cr_assert_eq(sp_cursor_sleb(&c), 63);
	cr_assert_not(c.failed);
	cr_assert_eq(sp_cursor_left(&c), 0);
}

Test(cursor, refuses_leb128_that_never_ends_or_is_cut, .timeout = 20)
{
	struct sp_cursor endless =
		over(BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01));
	struct sp_cursor cut = over(BYTES(0x80, 0x80));

	cr_assert_eq(sp_cursor_uleb(&endless), 0);
	cr_assert(endless.failed);
	cr_assert_eq(sp_cursor_sleb(&cut), 0);
	cr_assert(cut.failed);
}

Test(cursor, stays_failed_and_gives_zero, .timeout = 20)
{
	struct sp_cursor c = over(BYTES(1, 2, 3));

	cr_assert_eq(sp_cursor_unsigned(&c, 4), 0);
	cr_assert(c.failed);
	cr_assert_eq(sp_cursor_u8(&c), 0);
	cr_assert_eq(sp_cursor_left(&c), 0);
	sp_cursor_skip(&c, 1);
	cr_assert_eq(c.at[0], 1);
}

struct decoded {
	int rc;
	struct sp_cfi_row row;
};

/* Runs the CIE and FDE instructions in `code`; both alignment factors are those of x86-64. */
static struct decoded decode(uintptr_t pc, size_t initial_n, const uint8_t *code, size_t n)
{
	struct sp_object object = {(uintptr_t)code, (uintptr_t)code + n, 0};
	struct sp_fde fde = {
		.pc_begin = PC,
		.pc_end = PC + 0x100000,
		.initial = over(code, initial_n),
		.program = over(code + initial_n, n - initial_n),
		.code_align = 1,
		.data_align = -8,
		.return_reg = SP_ARCH_REG_PC,
		.pointer_encoding = 0x04,
	};
	struct decoded d;

	d.rc = sp_cfi_decode(&object, &fde, pc, &d.row);
	return d;
}

static struct sp_cfi_rules rules_at(uintptr_t pc, size_t initial_n, const uint8_t *code, size_t n)
{
	struct decoded d = decode(pc, initial_n, code, n);

	cr_assert_eq(d.rc, 0, "op %#x refused", code[0]);
	return d.row.rules;
}

static void expect_rule(uint8_t reg, enum sp_cfi_how how, int32_t value, const uint8_t *code,
			size_t n)
{
	struct sp_cfi_rules r = rules_at(PC, 0, code, n);

	cr_assert_eq(r.how[reg], how, "op %#x: how %u, want %u", code[0], r.how[reg], how);
	cr_assert_eq(r.value[reg], value, "op %#x: %d, want %d", code[0], r.value[reg], value);
}

static void expect_cfa(uint8_t how, uint8_t reg, int32_t value, const uint8_t *code, size_t n)
{
	struct sp_cfi_rules r = rules_at(PC, 0, code, n);

	cr_assert_eq(r.cfa_how, how);
	cr_assert_eq(r.cfa_value, value, "op %#x: %d, want %d", code[0], r.cfa_value, value);
	if (how == SP_CFI_REGISTER)
		cr_assert_eq(r.cfa_reg, reg);
}

static void expect_malformed(const uint8_t *code, size_t n)
{
	cr_assert_eq(decode(PC, 0, code, n).rc, -EINVAL, "op %#x accepted", code[0]);
}

Test(cfi, defines_the_cfa_in_every_form, .timeout = 20)
{
	expect_cfa(SP_CFI_REGISTER, 7, 8, BYTES(0x0c, 7, 8));
	expect_cfa(SP_CFI_REGISTER, 7, 16, BYTES(0x12, 7, 0x7e));
	expect_cfa(SP_CFI_REGISTER, 6, 8, BYTES(0x0c, 7, 8, 0x0d, 6));
	expect_cfa(SP_CFI_REGISTER, 7, 300, BYTES(0x0c, 7, 8, 0x0e, 0xac, 0x02));
	expect_cfa(SP_CFI_REGISTER, 7, 24, BYTES(0x0c, 7, 8, 0x13, 0x7d));
	expect_cfa(SP_CFI_VAL_EXPR, 0, 1, BYTES(0x0f, 2, 0x77, 8));
}

Test(cfi, knows_every_register_rule, .timeout = 20)
{
	expect_rule(3, SP_CFI_OFFSET, -16, BYTES(0x83, 2));
	expect_rule(3, SP_CFI_OFFSET, -16, BYTES(0x05, 3, 2));
	expect_rule(3, SP_CFI_OFFSET, 16, BYTES(0x11, 3, 0x7e));
	expect_rule(3, SP_CFI_UNDEFINED, 0, BYTES(0x83, 2, 0x07, 3));
	expect_rule(3, SP_CFI_SAME, 0, BYTES(0x83, 2, 0x08, 3));
	expect_rule(3, SP_CFI_REGISTER, 12, BYTES(0x09, 3, 12));
	expect_rule(3, SP_CFI_EXPR, 2, BYTES(0x10, 3, 2, 0x77, 8));
	expect_rule(3, SP_CFI_VAL_EXPR, 2, BYTES(0x16, 3, 2, 0x77, 8));
}

Test(cfi, skips_what_does_not_concern_it, .timeout = 20)
{
	expect_rule(3, SP_CFI_OFFSET, -16, BYTES(0x2e, 0x10, 0x2d, 0x00, 0x83, 2));
	/* vector register 17 + 32, in all encodings */
	expect_rule(3, SP_CFI_OFFSET, -16, BYTES(0x05, 49, 9, 0x07, 49, 0x08, 49, 0x83, 2));
}

Test(cfi, applies_rows_in_order_of_location, .timeout = 20)
{
	static const uint8_t code[] = {0x0c, 7, 8,    0x41, 0x0e, 16, 0x02, 0x10, 0x0e, 24,   0x03,
				       0x00, 1, 0x0e, 32,   0x04, 0,  0,    1,    0,    0x0e, 40};
	static const struct {
		uintptr_t at;
		int32_t cfa;
	} want[] = {{0, 8},      {1, 16},       {0x10, 16},    {0x11, 24},   {0x110, 24},
		    {0x111, 32}, {0x10110, 32}, {0x10111, 40}, {0x20000, 40}};

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		cr_assert_eq(rules_at(PC + want[i].at, 0, code, sizeof(code)).cfa_value,
			     want[i].cfa, "at %#lx", want[i].at);
}

Test(cfi, restores_a_register_to_the_cies_rule, .timeout = 20)
{
	/* CIE: r3 at -16. FDE: r3 at -24, then restore; r5 at -32, then restore_extended. */
	static const uint8_t code[] = {0x83, 2, 0x83, 3, 0x85, 4, 0xc3, 0x06, 5};
	struct sp_cfi_rules r = rules_at(PC, 2, code, sizeof(code));

	cr_assert_eq(r.how[3], SP_CFI_OFFSET);
	cr_assert_eq(r.value[3], -16);
	cr_assert_eq(r.how[5], SP_CFI_SAME);
}

Test(cfi, remembers_states_eight_deep_with_the_cfa, .timeout = 20)
{
	uint8_t code[64] = {0x0c, 7, 8};
	size_t n = 3;

	for (uint8_t i = 1; i <= 8; i++) {
		code[n++] = 0x0a;
		code[n++] = 0x0e;
		code[n++] = (uint8_t)(8 + 8 * i);
	}
	cr_assert_eq(rules_at(PC, 0, code, n).cfa_value, 72);
	for (uint8_t i = 1; i <= 8; i++)
		code[n++] = 0x0b;
	cr_assert_eq(rules_at(PC, 0, code, n).cfa_value, 8);
	cr_assert_eq(rules_at(PC, 0, code, n - 1).cfa_value, 16);
}

Test(cfi, refuses_what_is_malformed, .timeout = 20)
{
	uint8_t nine[9];

	memset(nine, 0x0a, sizeof(nine));
	expect_malformed(nine, sizeof(nine));
	expect_malformed(BYTES(0x0b));    /* no state was remembered */
	expect_malformed(BYTES(0x0c, 7)); /* cut off */
	/* the CFA needs a register that we do not track */
	expect_malformed(BYTES(0x0c, 60, 8));
	expect_malformed(BYTES(0x0d, 0xff, 0x01));       /* same */
	expect_malformed(BYTES(0x0e, 8));                /* offset without a register */
	expect_malformed(BYTES(0x0f, 1, 0x9c, 0x0e, 8)); /* offset of an expression */
	expect_malformed(BYTES(0x0f, 9, 0x9c));          /* block longer than the program */
	expect_malformed(BYTES(0x10, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1));
	expect_malformed(BYTES(0x83, 0xff, 0xff, 0xff, 0xff, 0x7f)); /* offset beyond 31 bits */
	expect_malformed(BYTES(0x17));                               /* no such instruction */
	expect_malformed(BYTES(0x3f, 1));
	expect_malformed(BYTES(0x04, 0, 0)); /* cut advance */
}

Test(cfi, refuses_restore_inside_the_cie, .timeout = 20)
{
	static const uint8_t code[] = {0xc3};

	cr_assert_eq(decode(PC, 1, code, 1).rc, -EINVAL);
}

Test(cfi, gives_up_on_an_endless_program, .timeout = 20)
{
	size_t n = 1U << 20;
	uint8_t *code = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(code, MAP_FAILED);
	cr_assert_eq(decode(PC, 0, code, n).rc, -EINVAL);
}

/* --- Applying a row ---------------------------------------------------------------------------- */

/* Applies the rules of `code` to a frame whose sp is `memory` and whose register i is 100 + i. */
static int apply(const uint8_t *code, size_t n, struct sp_regs *regs)
{
	struct decoded d = decode(PC, 0, code, n);
	struct sp_stack_view view = memory_view();

	cr_assert_eq(d.rc, 0);
	for (unsigned i = 0; i < SP_ARCH_REGS; i++)
		sp_regs_set(regs, i, 100 + i);
	sp_regs_set(regs, SP_ARCH_REG_SP, (uintptr_t)memory);
	sp_regs_set_pc(regs, PC);
	return sp_cfi_apply(&d.row, regs, &view);
}

#define DEF_CFA_SP_16 0x0c, SP_ARCH_REG_SP, 16
#define RA_AT_MINUS_8 0x80 | SP_ARCH_REG_PC, 1
/* No bits that a processor could take for an authentication code. */
#define CODE_ADDRESS 0x7654321098U

Test(cfi_apply, makes_the_callers_registers, .timeout = 20)
{
	struct sp_regs regs;
	int rc;

	memory[1] = CODE_ADDRESS;
	/* r3 at CFA-16, r0 = r1, r2 undefined */
	rc = apply(BYTES(DEF_CFA_SP_16, RA_AT_MINUS_8, 0x83, 2, 0x09, 0, 1, 0x07, 2), &regs);

	cr_assert_eq(rc, 1);
	cr_assert_eq(regs.pc, memory[1]);
	cr_assert_eq(regs.r[SP_ARCH_REG_PC], memory[1]);
	cr_assert_eq(regs.r[SP_ARCH_REG_SP], (uintptr_t)&memory[2]);
	cr_assert_eq(regs.r[3], memory[0]);
	cr_assert_eq(regs.r[0], 101);
	cr_assert_not(sp_regs_known(&regs, 2));
	cr_assert_eq(regs.r[4], 104);
}

Test(cfi_apply, evaluates_expressions_with_the_callees_registers, .timeout = 20)
{
	struct sp_regs regs;
	/* CFA = breg sp+16; r3 at expression CFA-16; r5 = expression breg4+1 */
	int rc = apply(BYTES(0x0f, 2, 0x70 + SP_ARCH_REG_SP, 16, RA_AT_MINUS_8, 0x10, 3, 2, 0x40,
			     0x1c, 0x16, 5, 2, 0x74, 1, 0x09, 4, 1),
		       &regs);

	cr_assert_eq(rc, 1);
	cr_assert_eq(regs.r[SP_ARCH_REG_SP], (uintptr_t)&memory[2]);
	cr_assert_eq(regs.r[3], memory[0]);
	cr_assert_eq(regs.r[5], 105);
	cr_assert_eq(regs.r[4], 101);
}

Test(cfi_apply, says_outermost_for_an_undefined_or_zero_return_address, .timeout = 20)
{
	struct sp_regs regs;
	uintptr_t old = memory[1];

	cr_assert_eq(apply(BYTES(DEF_CFA_SP_16, 0x07, SP_ARCH_REG_PC), &regs), 0);
	cr_assert_eq(regs.pc, PC);
	memory[1] = 0;
	cr_assert_eq(apply(BYTES(DEF_CFA_SP_16, RA_AT_MINUS_8), &regs), 0);
	memory[1] = old;
}

Test(cfi_apply, fails_where_the_rules_lead_nowhere, .timeout = 20)
{
	struct sp_regs regs;

	cr_assert_eq(apply(BYTES(RA_AT_MINUS_8), &regs), -EFAULT); /* no CFA */
	cr_assert_eq(apply(BYTES(DEF_CFA_SP_16), &regs), -EFAULT); /* no return address */
	cr_assert_eq(apply(BYTES(0x0c, SP_ARCH_REG_SP, 48, RA_AT_MINUS_8), &regs), -EFAULT);
	cr_assert_eq(apply(BYTES(0x0c, SP_ARCH_REG_SP, 0, RA_AT_MINUS_8), &regs), -EFAULT);
	cr_assert_eq(apply(BYTES(0x0f, 1, 0x13, RA_AT_MINUS_8), &regs), -EINVAL);
	cr_assert_eq(apply(BYTES(0x0c, 4, 16, RA_AT_MINUS_8), &regs), -EFAULT); /* r4 is 104 */
}

/* The CFA that an expression gives. */
static int eval(const uint8_t *code, size_t n, uintptr_t *result)
{
	uint8_t program[80] = {0x09, SP_ARCH_REG_PC, 5, 0x0f, (uint8_t)n};
	struct sp_regs regs;
	int rc;

	memcpy(program + 5, code, n);
	rc = apply(program, n + 5, &regs);
	*result = regs.r[SP_ARCH_REG_SP];
	return rc;
}

static void expect_value(uintptr_t want, const uint8_t *code, size_t n)
{
	uintptr_t got = 0;

	cr_assert_eq(eval(code, n, &got), 1, "op %#x refused", code[n - 1]);
	cr_assert_eq(got, want, "op %#x: got %#lx, want %#lx", code[n - 1], got, want);
}

static void expect_failure(int want, const uint8_t *code, size_t n)
{
	uintptr_t got;
	int rc = eval(code, n, &got);

	cr_assert_eq(rc, want, "op %#x: %d", code[n - 1], rc);
}

Test(cfi_apply, calculates_with_constants_registers_and_memory, .timeout = 20)
{
	expect_value(31, BYTES(0x4f));
	expect_value(0xfe, BYTES(0x08, 0xfe));
	expect_value((uintptr_t)-2, BYTES(0x09, 0xfe));
	expect_value(0xfffe, BYTES(0x0a, 0xfe, 0xff));
	expect_value((uintptr_t)-2, BYTES(0x0b, 0xfe, 0xff));
	expect_value(0xfffffffe, BYTES(0x0c, 0xfe, 0xff, 0xff, 0xff));
	expect_value((uintptr_t)-2, BYTES(0x0d, 0xfe, 0xff, 0xff, 0xff));
	expect_value(0x0807060504030201, BYTES(0x0e, 1, 2, 3, 4, 5, 6, 7, 8));
	expect_value(0x0807060504030201, BYTES(0x0f, 1, 2, 3, 4, 5, 6, 7, 8));
	expect_value(300, BYTES(0x10, 0xac, 0x02));
	expect_value((uintptr_t)-1, BYTES(0x11, 0x7f));
	expect_value(105 - 8, BYTES(0x75, 0x78));
	expect_value(memory[1], BYTES(0x70 + SP_ARCH_REG_SP, 8, 0x06));
	expect_value(0x0c & 0x0a, BYTES(0x3c, 0x3a, 0x1a));
	expect_value(22, BYTES(0x3c, 0x3a, 0x22));
	expect_value(2, BYTES(0x3c, 0x3a, 0x1c));
	expect_value(120, BYTES(0x3c, 0x3a, 0x1e));
	expect_value(5 + 300, BYTES(0x35, 0x23, 0xac, 0x02));
	expect_value(5 << 3, BYTES(0x35, 0x33, 0x24));
	expect_value(0, BYTES(0x35, 0x08, 64, 0x24));
	/* -1 against 1, 1 against 1, and 1 against -1 */
	expect_value(0, BYTES(0x11, 0x7f, 0x31, 0x2a));
	expect_value(1, BYTES(0x31, 0x31, 0x2a));
	expect_value(1, BYTES(0x31, 0x11, 0x7f, 0x2a));
	expect_value(1, BYTES(0x31, 0x32, 0x13));
	expect_value(8, BYTES(0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x38));
}

/* -EINVAL: the exporter may know the operation. */
Test(cfi_apply, refuses_expressions_that_it_does_not_know, .timeout = 20)
{
	uint8_t deep[9];
	uint8_t long_one[65];

	memset(deep, 0x31, sizeof(deep));
	expect_failure(-EINVAL, deep, sizeof(deep));
	memset(long_one, 0x31, 3);
	for (size_t i = 3; i < sizeof(long_one); i += 2)
		memcpy(long_one + i, (const uint8_t[]){0x31, 0x22}, 2);
	expect_value(32, long_one + 2, 63);
	expect_failure(-EINVAL, long_one, sizeof(long_one));
	expect_failure(-EINVAL, BYTES(0x31, 0x12, 0x22)); /* dup */
	expect_failure(-EINVAL, BYTES(0x22));             /* nothing to add */
	expect_failure(-EINVAL, BYTES(0x31, 0x22));
	expect_failure(-EINVAL, BYTES(0x06));
	expect_failure(-EINVAL, BYTES(0x13));
	expect_failure(-EINVAL, BYTES(0x31, 0x13));
	expect_failure(-EINVAL, BYTES(0x23, 1));
	expect_failure(-EINVAL, BYTES(0x0c, 1, 2)); /* cut-off operand */
	expect_failure(-EINVAL, (const uint8_t[]){0}, 0);
	if (SP_ARCH_REGS < 32) /* no such register */
		expect_failure(-EFAULT, BYTES((0x70 + SP_ARCH_REGS) & 0xff, 0));
	expect_failure(-EFAULT, BYTES(0x30, 0x06)); /* memory that may not be read */
	/* half of it may not be read */
	expect_failure(-EFAULT, BYTES(0x70 + SP_ARCH_REG_SP, 25, 0x06));
}

Test(cfi_apply, refuses_a_row_with_an_unknown_expression_for_any_register, .timeout = 20)
{
	struct sp_regs regs;

	cr_assert_eq(apply(BYTES(DEF_CFA_SP_16, RA_AT_MINUS_8, 0x16, 3, 1, 0x12), &regs), -EINVAL);
	cr_assert_eq(apply(BYTES(DEF_CFA_SP_16, RA_AT_MINUS_8, 0x10, 3, 1, 0x12), &regs), -EINVAL);
	cr_assert_eq(apply(BYTES(DEF_CFA_SP_16, RA_AT_MINUS_8, 0x10, 3, 1, 0x30), &regs), 1);
	cr_assert_not(sp_regs_known(&regs, 3), "memory that cannot be read is no unknown form");
}

Test(cfi_apply, forgets_a_register_that_it_cannot_read, .timeout = 20)
{
	struct sp_regs regs;
	int rc;

	memory[1] = CODE_ADDRESS;
	rc = apply(BYTES(DEF_CFA_SP_16, RA_AT_MINUS_8, 0x83, 9), &regs);

	cr_assert_eq(rc, 1);
	cr_assert_not(sp_regs_known(&regs, 3));
	cr_assert_eq(regs.pc, memory[1]);
}

/* --- Real data --------------------------------------------------------------------------------- */

struct real {
	unsigned objects;
	unsigned functions;
};

static void decode_everything(const struct sp_object *object, struct real *real)
{
	uint32_t count;
	const int32_t *row;

	memcpy(&count, (const void *)(object->eh_frame_hdr + 8), 4);
	row = (const void *)(object->eh_frame_hdr + 12);
	for (uint32_t i = 0; i < count; i++) {
		uintptr_t pc = object->eh_frame_hdr + (uintptr_t)(intptr_t)row[2 * i];
		struct sp_cfi_row decoded;
		struct sp_fde fde;

		cr_assert_eq(sp_ehframe_find(object, pc, &fde), 0, "pc %#lx", pc);
		cr_assert_eq(fde.pc_begin, pc);
		cr_assert_eq(sp_cfi_decode(object, &fde, pc, &decoded), 0, "pc %#lx", pc);
		cr_assert_eq(sp_cfi_decode(object, &fde, fde.pc_end - 1, &decoded), 0, "pc %#lx",
			     pc);
		real->functions++;
	}
	real->objects++;
}

static int each_object(struct dl_phdr_info *info, size_t size, void *data)
{
	struct sp_object object = {UINTPTR_MAX, 0, 0};

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + p->p_vaddr;

		if (p->p_type == PT_GNU_EH_FRAME)
			object.eh_frame_hdr = at;
		if (p->p_type != PT_LOAD)
			continue;
		if (at < object.start)
			object.start = at;
		if (at + p->p_memsz > object.end)
			object.end = at + p->p_memsz;
	}
	if (object.eh_frame_hdr != 0)
		decode_everything(&object, data);
	return 0;
}

Test(cfi, decodes_every_function_of_every_loaded_object, .timeout = 20)
{
	struct real real = {0, 0};

	dl_iterate_phdr(each_object, &real);
	cr_assert_gt(real.objects, 3);
	cr_assert_gt(real.functions, 5000);
}
