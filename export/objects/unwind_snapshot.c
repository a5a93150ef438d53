/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks snapshots by libunwind. Its remote interface asks functions of ours for everything, so it reads no memory by
 * itself: it sees the registers and the copied stack of one snapshot, and the host's objects. The address space
 * belongs to us, so nothing is cached about objects that may be gone. Context: the exporter.
 */
#include "export/objects/unwind_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include <libunwind.h>

#include "export/objects/host_objects.h"
#include "sampler/base/arch_sig.h"

/* The first page is never code. A return address in it is not a pointer. */
#define SP_CODE_START 4096U

/* The walker's state, which libunwind's functions get as argument. Initially zero except host. */
struct space {
	unw_addr_space_t space; /* NULL before it is opened */
	struct sp_host_objects *host;
	struct sp_unwinder_stack stack;
	struct sp_regs regs; /* registers of the current frame */
	/* the table with the function of the last pc, or NULL */
	const struct sp_frame_table *table;
	uint64_t table_at; /* the address at which libunwind sees it */
	uint64_t function; /* beginning of the last pc's function */
	bool describing;   /* libunwind is reading call frame information */
	bool described;    /* call frame information was found for the last pc */
	bool denied;       /* this step needed memory or a register that is not in the snapshot */
	bool cut;          /* the walk went on beyond the end of the copied stack */
};

struct sp_unwinder {
	struct space from;
	bool is_blocked; /* the frame pointer is unknown */
};

/*
 * Part of the library's interface for remote unwinding, although in none of its headers (1.6.2):
 * searches the table of an .eh_frame_hdr through the accessors.
 */
#define search_unwind_table UNW_OBJ(dwarf_search_unwind_table)
extern int search_unwind_table(unw_addr_space_t as, unw_word_t ip, unw_dyn_info_t *di,
			       unw_proc_info_t *pi, int need_unwind_info, void *arg);

/* A frame that is found by its return address is at most this large. */
#define SP_SEARCH_BYTES (UINT64_C(128) << 10)

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

/* The rows of the object's own table, .eh_frame_hdr. False if it has no readable one. */
static bool find_header(struct space *s, const struct sp_host_object *object, unw_dyn_info_t *di)
{
	uint64_t at = object->bias + object->file->eh_frame_hdr;
	struct eh_frame_hdr hdr;

	if (object->file->eh_frame_hdr == 0 ||
	    !sp_host_objects_read(s->host, at, &hdr, sizeof(hdr)))
		return false;
	di->u.rti.segbase = at;
	di->u.rti.table_data = at + sizeof(hdr);
	/* table_len is in words; a row is two numbers of 4 bytes. */
	di->u.rti.table_len = hdr.count;
	return hdr.version == SP_EH_HDR_VERSION && hdr.frame_encoding == SP_EH_PCREL_SDATA4 &&
	       hdr.count_encoding == SP_EH_UDATA4 && hdr.table_encoding == SP_EH_DATAREL_SDATA4;
}

