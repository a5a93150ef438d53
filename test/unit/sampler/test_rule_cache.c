/* SPDX-License-Identifier: Apache-2.0 */
/* Cached rules, their compact form, and the identity that decides whether they are still valid. */
#include <criterion/criterion.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/auxv.h>

#include "sampler/unwind/object_sig.h"
#include "sampler/unwind/rule_cache_sig.h"

static const struct sp_compact_rule one = {.word = {16, 1, 64}};
static const struct sp_compact_rule two = {.word = {32, 2, 128}};

/* Identities are mixed, like those of objects. */
#define FIRST sp_object_mix(0, 1)
#define SECOND sp_object_mix(0, 2)

static void setup(void)
{
	cr_assert_eq(sp_rule_cache_init(), 0);
}

TestSuite(rule_cache, .init = setup, .timeout = 20);

static bool is_kept(uintptr_t pc, uint64_t identity)
{
	struct sp_compact_rule rule;

	return sp_rule_cache_find(sp_rule_cache(), pc, identity, &rule);
}

static bool finds(uintptr_t pc, uint64_t identity, const struct sp_compact_rule *want)
{
	struct sp_compact_rule rule;

	return sp_rule_cache_find(sp_rule_cache(), pc, identity, &rule) &&
	       memcmp(&rule, want, sizeof(rule)) == 0;
}

Test(rule_cache_init, keeps_nothing_without_memory, .timeout = 20)
{
	sp_rule_cache_keep(4096, FIRST, &one);

	cr_assert_null(sp_rule_cache());
}

Test(rule_cache, finds_what_was_kept)
{
	sp_rule_cache_keep(4096, FIRST, &one);
	sp_rule_cache_keep(4097, FIRST, &two);

	cr_assert(finds(4096, FIRST, &one));
	cr_assert(finds(4097, FIRST, &two));
}

Test(rule_cache, finds_nothing_of_another_object)
{
	sp_rule_cache_keep(4096, FIRST, &one);

	cr_assert(!is_kept(4096, SECOND));
}

Test(rule_cache, finds_nothing_in_empty_slots)
{
	for (uintptr_t pc = 0; pc < 4 * SP_RULE_CACHE_SLOTS; pc++)
		cr_assert(!is_kept(pc, FIRST));
}

Test(rule_cache, finds_the_row_of_the_object_that_took_the_place_of_another)
{
	sp_rule_cache_keep(4096, FIRST, &one);
	sp_rule_cache_keep(4096, SECOND, &two);

	cr_assert(finds(4096, SECOND, &two));
	cr_assert(!is_kept(4096, FIRST) || finds(4096, FIRST, &one));
}

Test(rule_cache, keeps_as_many_rows_of_a_set_as_it_has_room_for)
{
	static uint8_t kept[SP_RULE_CACHE_SETS];
	static bool is_ours[4 * SP_RULE_CACHE_SLOTS];

	for (uintptr_t pc = 1; pc < SP_ARRAY_LEN(is_ours); pc++) {
		const struct sp_rule_set *set = sp_rule_set_of(sp_rule_cache(), sp_rule_hash(pc));

		is_ours[pc] = kept[set - sp_rule_cache()]++ < SP_RULE_CACHE_WAYS;
		if (is_ours[pc])
			sp_rule_cache_keep(pc, FIRST, &one);
	}
	for (uintptr_t pc = 1; pc < SP_ARRAY_LEN(is_ours); pc++)
		cr_assert(!is_ours[pc] || finds(pc, FIRST, &one));
}

Test(rule_cache, keeps_working_when_more_is_kept_than_fits)
{
	unsigned found = 0;

	for (uintptr_t pc = 1; pc <= 4 * SP_RULE_CACHE_SLOTS; pc++)
		sp_rule_cache_keep(pc, FIRST, &one);
	for (uintptr_t pc = 1; pc <= 4 * SP_RULE_CACHE_SLOTS; pc++)
		found += finds(pc, FIRST, &one);

	cr_assert_leq(found, SP_RULE_CACHE_SLOTS);
	cr_assert_gt(found, SP_RULE_CACHE_SLOTS / 2);
	sp_rule_cache_keep(4096, FIRST, &two);
	sp_rule_cache_keep(4096, SECOND, &two);
	cr_assert(finds(4096, SECOND, &two), "what was kept last is there");
}

