/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes whole steps of the signal handler's unwinder: hostile call frame information, its expressions and hostile
 * registers, over a stack whose ends are known. No read leaves the stack, a cached rule equals the row from which it
 * was made, the fast path takes the same step, and the walk ends.
 *
 * Input: the registers, a word of options, 512 bytes of stack, then .eh_frame_hdr and the bytes behind it.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <sys/mman.h>

#include "sampler/unwind/cfi_sig.h"
#include "sampler/unwind/object_sig.h"
#include "sampler/unwind/rule_cache_sig.h"
#include "test/fuzz/fuzz.h"

#define PAGE 4096U
#define STACK_BYTES 512U
#define ENTRIES_MAX 16U

static uint8_t *stack_page; /* between two inaccessible pages */

struct input {
	uintptr_t reg[SP_ARCH_REGS];
	uint64_t options;
	uint8_t stack[STACK_BYTES];
};

static void map_stack(void)
{
	stack_page = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FUZZ_CHECK(stack_page != MAP_FAILED);
	stack_page += PAGE;
	FUZZ_CHECK(mprotect(stack_page, PAGE, PROT_READ | PROT_WRITE) == 0);
}

/* Odd registers point into the stack, so that rules find values there. */
static void set_registers(const struct input *in, struct sp_regs *regs)
{
	*regs = (struct sp_regs){.known = in->options & ((UINT64_C(1) << SP_ARCH_REGS) - 1)};
	for (unsigned i = 0; i < SP_ARCH_REGS; i++)
		regs->r[i] = (in->reg[i] & 1) != 0
				     ? (uintptr_t)stack_page + (in->reg[i] >> 1) % PAGE
				     : in->reg[i];
}

/* The upper half is proven, the lower one is checked page by page, as on a grown stack. */
static void see_stack(struct sp_stack_view *view)
{
	sp_stack_begin(view);
	view->floor = (uintptr_t)stack_page;
	view->ceiling = (uintptr_t)stack_page + PAGE;
	view->lo = (uintptr_t)stack_page + PAGE / 2;
}

static void same(const struct sp_regs *a, const struct sp_regs *b)
{
	FUZZ_CHECK(a->pc == b->pc && a->known == b->known);
	for (unsigned i = 0; i < SP_ARCH_REGS; i++)
		FUZZ_CHECK(!sp_regs_known(a, i) || a->r[i] == b->r[i]);
}

/* The fast path may refuse the step, but not take another one. */
static void fast_path(const struct input *in, const struct sp_compact_rule *kept,
		      const struct sp_regs *want)
{
	static uint64_t identity = 1;
	struct sp_walk w = {.interrupted = true};
	uint64_t pc = 0;

	/* One for each rule, so that no earlier rule is found. */
	identity = sp_object_mix(0, identity);
	set_registers(in, &w.regs);
	sp_regs_set_pc(&w.regs, PAGE);
	see_stack(&w.stack);
	w.objects.entry[0] = (struct sp_cached_object){.end = UINTPTR_MAX, .identity = identity};
	w.objects.last = &w.objects.entry[0];
	w.objects.n = 1;
	sp_rule_cache_keep(PAGE, identity, kept);
	if (!sp_regs_known(&w.regs, SP_ARCH_REG_SP) || sp_fast_path(&w, &pc, 1) == 0)
		return;
	FUZZ_CHECK(want != NULL && pc == PAGE && !w.interrupted);
	same(want, &w.regs);
}

static void apply(const struct input *in, const struct sp_cfi_row *row)
{
	struct sp_stack_view view;
	struct sp_compact_rule kept;
	struct sp_regs slow;
	int rc;

	set_registers(in, &slow);
	see_stack(&view);
	rc = sp_cfi_apply(row, &slow, &view);
	FUZZ_CHECK(rc <= 1);
	FUZZ_CHECK(rc != 1 || (slow.pc != 0 && sp_regs_known(&slow, SP_ARCH_REG_SP)));
	if (sp_compact_rule_make(row, &kept))
		fast_path(in, &kept, rc == 1 ? &slow : NULL);
}

static void try_pc(const struct input *in, const struct sp_object *object, uintptr_t pc)
{
	struct sp_cfi_row row;
	struct sp_fde fde;

	if (sp_ehframe_find(object, pc, &fde) == 0 && sp_cfi_decode(object, &fde, pc, &row) == 0)
		apply(in, &row);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sp_object object;
	struct input in = {.options = 0};
	uint8_t *image;

	if (stack_page == NULL) {
		map_stack();
		FUZZ_CHECK(sp_rule_cache_init() == 0);
	}
	memcpy(&in, data, size < sizeof(in) ? size : sizeof(in));
	data += size < sizeof(in) ? size : sizeof(in);
	size -= size < sizeof(in) ? size : sizeof(in);
	for (unsigned i = 0; i < PAGE; i += STACK_BYTES)
		memcpy(stack_page + i, in.stack, STACK_BYTES);
	image = malloc(size != 0 ? size : 1);
	FUZZ_CHECK(image != NULL);
	if (size != 0)
		memcpy(image, data, size);
	object = (struct sp_object){(uintptr_t)image, (uintptr_t)image + size, (uintptr_t)image};
	for (size_t i = 0; i < ENTRIES_MAX && 12 + 8 * i + 4 <= size; i++) {
		int32_t offset;

		memcpy(&offset, image + 12 + 8 * i, sizeof(offset));
		try_pc(&in, &object, object.start + (uintptr_t)(intptr_t)offset);
		try_pc(&in, &object, object.start + (uintptr_t)(intptr_t)offset + 9);
	}
	free(image);
	return 0;
}
