/* SPDX-License-Identifier: Apache-2.0 */
/* What libunwind may see (unwind_space.h). Context: the exporter. */
#include "export/objects/unwind_space.h"

#include <string.h>

/*
 * Part of the library's interface for remote unwinding, although in none of its headers (1.6.2):
 * searches the table of an .eh_frame_hdr through the accessors.
 */
#define search_unwind_table UNW_OBJ(dwarf_search_unwind_table)
extern int search_unwind_table(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
			       unw_proc_info_t *pi, int need_unwind_info, void *arg);

/* The form of .eh_frame_hdr that every linker writes. */
#define SP_EH_HDR_VERSION 1
#define SP_EH_PCREL_SDATA4 0x1b
#define SP_EH_UDATA4 0x03
#define SP_EH_DATAREL_SDATA4 0x3b

struct eh_frame_hdr {
	uint8_t version;
	uint8_t frame_encoding;
	uint8_t count_encoding;
	uint8_t table_encoding;
	int32_t frame;
	uint32_t count;
};

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi,
			  int need_unwind_info, void *arg)
{
	struct sp_unwind_space *s = arg;
	struct sp_mapped_object object;
	struct eh_frame_hdr hdr;
	unw_dyn_info_t di;
	int rc;

	s->described = false;
	if (!sp_mapped_find(s->mapped, ip, &object) || object.eh_frame_hdr == 0 ||
	    !sp_mapped_read(s->mapped, object.eh_frame_hdr, &hdr, sizeof(hdr)))
		return -UNW_ENOINFO;
	if (hdr.version != SP_EH_HDR_VERSION || hdr.frame_encoding != SP_EH_PCREL_SDATA4 ||
	    hdr.count_encoding != SP_EH_UDATA4 || hdr.table_encoding != SP_EH_DATAREL_SDATA4)
		return -UNW_ENOINFO;
	memset(&di, 0, sizeof(di));
	di.format = UNW_INFO_FORMAT_REMOTE_TABLE;
	di.start_ip = object.lo;
	di.end_ip = object.hi;
	di.u.rti.segbase = object.eh_frame_hdr;
	di.u.rti.table_data = object.eh_frame_hdr + sizeof(hdr);
	/* In words; a row is two numbers of 4 bytes. */
	di.u.rti.table_len = hdr.count;
	s->describing = true;
	rc = search_unwind_table(as, ip, &di, pi, need_unwind_info, arg);
	s->describing = false;
	s->described = rc == 0;
	s->function = rc == 0 ? pi->start_ip : 0;
	return rc;
}

/* The signatures are libunwind's. */
// NOLINTBEGIN(readability-non-const-parameter)
static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *pi, void *arg)
{
	(void)as;
	(void)pi;
	(void)arg;
}

static int no_dyn_info_list(unw_addr_space_t as, unw_word_t *at, void *arg)
{
	(void)as;
	(void)at;
	(void)arg;
	return -UNW_ENOINFO;
}

/* The copied stack first: no object lies there. */
static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *value, int write, void *arg)
{
	struct sp_unwind_space *s = arg;
	const struct sp_unwinder_stack *stack = &s->stack;
	uint64_t at = addr - stack->at;

	(void)as;
	if (write != 0)
		return -UNW_EINVAL;
	if (addr >= stack->at && at < stack->bytes) {
		if (stack->bytes - at < sizeof(*value))
			return -UNW_EINVAL;
		memcpy(value, stack->copy + at, sizeof(*value));
		return 0;
	}
	if (sp_mapped_read(s->mapped, addr, value, sizeof(*value)))
		return 0;
	/*
	 * Call frame information of C++ contains a pointer, in data, to its personality routine.
	 * Nobody needs that here, but without it libunwind rejects the rest.
	 */
	if (s->describing && sp_mapped_is_data(s->mapped, addr)) {
		*value = 0;
		return 0;
	}
	s->denied = true;
	s->cut |= addr >= stack->at && stack->has_more;
	return -UNW_EINVAL;
}

/* libunwind's register numbers are DWARF's, on both processors. */
static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write,
		      void *arg)
{
	const struct sp_unwind_space *s = arg;

	(void)as;
	if (write != 0 || reg < 0 || reg >= (int)SP_ARCH_REGS)
		return -UNW_EBADREG;
	*value = s->reg[reg];
	return 0;
}

static int no_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *value, int write, void *arg)
{
	(void)as;
	(void)reg;
	(void)value;
	(void)write;
	(void)arg;
	return -UNW_EBADREG;
}

static int no_resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	(void)as;
	(void)cursor;
	(void)arg;
	return -UNW_EINVAL;
}

static int no_name(unw_addr_space_t as, unw_word_t ip, char *buf, size_t size, unw_word_t *offset,
		   void *arg)
{
	(void)as;
	(void)ip;
	(void)buf;
	(void)size;
	(void)offset;
	(void)arg;
	return -UNW_ENOINFO;
}

// NOLINTEND(readability-non-const-parameter)

bool sp_unwind_space_open(struct sp_unwind_space *s)
{
	static unw_accessors_t accessors = {
		.find_proc_info = find_proc_info,
		.put_unwind_info = put_unwind_info,
		.get_dyn_info_list_addr = no_dyn_info_list,
		.access_mem = access_mem,
		.access_reg = access_reg,
		.access_fpreg = no_fpreg,
		.resume = no_resume,
		.get_proc_name = no_name,
	};

	if (s->mapped == NULL)
		s->mapped = sp_mapped_new(s->host);
	if (s->space == NULL)
		s->space = unw_create_addr_space(&accessors, 0);
	if (s->space != NULL)
		(void)unw_set_caching_policy(s->space, UNW_CACHE_NONE);
	return s->mapped != NULL && s->space != NULL;
}

bool sp_unwind_space_read(struct sp_unwind_space *s, uint64_t at, unw_word_t *word)
{
	return access_mem(s->space, at, word, 0, s) == 0;
}

void sp_unwind_space_close(struct sp_unwind_space *s)
{
	if (s->space != NULL)
		unw_destroy_addr_space(s->space);
	sp_mapped_free(s->mapped);
}