/* The slot after a writer was stopped in the middle, and after two writers at once. */
Test(rule_cache, finds_nothing_in_a_slot_with_words_of_two_rows)
{
	for (unsigned i = 0; i < SP_COMPACT_RULE_WORDS; i++) {
		uintptr_t pc = 4096 + i;
		struct sp_rule_set *set = sp_rule_set_of(sp_rule_cache(), sp_rule_hash(pc));

		sp_rule_cache_keep(pc, FIRST, &one);
		for (unsigned way = 0; way < SP_RULE_CACHE_WAYS; way++)
			atomic_store(&set->way[way].word[i], two.word[i]);
		cr_assert(!is_kept(pc, FIRST), "word %u", i);
		cr_assert(!is_kept(pc, SECOND), "word %u", i);
		sp_rule_cache_keep(pc, SECOND, &two);
		cr_assert(finds(pc, SECOND, &two));
	}
}

/* --- The short form ------------------------------------------------------------------------------ */

static struct sp_cfi_row plain_row(void)
{
	struct sp_cfi_row row = {.return_reg = SP_ARCH_REG_RETURN};

	row.rules.cfa_how = SP_CFI_REGISTER;
	row.rules.cfa_reg = SP_ARCH_REG_SP;
	row.rules.cfa_value = 32;
	row.rules.how[SP_ARCH_REG_RETURN] = SP_CFI_OFFSET;
	row.rules.value[SP_ARCH_REG_RETURN] = -8;
	row.rules.how[SP_ARCH_REG_FP] = SP_CFI_OFFSET;
	row.rules.value[SP_ARCH_REG_FP] = -16;
	return row;
}

Test(compact_rule, leaves_all_other_rows_to_the_long_form, .timeout = 20)
{
	struct sp_compact_rule form;
	struct sp_cfi_row row = plain_row();

	row.signal_frame = true;
	cr_assert(!sp_compact_rule_make(&row, &form));
	row = plain_row();
	row.rules.cfa_how = SP_CFI_VAL_EXPR;
	cr_assert(!sp_compact_rule_make(&row, &form));
	for (enum sp_cfi_how how = SP_CFI_UNDEFINED; how <= SP_CFI_VAL_EXPR; how++) {
		row = plain_row();
		row.rules.how[SP_ARCH_REG_FP] = (uint8_t)how;
		cr_assert_eq(sp_compact_rule_make(&row, &form), how == SP_CFI_OFFSET);
	}
	row = plain_row();
	row.rules.how[SP_ARCH_REG_SP] = SP_CFI_OFFSET;
	row.rules.value[SP_ARCH_REG_SP] = -24;
	cr_assert(!sp_compact_rule_make(&row, &form));
	row = plain_row();
	row.rules.value[SP_ARCH_REG_FP] = -12;
	cr_assert(!sp_compact_rule_make(&row, &form));
	row.rules.value[SP_ARCH_REG_FP] = 8;
	cr_assert(!sp_compact_rule_make(&row, &form));
	row.rules.value[SP_ARCH_REG_FP] = -8 * 300;
	cr_assert(!sp_compact_rule_make(&row, &form), "far from the others");
	row.rules.value[SP_ARCH_REG_FP] = -8 * 70000;
	cr_assert(!sp_compact_rule_make(&row, &form));
	row = plain_row();
	row.rules.how[SP_ARCH_REG_RETURN] = SP_CFI_SAME;
	cr_assert_eq(sp_compact_rule_make(&row, &form), SP_ARCH_REG_RETURN != SP_ARCH_REG_PC);
	row = plain_row();
	row.rules.cfa_reg = SP_ARCH_REG_PC;
	cr_assert(!sp_compact_rule_make(&row, &form));
	row = plain_row();
	row.return_reg = SP_ARCH_REG_SP;
	cr_assert(!sp_compact_rule_make(&row, &form), "a CIE that calls sp the return address");
}