/* The single row for that function in the table that was made from the object's file. */
static bool find_row(struct space *s, const struct sp_host_object *object, uint64_t ip,
		     unw_dyn_info_t *di)
{
	const struct sp_frame_table *table = sp_object_file_frames(object->file);
	uint64_t at;

	if (!sp_frame_table_find(table, ip - object->bias, &at))
		return false;
	s->table = table;
	s->table_at = object->bias + SP_FRAME_TABLE_AT;
	di->u.rti.segbase = di->u.rti.table_data = s->table_at + at;
	di->u.rti.table_len = 1;
	return true;
}

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *pi,
			  int need_unwind_info, void *arg)
{
	struct space *s = arg;
	const struct sp_host_object *object = sp_host_objects_find(s->host, ip);
	unw_dyn_info_t di;
	int rc = -UNW_ENOINFO;

	s->described = false;
	s->table = NULL;
	if (object == NULL)
		return rc;
	memset(&di, 0, sizeof(di));
	di.format = UNW_INFO_FORMAT_REMOTE_TABLE;
	di.start_ip = object->lo;
	di.end_ip = object->hi;
	s->describing = true;
	if (find_header(s, object, &di))
		rc = search_unwind_table(as, ip, &di, pi, need_unwind_info, arg);
	if (rc != 0 && find_row(s, object, ip, &di))
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

static bool is_generated(const struct space *s, uint64_t ip)
{
	const struct sp_map *map = sp_host_objects_map(s->host, ip);

	return map != NULL && sp_host_objects_is_generated(s->host, map);
}

/* The copied stack comes first, because no object is there. */
static int access_mem(unw_addr_space_t as, unw_word_t addr, unw_word_t *value, int write, void *arg)
{
	struct space *s = arg;
	const struct sp_unwinder_stack *stack = &s->stack;
	uint64_t at = addr - stack->at;

	(void)as;
	if (write != 0)
		return -UNW_EINVAL;
	if (addr >= stack->at && at < stack->bytes) {
		if (stack->bytes - at < sizeof(*value))
			return -UNW_EINVAL;
		memcpy(value, stack->copy + at, sizeof(*value));
		return UNW_ESUCCESS;
	}
	if (s->table != NULL && sp_frame_table_word(s->table, addr - s->table_at, value))
		return UNW_ESUCCESS;
	if (sp_host_objects_read(s->host, addr, value, sizeof(*value)))
		return UNW_ESUCCESS;
	/*
	 * Call frame information of C++ contains a pointer, in data, to its personality routine. The walk does not
	 * need it, but libunwind rejects the rest without it.
	 */
	if (s->describing && sp_host_objects_is_data(s->host, addr)) {
		*value = 0;
		return UNW_ESUCCESS;
	}
	/*
	 * libunwind compares the code at a pc with known patterns. If it cannot read the code, it takes the pc for a
	 * jump to nowhere, and a word of the stack for the return address. Generated code exists but matches no
	 * pattern, so 0 is returned for it.
	 */
	if (is_generated(s, addr)) {
		*value = 0;
		return UNW_ESUCCESS;
	}
	s->denied = true;
	s->cut |= addr >= stack->at && stack->has_more;
	return -UNW_EINVAL;
}

/* libunwind's register numbers are DWARF's, on both processors. */
static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write,
		      void *arg)
{
	struct space *s = arg;

	(void)as;
	if (write != 0 || reg < 0 || !sp_regs_known(&s->regs, (uint64_t)reg)) {
		s->denied = true;
		return -UNW_EBADREG;
	}
	*value = s->regs.r[reg];
	return UNW_ESUCCESS;
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

/*
 * Prepares unw_init_remote() with the space as argument. libunwind opens a pipe for a space and keeps it open, so
 * this is called only when needed; a second call costs nothing. False when out of memory.
 */
static bool open_space(struct space *s)
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

	if (s->space == NULL)
		s->space = unw_create_addr_space(&accessors, 0);
	if (s->space != NULL)
		(void)unw_set_caching_policy(s->space, UNW_CACHE_NONE);
	return s->space != NULL;
}

/* Reads one word through the functions that libunwind uses. False if there is none. */
static bool read_word(struct space *s, uint64_t at, unw_word_t *word)
{
	return access_mem(s->space, at, word, 0, s) == 0;
}

struct sp_unwinder *sp_unwinder_new(struct sp_host_objects *host)
{
	struct sp_unwinder *u = calloc(1, sizeof(*u));

	if (u != NULL)
		u->from.host = host;
	return u;
}

void sp_unwinder_free(struct sp_unwinder *u)
{
	if (u == NULL)
		return;
	if (u->from.space != NULL)
		unw_destroy_addr_space(u->from.space);
	free(u);
}

void sp_unwinder_set_memory(struct sp_unwinder *u, const struct sp_host_memory *memory)
{
	if (u != NULL)
		sp_host_objects_set_memory(u->from.host, memory);
}

