/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Defines the variable otel_thread_ctx_v1 and finds the calling thread's copy; sets up the reading
 * of other publishers' records in handlers; and finds and reads their process context. Context:
 * APP.
 *
 * Readers find the variable by a TLS descriptor (R_X86_64_TLSDESC, R_AARCH64_TLSDESC), and some
 * know no other form. GCC 12 makes a descriptor on x86-64 only with an option that applies to a
 * whole file, and clang 14 has no such option, so the few instructions of the psABI are written
 * here. In the preloaded object the loader resolves the descriptor when it loads the object, and
 * the call runs two instructions that return an offset from the thread pointer. In a program that
 * contains this file, which are unit tests, the linker replaces the call by that offset.
 */
#include "sampler/context/foreign_context.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/base/process.h"
#include "sampler/base/readable_sig.h"
#include "sampler/base/seccomp.h"
#include "sampler/base/text.h"

extern __thread void *_Atomic otel_thread_ctx_v1;
SP_EXPORT __thread void *_Atomic otel_thread_ctx_v1;

#if defined(__x86_64__)
__asm__(".pushsection .text\n"
	".globl sp_context_slot\n"
	".hidden sp_context_slot\n"
	".type sp_context_slot, @function\n"
	"sp_context_slot:\n"
	".cfi_startproc\n"
	"	subq $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"	leaq otel_thread_ctx_v1@tlsdesc(%rip), %rax\n"
	"	call *otel_thread_ctx_v1@tlscall(%rax)\n"
	"	addq %fs:0, %rax\n"
	"	addq $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_endproc\n"
	".size sp_context_slot, .-sp_context_slot\n"
	".popsection\n");
#elif defined(__aarch64__)
__asm__(".pushsection .text\n"
	".globl sp_context_slot\n"
	".hidden sp_context_slot\n"
	".type sp_context_slot, %function\n"
	"sp_context_slot:\n"
	".cfi_startproc\n"
	"	stp x29, x30, [sp, -16]!\n"
	".cfi_adjust_cfa_offset 16\n"
	".cfi_rel_offset x29, 0\n"
	".cfi_rel_offset x30, 8\n"
	"	adrp x0, :tlsdesc:otel_thread_ctx_v1\n"
	"	ldr x1, [x0, :tlsdesc_lo12:otel_thread_ctx_v1]\n"
	"	add x0, x0, :tlsdesc_lo12:otel_thread_ctx_v1\n"
	"	.tlsdesccall otel_thread_ctx_v1\n"
	"	blr x1\n"
	"	mrs x1, tpidr_el0\n"
	"	add x0, x0, x1\n"
	"	ldp x29, x30, [sp], 16\n"
	".cfi_adjust_cfa_offset -16\n"
	".cfi_restore x29\n"
	".cfi_restore x30\n"
	"	ret\n"
	".cfi_endproc\n"
	".size sp_context_slot, .-sp_context_slot\n"
	".popsection\n");
#else
#error "TLS descriptors are written for x86-64 and aarch64"
#endif

/*
 * Whether the line is of such a mapping, whose begin is stored in *at. The name of a mapping is the
 * sixth field of its line, behind any number of blanks.
 */