/* --- Identity ------------------------------------------------------------------------------------ */

/* An object as a linker lays it out: headers, then a note with a build id, in the first page. */
static struct {
	ElfW(Ehdr) elf;
	ElfW(Phdr) header[2];
	ElfW(Nhdr) note;
	char name[4];
	uint8_t id[20];
	uint8_t rest[8192];
} image __attribute__((aligned(4096)));

static struct sp_object object;

static void make_image(void)
{
	memcpy(image.elf.e_ident, ELFMAG, SELFMAG);
	image.elf.e_ident[EI_CLASS] = ELFCLASS64;
	image.elf.e_phoff = sizeof(image.elf);
	image.elf.e_phentsize = sizeof(ElfW(Phdr));
	image.elf.e_phnum = 2;
	image.header[0].p_type = PT_LOAD;
	image.header[0].p_filesz = sizeof(image);
	image.header[1].p_type = PT_NOTE;
	image.header[1].p_offset = (uintptr_t)&image.note - (uintptr_t)&image;
	image.header[1].p_filesz = sizeof(image.note) + 4 + sizeof(image.id);
	image.note = (ElfW(Nhdr)){4, sizeof(image.id), NT_GNU_BUILD_ID};
	memcpy(image.name, "GNU", 4);
	memset(image.id, 0x5a, sizeof(image.id));
	object.start = (uintptr_t)&image;
	object.end = object.start + sizeof(image);
	object.eh_frame_hdr = (uintptr_t)image.rest;
}

TestSuite(object_id, .init = make_image, .timeout = 20);

Test(object_id, stays_the_same)
{
	uint64_t id = sp_object_identity(&object, false);

	cr_assert_neq(id, 0);
	cr_assert_eq(sp_object_identity(&object, false), id);
}

Test(object_id, differs_in_every_byte_of_the_build_id)
{
	uint64_t id = sp_object_identity(&object, false);

	for (unsigned i = 0; i < sizeof(image.id); i++) {
		image.id[i] ^= 1;
		cr_assert_neq(sp_object_identity(&object, false), id, "byte %u", i);
		image.id[i] ^= 1;
	}
}

Test(object_id, differs_by_place)
{
	uint64_t id = sp_object_identity(&object, false);

	object.end -= 16;
	cr_assert_neq(sp_object_identity(&object, false), id);
	object.end += 16;
	object.eh_frame_hdr += 4;
	cr_assert_neq(sp_object_identity(&object, false), id);
}

Test(object_id, is_none_without_a_build_id)
{
	image.note.n_type = 0;
	cr_assert_eq(sp_object_identity(&object, false), 0);
	make_image();
	image.elf.e_ident[0] = 0;
	cr_assert_eq(sp_object_identity(&object, false), 0);
}

Test(object_id, of_the_program_needs_no_build_id)
{
	image.note.n_type = 0;

	cr_assert_neq(sp_object_identity(&object, true), 0);
}

Test(object_id, never_reads_outside_the_first_segment)
{
	image.header[0].p_filesz = image.header[1].p_offset + 8;
	cr_assert_eq(sp_object_identity(&object, false), 0);
	make_image();
	image.header[1].p_filesz = UINT64_MAX;
	cr_assert_eq(sp_object_identity(&object, false), 0);
	make_image();
	image.header[1].p_offset = UINT64_MAX - 8;
	cr_assert_eq(sp_object_identity(&object, false), 0);
	make_image();
	image.elf.e_phoff = UINT64_MAX - 7;
	cr_assert_eq(sp_object_identity(&object, false), 0);
	make_image();
	image.elf.e_phnum = UINT16_MAX;
	cr_assert_eq(sp_object_identity(&object, false), 0);
	make_image();
	image.note.n_descsz = UINT32_MAX;
	cr_assert_eq(sp_object_identity(&object, false), 0);
	make_image();
	image.note.n_type = 0;
	image.note.n_namesz = UINT32_MAX;
	cr_assert_eq(sp_object_identity(&object, false), 0);
}