/* The kernel entered this code without a call, and the frame above was interrupted. */
static bool at_sigreturn(struct sp_unwinder *u, uint64_t ip)
{
	uint8_t code[SP_ARCH_SIGRETURN_BYTES];

	return sp_host_objects_read(u->from.host, ip, code, sizeof(code)) &&
	       sp_arch_is_sigreturn(code);
}

struct place {
	unw_word_t sp;
	unw_word_t fp;
};

static bool place_of(unw_cursor_t *cursor, struct place *p)
{
	if (unw_get_reg(cursor, UNW_REG_SP, &p->sp) != 0)
		return false;
	if (unw_get_reg(cursor, (unw_regnum_t)SP_ARCH_REG_FP, &p->fp) != 0)
		p->fp = 0;
	return true;
}

static bool is_behind_call(struct sp_unwinder *u, uint64_t ip)
{
	uint8_t code[SP_ARCH_CALL_BYTES];

	return (sp_host_objects_read(u->from.host, ip - sizeof(code), code, sizeof(code)) ||
		sp_host_objects_read_own(u->from.host, ip - sizeof(code), code, sizeof(code))) &&
	       sp_arch_is_behind_call(code + sizeof(code), sizeof(code));
}

/*
 * Without call frame information libunwind guesses, also from the words at sp. Only one guess is accepted: a chain of
 * frame pointers (code of a JIT compiler) where a call has left the return address, or which leads from generated
 * code to generated code (sampler/unwind/unwind_sig.c).
 */
static bool by_frame_pointer(struct sp_unwinder *u, const struct place *p, uint64_t here,
			     uint64_t ip)
{
	unw_word_t saved;

	return p->fp >= p->sp && p->fp % sizeof(saved) == 0 &&
	       read_word(&u->from, p->fp + sizeof(saved), &saved) && saved == ip &&
	       ip >= SP_CODE_START &&
	       (is_behind_call(u, ip) ||
		(is_generated(&u->from, here) && is_generated(&u->from, ip - 1)));
}

enum step { STEP_CALLER, STEP_OUTERMOST, STEP_FAILED };

/* Steps from a frame to its caller. libunwind reports some failed steps as the end of the stack. */
static enum step step(struct sp_unwinder *u, unw_cursor_t *cursor, bool trampoline, uint64_t *ip)
{
	uint64_t here = *ip;
	struct place before;
	struct place after;
	int rc;

	u->from.described = false;
	u->from.denied = false;
	if (!place_of(cursor, &before))
		return STEP_FAILED;
	rc = unw_step(cursor);
	/* the artificial caller of a stack of Boost.Context, see sampler/unwind/unwind_sig.c */
	if (!u->from.described && !trampoline && before.fp == here)
		return STEP_OUTERMOST;
	if (rc <= 0)
		return rc == 0 && u->from.described && !u->from.denied ? STEP_OUTERMOST
								       : STEP_FAILED;
	if (unw_get_reg(cursor, UNW_REG_IP, ip) != 0 || !place_of(cursor, &after))
		return STEP_FAILED;
	if (!u->from.described && !trampoline && !by_frame_pointer(u, &before, here, *ip))
		return STEP_FAILED;
	if (*ip == 0)
		return STEP_OUTERMOST;
	/* A caller's sp is higher, but interrupted code may be on another stack. */
	if (*ip < SP_CODE_START || *ip >= SP_ARCH_ADDRESS_END ||
	    (after.sp < before.sp && !trampoline))
		return STEP_FAILED;
	return STEP_CALLER;
}

static bool is_word_of_stack(const struct sp_unwinder_stack *s, uint64_t at)
{
	return at >= s->at && at - s->at + sizeof(uint64_t) <= s->bytes;
}

static uint64_t word_at(const struct sp_unwinder_stack *s, uint64_t at)
{
	uint64_t word;

	memcpy(&word, s->copy + (at - s->at), sizeof(word));
	return word;
}

