/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises releases of haproxytech/opentelemetry-c-wrapper and checks their function tables. APP
 * context.
 */
#define _GNU_SOURCE
#include "preload/sdk/haproxy/haproxy_versions.h"

#include <link.h>
#include <string.h>

#include "preload/elf/fork_barrier.h"
#include "sampler/base/compiler.h"

/*
 * Only what was released: slots were added in the middle more than once, so a later release may
 * differ.
 */
static const struct release {
	unsigned number[3];
	struct sp_haproxy_layout layout;
} releases[] = {
	{{1, 0, 0}, {16, 9}},  {{1, 0, 1}, {16, 9}},  {{1, 0, 2}, {16, 9}},  {{1, 1, 0}, {16, 9}},
	{{2, 0, 0}, {16, 9}},  {{2, 1, 0}, {16, 9}},  {{2, 2, 0}, {16, 9}},  {{2, 2, 1}, {16, 9}},
	{{3, 0, 0}, {32, 10}}, {{3, 1, 0}, {32, 10}}, {{3, 2, 0}, {32, 10}}, {{3, 3, 0}, {32, 11}},
};

/* A decimal number without leading zeros before the separator; NULL if there is none. */
static const char *read_number(const char *at, char separator, unsigned *out)
{
	const char *begin = at;

	*out = 0;
	for (; *at >= '0' && *at <= '9'; at++) {
		if (at - begin >= 9)
			return NULL;
		*out = *out * 10 + (unsigned)(*at - '0');
	}
	if (at == begin || *at != separator || (*begin == '0' && at - begin > 1))
		return NULL;
	return at + (separator != '\0');
}

bool sp_haproxy_layout_of(const char *version, struct sp_haproxy_layout *out)
{
	static const char separator[] = {'.', '.', '-', '\0'};
	unsigned number[SP_ARRAY_LEN(separator)];
	const char *at = version;

	if (at == NULL || strnlen(at, SP_HAPROXY_VERSION_MAX) == SP_HAPROXY_VERSION_MAX)
		return false;
	for (size_t i = 0; i < SP_ARRAY_LEN(separator) && at != NULL; i++)
		at = read_number(at, separator[i], &number[i]);
	if (at == NULL || number[3] == 0)
		return false;
	for (size_t i = 0; i < SP_ARRAY_LEN(releases); i++) {
		if (memcmp(number, releases[i].number, sizeof(releases[i].number)) == 0) {
			*out = releases[i].layout;
			return true;
		}
	}
	return false;
}

struct query {
	uintptr_t function;
	uintptr_t table;
	size_t slots;
	bool ok;
};

/* One of the object's segments with these flags contains the whole range. */
static bool holds(const struct dl_phdr_info *info, uintptr_t address, size_t len, ElfW(Word) flags)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uintptr_t at = address - info->dlpi_addr - p->p_vaddr;

		if (p->p_type == PT_LOAD && (p->p_flags & flags) == flags && at < p->p_memsz &&
		    len <= p->p_memsz - at)
			return true;
	}
	return false;
}

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct query *q = arg;
	const uintptr_t *slot = (const void *)q->table;

	if (!holds(info, q->function, 1, PF_X))
		return 0;
	q->ok = q->table % sizeof(*slot) == 0 &&
		holds(info, q->table, q->slots * sizeof(*slot), PF_R);
	for (size_t i = 0; q->ok && i < q->slots; i++)
		q->ok = holds(info, slot[i], 1, PF_X);
	return 1;
}

bool sp_haproxy_table_ok(const void *function, const void *table, size_t slots)
{
	struct query q = {
		.function = (uintptr_t)function, .table = (uintptr_t)table, .slots = slots};

	(void)sp_fork_barrier_walk(visit, &q);
	return q.ok;
}
