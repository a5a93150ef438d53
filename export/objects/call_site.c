/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the instruction before a return address (call_site.h). Context: the exporter. */
#include "export/objects/call_site.h"

#include <stddef.h>
#include <string.h>

/* The first page is never code. */
#define CODE_START 4096U

#if defined(__x86_64__)
/* "jmp *slot(%rip)", the stub of a PLT, as it is or behind endbr64 and with bnd: where its slot is. 0 = none. */
static uint64_t slot_of_stub(const struct sp_call_memory *m, uint64_t at)
{
	static const uint8_t endbr64[4] = {0xf3, 0x0f, 0x1e, 0xfa};
	uint8_t code[11];
	unsigned skip = 0;
	int32_t relative;

	if (!sp_mapped_read(m->code, at, code, sizeof(code)))
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

static enum sp_call by_slot(const struct sp_call_memory *m, uint64_t slot, uint64_t *target)
{
	return m->data.read != NULL && m->data.read(m->data.arg, slot, target) ? SP_CALL_KNOWN
									       : SP_CALL_ANY;
}

enum sp_call sp_call_before(const struct sp_call_memory *m, uint64_t at, uint64_t *target)
{
	static const uint8_t lengths[] = {2, 3, 4, 6, 7};
	uint8_t code[7];
	int32_t relative;
	uint64_t slot;

	if (at < CODE_START || !sp_mapped_read(m->code, at - sizeof(code), code, sizeof(code)))
		return SP_CALL_NONE;
	memcpy(&relative, code + 3, sizeof(relative));
	if (code[2] == 0xe8) {
		*target = at + (uint64_t)(int64_t)relative;
		slot = slot_of_stub(m, *target);
		return slot != 0 ? by_slot(m, slot, target) : SP_CALL_KNOWN;
	}
	if (code[1] == 0xff && code[2] == 0x15)
		return by_slot(m, at + (uint64_t)(int64_t)relative, target);
	for (unsigned i = 0; i < sizeof(lengths); i++) {
		const uint8_t *c = code + sizeof(code) - lengths[i];

		if (c[0] == 0xff && (c[1] & 0x38) == 0x10)
			return SP_CALL_ANY;
	}
	return SP_CALL_NONE;
}
#else
/* bl, or blr. What a PLT's stub calls is not looked up. */
enum sp_call sp_call_before(const struct sp_call_memory *m, uint64_t at, uint64_t *target)
{
	uint32_t code;

	if (at < CODE_START || at % 4 != 0 || !sp_mapped_read(m->code, at - 4, &code, 4))
		return SP_CALL_NONE;
	if ((code & 0xfc000000U) == 0x94000000U) {
		*target = at - 4 + (uint64_t)(int64_t)((int32_t)(code << 6) >> 4);
		return SP_CALL_KNOWN;
	}
	return (code & 0xfffffc1fU) == 0xd63f0000U ? SP_CALL_ANY : SP_CALL_NONE;
}
#endif