/* A frame of a walk. */
struct frame {
	unw_cursor_t cursor;
	uint64_t ip;
	bool is_exact; /* ip is where the code was interrupted, not the return address of a call */
};

/*
 * Walks from the frame *f, which becomes the last frame that was reached. STEP_CALLER: s has no
 * place for more frames.
 */
static enum step follow(struct sp_unwinder *u, struct frame *f, unsigned max, struct sp_sample *s)
{
	for (;;) {
		bool trampoline = at_sigreturn(u, f->ip);
		struct frame next = *f;
		enum step outcome;

		/* By the convention of record.h a caller's pc lies inside its call instruction. */
		s->pc[s->depth++] = f->ip - (f->is_exact || trampoline ? 0 : 1);
		if (s->depth >= max)
			return STEP_CALLER;
		outcome = step(u, &next.cursor, trampoline, &next.ip);
		if (outcome != STEP_CALLER)
			return outcome;
		next.is_exact = trampoline;
		*f = next;
	}
}

#if defined(__x86_64__)
/* The slot of a PLT stub, "jmp *slot(%rip)" with or without endbr64 and bnd; 0 = no stub. */
static uint64_t slot_of_stub(struct sp_host_objects *code_of, uint64_t at)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint8_t code[11];
	unsigned skip = 0;
	int32_t relative;

	if (!sp_host_objects_read(code_of, at, code, sizeof(code)))
		return 0;
	if (memcmp(code, endbr64, sizeof(endbr64)) == 0)
		skip = sizeof(endbr64);
	if (code[skip] == 0xf2)
		skip++;
	if (code[skip] != 0xff || code[skip + 1] != 0x25)
		return 0;
	memcpy(&relative, code + skip + 2, sizeof(relative));
	return at + skip + 6 + (uint64_t)(int64_t)relative;
}

/*
 * Whether that return address is behind a call of that function. Code is read from the files of the host's objects.
 * If the call goes through a slot for functions of other objects (a GOT), the slot is read from the host. A call
 * through a pointer does not say which function it calls.
 */
static bool calls(struct sp_unwinder *u, uint64_t at, uint64_t function)
{
	uint64_t target = 0, slot = 0;
	int32_t relative;
	uint8_t code[6];

	if (at < SP_CODE_START ||
	    !sp_host_objects_read(u->from.host, at - sizeof(code), code, sizeof(code)))
		return false;
	memcpy(&relative, code + 2, sizeof(relative));
	if (code[1] == 0xe8) {
		target = at + (uint64_t)(int64_t)relative;
		slot = slot_of_stub(u->from.host, target);
	} else if (code[0] == 0xff && code[1] == 0x15) {
		slot = at + (uint64_t)(int64_t)relative;
	}
	if (slot != 0 && !sp_host_objects_read_own(u->from.host, slot, &target, sizeof(target)))
		return false;
	return target != 0 && target == function;
}
#else
/* bl. The function behind a PLT stub is not looked up. */
static bool calls(struct sp_unwinder *u, uint64_t at, uint64_t function)
{
	uint32_t code;

	return at >= SP_CODE_START && at % 4 == 0 &&
	       sp_host_objects_read(u->from.host, at - 4, &code, 4) &&
	       (code & 0xfc000000U) == 0x94000000U &&
	       at - 4 + (uint64_t)(int64_t)((int32_t)(code << 6) >> 4) == function;
}
#endif

/*
 * Steps from the frame to its caller, on the assumption that its return address is at return_at:
 * sets the frame pointer to the value that leads there. False if the step does not lead there.
 */
static bool step_by(struct sp_unwinder *u, const struct frame *f, uint64_t return_at,
		    struct frame *caller)
{
	sp_regs_set(&u->from.regs, SP_ARCH_REG_FP, return_at - sizeof(uint64_t));
	*caller = *f;
	caller->is_exact = false;
	return step(u, &caller->cursor, false, &caller->ip) == STEP_CALLER &&
	       caller->ip == word_at(&u->from.stack, return_at);
}

