/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the record that another library publishes for the interrupted thread. Runs inside the
 * sampling signal on that thread: no lock, heap, stdio or lazy TLS.
 *
 * The publisher may have been interrupted at any instruction. While it changes the record it marks
 * it as invalid, or it only changes the pointer (OTEP 4947). Only the bytes of the record are read,
 * and each length is checked.
 */
#include "sampler/context/foreign_context.h"

#include <string.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/readable_sig.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define HEAD offsetof(struct sp_context_record, key)
/* OTEP 4947: no record is larger for a reader. */
#define RECORD_MAX 640U
/* sp_readable() checks this many bytes. */
#define WORD 8U
#define ID_DIGITS 16U

struct sp_foreign_context_setup sp_foreign_context_setup;
_Atomic int sp_foreign_context_root_key = -1;
_Atomic bool sp_foreign_context_on;
_Atomic bool sp_foreign_context_seen;

static bool is_in_tls(uintptr_t at, size_t bytes)
{
	const struct sp_foreign_context_setup *s = &sp_foreign_context_setup;
	uintptr_t tp = sp_arch_thread_pointer();
	uintptr_t size = (uintptr_t)(s->tls_end - s->tls_begin);
	uintptr_t from = at - (tp + (uintptr_t)s->tls_begin);

	return from < size && bytes <= size - from;
}

/*
 * Whether up to a page of memory at `at` can be read. The page at `known`, before it, can be read.
 */
static bool may_read(uintptr_t known, uintptr_t at, size_t bytes)
{
	const uintptr_t page = 4096;

	if (at > SP_ARCH_ADDRESS_END - bytes)
		return false;
	return known / page == (at + bytes - 1) / page || is_in_tls(at, bytes) ||
	       sp_readable(at + bytes - WORD);
}

/*
 * Not memcpy(), which sanitizers watch: the memory may be a stack, or unknown to them. In few large
 * pieces, because the copy is read again at once.
 */
struct piece {
	uint64_t word;
} __attribute__((packed, may_alias));

SP_RAW static void copy_head(struct sp_context_record *to, uintptr_t at)
{
	struct piece *out = (struct piece *)to;
	const struct piece *from = (const struct piece *)at;

	out[0] = from[0];
	out[1] = from[1];
	out[2] = from[2];
	/* the last piece overlaps, because the head ends inside it */
	*(struct piece *)((uintptr_t)to + HEAD - WORD) = *(const struct piece *)(at + HEAD - WORD);
}

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/*
 * Four bytes from eight hex digits of either case, all at once. False if a character is no digit:
 * encoding the result again gives other characters.
 */
SP_RAW static bool parse_half(uintptr_t text, uint32_t *out)
{
	uint64_t x;
	uint64_t letters;
	uint64_t v;
	uint64_t written;

	x = ((const struct piece *)text)->word;
	/* bit 6 of a character tells letters from digits */
	letters = x >> 6 & EACH(1);
	v = (x & EACH(0x0f)) + letters * 9;
	written = v + EACH('0') + ((v + EACH(6)) >> 4 & EACH(1)) * ('a' - '0' - 10);
	if ((v & EACH(0xf0)) != 0 || written != (x | letters << 5))
		return false;
	v = (v << 4 | v >> 8) & UINT64_C(0x00ff00ff00ff00ff);
	v = (v | v >> 8) & UINT64_C(0x0000ffff0000ffff);
	*out = (uint32_t)(v | v >> 16);
	return true;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first digit is in the lowest byte");

/* The id that the text encodes; 0 = none. */
static uint64_t parse_id(uintptr_t text)
{
	uint32_t half[2];
	uint64_t id;

	if (!parse_half(text, &half[0]) || !parse_half(text + ID_DIGITS / 2, &half[1]))
		return 0;
	memcpy(&id, half, sizeof(id));
	return id;
}

/*
 * Finds the id of the local root. Of two attributes with the same key the last one counts. The text
 * is read in place, because the thread is interrupted; but each length is read only once, in case
 * another thread writes there.
 */
SP_RAW static uint64_t find_root(uintptr_t at, size_t bytes, int key)
{
	const volatile uint8_t *from = (const volatile uint8_t *)at;
	uint64_t root = 0;

	while (bytes >= 2) {
		int is = from[0];
		size_t len = from[1];

		if (len > bytes - 2)
			break;
		if (is == key && len == ID_DIGITS)
			root = parse_id((uintptr_t)from + 2);
		from += 2 + len;
		bytes -= 2 + len;
	}
	return root;
}

static uint64_t root_of(uintptr_t at, size_t bytes)
{
	int key = atomic_load_explicit(&sp_foreign_context_root_key, memory_order_relaxed);

	if (key < 0 || bytes < 2 + ID_DIGITS || bytes > RECORD_MAX - HEAD ||
	    !may_read(at, at + HEAD, bytes))
		return 0;
	return find_root(at + HEAD, bytes, key);
}

static bool read_record(uintptr_t at, struct sp_foreign_ids *out)
{
	static const uint8_t zero[sizeof(out->trace_id)];
	struct sp_context_record r;

	if (at % 2 != 0 || at > SP_ARCH_ADDRESS_END - HEAD ||
	    !(is_in_tls(at, HEAD) || (sp_readable(at) && may_read(at, at, HEAD))))
		return false;
	copy_head(&r, at);
	if (atomic_load_explicit(&r.valid, memory_order_relaxed) != 1 ||
	    memcmp(r.trace_id, zero, sizeof(zero)) == 0)
		return false;
	memcpy(&out->span_id, r.span_id, sizeof(out->span_id));
	memcpy(out->trace_id, r.trace_id, sizeof(out->trace_id));
	if (out->span_id == 0)
		return false;
	out->root_id = root_of(at, r.attributes);
	return true;
}

SP_SIGSAFE bool sp_foreign_context_read(const struct sp_context_record *own,
					struct sp_foreign_ids *out)
{
	const struct sp_foreign_context_setup *s = &sp_foreign_context_setup;
	uintptr_t tp = sp_arch_thread_pointer();

	/* pairs with sp_foreign_context_start() */
	if (!atomic_load_explicit(&sp_foreign_context_on, memory_order_acquire))
		return false;
	for (unsigned i = 0; i < s->variables; i++) {
		const _Atomic uintptr_t *variable =
			(const _Atomic uintptr_t *)(tp + (uintptr_t)s->variable[i]);
		uintptr_t at = atomic_load_explicit(variable, memory_order_relaxed);

		if (at == 0 || at == (uintptr_t)own || !read_record(at, out))
			continue;
		if (!atomic_load_explicit(&sp_foreign_context_seen, memory_order_relaxed))
			atomic_store_explicit(&sp_foreign_context_seen, true, memory_order_relaxed);
		return true;
	}
	return false;
}
