/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a module of what the host's mappings or a module event show. Context: the exporter. */
#define _GNU_SOURCE
#include "export/objects/module_read.h"

#include <elf.h>
#include <string.h>

static uint64_t page_down(uint64_t a)
{
	return a & ~(uint64_t)4095;
}

static uint64_t page_up(uint64_t a)
{
	return page_down(a + 4095);
}

static void read_load(struct sp_module *mod, const struct sp_object_load *l)
{
	uint64_t start = mod->bias + l->vaddr;

	if ((l->flags & PF_X) == 0)
		return;
	if (start < mod->lo)
		mod->lo = start;
	if (start + l->memsz > mod->hi)
		mod->hi = start + l->memsz;
	if (mod->segments < SP_MODULE_SEGMENTS)
		mod->segment[mod->segments++] = (struct sp_segment){
			.start = page_down(start),
			.end = page_up(start + l->memsz),
			.offset = page_down(l->offset),
		};
}

void sp_module_read(struct sp_module *mod, const struct sp_host_object *object)
{
	const struct sp_object_file *f = object->file;

	memset(mod, 0, sizeof(*mod));
	mod->bias = object->bias;
	mod->phdr = object->bias + f->phdr;
	mod->lo = UINT64_MAX;
	mod->main = object->main;
	mod->vdso = f->vdso;
	for (unsigned i = 0; i < f->loads; i++)
		read_load(mod, &f->load[i]);
	mod->build_id_len = f->build_id_len;
	memcpy(mod->build_id, f->build_id, f->build_id_len);
}

bool sp_module_same(const struct sp_module *a, const struct sp_module *b)
{
	return a->bias == b->bias && a->phdr == b->phdr && a->hi == b->hi &&
	       a->build_id_len == b->build_id_len &&
	       memcmp(a->build_id, b->build_id, sizeof(a->build_id)) == 0;
}

void sp_module_read_event(struct sp_module *mod, const struct sp_module_event *s)
{
	memset(mod, 0, sizeof(*mod));
	mod->bias = s->bias;
	mod->phdr = s->phdr;
	mod->lo = UINT64_MAX;
	for (uint64_t i = 0; i < s->loads && i < SP_MODULE_EVENT_LOADS; i++)
		read_load(mod, &(struct sp_object_load){.flags = (uint32_t)s->load[i].flags,
							.offset = s->load[i].offset,
							.vaddr = s->load[i].vaddr,
							.memsz = s->load[i].memsz});
	mod->build_id_len = s->build_id_len <= SP_BUILD_ID_MAX ? (uint8_t)s->build_id_len : 0;
	memcpy(mod->build_id, s->build_id, mod->build_id_len);
}