/*
 * Whether a step from this frame needs only the frame pointer, which is unknown. *from: the lowest
 * address at which the return address may be.
 */
static bool lacks_frame_pointer(struct sp_unwinder *u, const struct frame *f, uint64_t *from)
{
	unw_cursor_t at = f->cursor;
	struct place place;

	if (!u->is_blocked || !u->from.described || !place_of(&at, &place) ||
	    (place.fp != 0 && is_word_of_stack(&u->from.stack, place.fp)))
		return false;
	*from = (place.sp + sizeof(uint64_t) - 1) & ~(uint64_t)(sizeof(uint64_t) - 1);
	return true;
}

/*
 * Searches the stack for the return address that a call of just this function has left. If the
 * function was called through a pointer there is no such address, and megabytes of other data may
 * follow.
 */
static bool find_caller(struct sp_unwinder *u, struct frame *f, uint64_t from)
{
	uint64_t function = u->from.function;
	uint64_t at = from;
	struct frame caller;

	for (; at - from < SP_SEARCH_BYTES && is_word_of_stack(&u->from.stack, at);
	     at += sizeof(uint64_t)) {
		if (!calls(u, word_at(&u->from.stack, at), function) || !step_by(u, f, at, &caller))
			continue;
		*f = caller;
		return true;
	}
	/* The search has reached the end of the copy, and the return address may be behind it. */
	u->from.cut |= at - from < SP_SEARCH_BYTES && u->from.stack.has_more;
	return false;
}

static bool walk(struct sp_unwinder *u, struct frame *f, unsigned max, struct sp_sample *s)
{
	enum step end = follow(u, f, max, s);
	uint64_t from;

	while (end == STEP_FAILED && lacks_frame_pointer(u, f, &from)) {
		if (!find_caller(u, f, from))
			break;
		end = follow(u, f, max, s);
	}
	if (end == STEP_OUTERMOST)
		s->flags |= SP_SAMPLE_ROOTED;
	else if (end == STEP_CALLER || u->from.cut)
		s->flags |= SP_SAMPLE_TRUNCATED;
	return end != STEP_FAILED || u->from.cut;
}

/* Walks a stack from the registers in u->from.regs. s is empty except for flags, which stay. */
static bool walk_stack(struct sp_unwinder *u, const struct sp_unwinder_stack *stack, unsigned max,
		       struct sp_sample *s)
{
	uint64_t pc = u->from.regs.r[SP_ARCH_REG_PC];
	struct frame f = {.ip = pc, .is_exact = true};

	s->depth = 0;
	u->from.stack = *stack;
	u->from.cut = false;
	if (max == 0 || max > SP_FRAMES_MAX)
		max = SP_FRAMES_MAX;
	if (open_space(&u->from) && unw_init_remote(&f.cursor, u->from.space, &u->from) == 0)
		return walk(u, &f, max, s);
	s->pc[s->depth++] = pc;
	return false;
}

bool sp_unwinder_walk(struct sp_unwinder *u, const struct sp_snapshot *snap, unsigned max,
		      struct sp_sample *s)
{
	const struct sp_unwinder_stack stack = {snap->stack_at, snap->stack, snap->stack_bytes,
						snap->stack_bytes == SP_SNAPSHOT_STACK_MAX};

	u->is_blocked = false;
	for (unsigned i = 0; i < SP_ARCH_REGS; i++)
		sp_regs_set(&u->from.regs, i, snap->reg[i]);
	memcpy(s, snap->sample, sizeof(snap->sample));
	s->flags &= SP_SAMPLE_OFF_STACK;
	return walk_stack(u, &stack, max, s);
}

bool sp_unwinder_walk_blocked(struct sp_unwinder *u, const struct sp_unwinder_blocked *blocked,
			      unsigned max, struct sp_sample *s)
{
	u->is_blocked = true;
	u->from.regs = blocked->regs;
	memset(s, 0, offsetof(struct sp_sample, pc));
	return walk_stack(u, &blocked->stack, max, s);
}