bool sp_process_maps_line(const char *line, uintptr_t *at)
{
	static const char *const names[] = {
		("[anon_shmem:" SP_PROCESS_CONTEXT_NAME "]"),
		("[anon:" SP_PROCESS_CONTEXT_NAME "]"),
		("/memfd:" SP_PROCESS_CONTEXT_NAME),
	};
	const char *rights = strchr(line, ' ');
	const char *name = line;
	uint64_t start = 0;

	for (unsigned field = 0; field < 5 && name != NULL; field++) {
		name = strchr(name, ' ');
		name = name != NULL ? name + strspn(name, " ") : NULL;
	}
	if (name == NULL || rights[3] == 'x' || !sp_text_number(&line, 16, &start))
		return false;
	*at = (uintptr_t)start;
	for (size_t i = 0; i < SP_ARRAY_LEN(names); i++)
		if (strncmp(name, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

bool sp_process_maps_find(uintptr_t except, uintptr_t *at)
{
	struct sp_proc_lines maps;
	const char *line;
	bool found = false;

	if (!sp_proc_open(&maps, "/proc/self/maps", SP_PROCESS_MAPS_MAX))
		return false;
	while (!found && (line = sp_proc_next(&maps)) != NULL)
		found = sp_process_maps_line(line, at) && *at != except;
	sp_proc_close(&maps);
	return found;
}

#define PAYLOAD_MAX 65536U
#define PAGE 4096U
#define WORD 8U

/* The unread part of a message. */
struct reader {
	const uint8_t *at;
	const uint8_t *end;
};

static bool varint(struct reader *r, uint64_t *out)
{
	*out = 0;
	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint8_t byte = *r->at++;

		*out |= (uint64_t)(byte & 0x7fU) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* Skips a value that is not preceded by its length; the wire type gives the length. */
static bool skip_value(struct reader *r, unsigned type)
{
	uint64_t unused;
	size_t bytes = type == 1 ? 8 : 4;

	if (type == 0)
		return varint(r, &unused);
	if ((type != 1 && type != 5) || (size_t)(r->end - r->at) < bytes)
		return false;
	r->at += bytes;
	return true;
}

/*
 * The next field with a length: its number and its bytes. False at the end, and if the message is
 * malformed.
 */
static bool next_field(struct reader *r, uint64_t *number, struct reader *value)
{
	uint64_t key;
	uint64_t len;

	while (varint(r, &key)) {
		*number = key >> 3;
		if ((key & 7) != 2) {
			if (!skip_value(r, key & 7))
				return false;
			continue;
		}
		if (!varint(r, &len) || len > (uint64_t)(r->end - r->at))
			return false;
		*value = (struct reader){r->at, r->at + len};
		r->at += len;
		return true;
	}
	return false;
}

/* The first field with that number. */
static bool find_field(struct reader r, uint64_t wanted, struct reader *value)
{
	uint64_t number;

	while (next_field(&r, &number, value))
		if (number == wanted)
			return true;
	return false;
}

static bool is_text(const struct reader *r, const char *text)
{
	return (size_t)(r->end - r->at) == strlen(text) && memcmp(r->at, text, strlen(text)) == 0;
}

/*
 * An AnyValue has an ArrayValue with the names of attributes. Returns the index of the local root's
 * name in it; negative = none.
 */
static int place_in(struct reader any)
{
	struct reader array;
	struct reader element;
	struct reader name;
	uint64_t number;
	int place = -1;

	if (!find_field(any, 5, &array))
		return -1;
	for (int i = 0; i < 256 && next_field(&array, &number, &element); i++) {
		if (number == 1 && find_field(element, 1, &name) &&
		    (is_text(&name, SP_PROCESS_CONTEXT_ROOT_NAME) ||
		     is_text(&name, "datadog.local_root_span_id")))
			place = i;
	}
	return place;
}

static bool is_clean(const struct reader *text)
{
	const char *from = (const char *)text->at;
	size_t len = (size_t)(text->end - text->at);

	return !sp_text_has_control(from, len) && sp_text_valid(from, len);
}

/* Copies service.name from a Resource. */
static void copy_service(struct reader resource, char out[SP_PROCESS_CONTEXT_SERVICE_MAX])
{
	struct reader pair;
	struct reader key;
	struct reader any;
	struct reader text;
	uint64_t number;
	size_t len;

	while (next_field(&resource, &number, &pair)) {
		if (number != 1 || !find_field(pair, 1, &key) || !is_text(&key, "service.name") ||
		    !find_field(pair, 2, &any) || !find_field(any, 1, &text))
			continue;
		len = (size_t)(text.end - text.at);
		if (len >= SP_PROCESS_CONTEXT_SERVICE_MAX || !is_clean(&text))
			continue;
		memcpy(out, text.at, len);
		out[len] = '\0';
	}
}

void sp_process_context_find_threads(const uint8_t *message, size_t bytes,
				     struct sp_process_context_threads *out)
{
	struct reader r = {message, message + bytes};
	struct reader pair;
	struct reader key;
	struct reader any;
	uint64_t number;

	*out = (struct sp_process_context_threads){.published = false, .root_key = -1};
	while (next_field(&r, &number, &pair)) {
		if (number == 1)
			copy_service(pair, out->service);
		if (number != 2 || !find_field(pair, 1, &key))
			continue;
		if (is_text(&key, "threadlocal.schema_version"))
			out->published = true;
		if (!is_text(&key, "threadlocal.attribute_key_map") || !find_field(pair, 2, &any))
			continue;
		out->published = true;
		out->root_key = place_in(any);
	}
}

static bool may_read(uintptr_t at, size_t bytes)
{
	for (uintptr_t page = at; page < at + bytes; page += PAGE)
		if (!sp_readable(page))
			return false;
	return bytes >= WORD && sp_readable(at + bytes - WORD);
}

/* The memory belongs to another publisher, so sanitizers do not know its bounds. */
SP_RAW static void copy_memory(void *to, uintptr_t at, size_t bytes)
{
	const volatile uint8_t *from = (const volatile uint8_t *)at;

	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = from[i];
}

static void read_message(const struct sp_process_context *c, struct sp_process_context_threads *out)
{
	size_t bytes = c->payload_bytes;
	uint8_t *message;

	if (c->version != SP_PROCESS_CONTEXT_VERSION || bytes > PAYLOAD_MAX ||
	    atomic_load_explicit(&c->published_ns, memory_order_relaxed) == 0 ||
	    !may_read((uintptr_t)c->payload, bytes))
		return;
	message = sp_arena_map(PAYLOAD_MAX);
	if (message == NULL)
		return;
	copy_memory(message, (uintptr_t)c->payload, bytes);
	sp_process_context_find_threads(message, bytes, out);
	sp_arena_unmap(message, PAYLOAD_MAX);
}

static bool read_header(uintptr_t at, struct sp_process_context *header)
{
	if (!may_read(at, sizeof(*header)))
		return false;
	copy_memory(header, at, sizeof(*header));
	return memcmp(header->signature, SP_PROCESS_CONTEXT_NAME, sizeof(header->signature)) == 0;
}

bool sp_process_context_is_at(uintptr_t at)
{
	struct sp_process_context header;

	return read_header(at, &header);
}

void sp_process_context_read(uintptr_t at, struct sp_process_context_threads *out)
{
	struct sp_process_context header;

	*out = (struct sp_process_context_threads){.published = false, .root_key = -1};
	if (read_header(at, &header))
		read_message(&header, out);
}

/* Each search reads the memory map of the process. */
#define LOOKS_MAX 4U

void sp_foreign_context_start(const struct sp_foreign_context_setup *setup)
{
	struct sp_foreign_context_setup *now = &sp_foreign_context_setup;
	unsigned n = 0;

	*now = *setup;
	/*
	 * The variable lies in storage that has the same distance from the thread pointer in every
	 * thread.
	 */
	now->variable[n++] = (intptr_t)((uintptr_t)sp_context_slot() - sp_arch_thread_pointer());
	for (unsigned i = 0; i < setup->variables && n < SP_FOREIGN_VARIABLES; i++)
		if (setup->variable[i] != now->variable[0])
			now->variable[n++] = setup->variable[i];
	now->variables = n;
	/* pairs with sp_foreign_context_read() */
	atomic_store_explicit(&sp_foreign_context_on, true, memory_order_release);
}

void sp_foreign_context_set_root_key(int key)
{
	atomic_store_explicit(&sp_foreign_context_root_key, key, memory_order_relaxed);
}

struct sp_process_context *_Atomic sp_process_context_own;

bool sp_process_context_find_other(uintptr_t *at)
{
	uintptr_t own =
		(uintptr_t)atomic_load_explicit(&sp_process_context_own, memory_order_relaxed);

	return sp_process_maps_find(own, at);
}

void sp_foreign_context_search(void)
{
	static unsigned looks;
	struct sp_process_context_threads threads = {.root_key = -1};
	uintptr_t at;

	if (looks == LOOKS_MAX ||
	    !atomic_load_explicit(&sp_foreign_context_seen, memory_order_relaxed) ||
	    atomic_load_explicit(&sp_foreign_context_root_key, memory_order_relaxed) >= 0)
		return;
	looks++;
	if (sp_process_context_find_other(&at))
		sp_process_context_read(at, &threads);
	sp_foreign_context_set_root_key(threads.root_key);
}
