/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names modules: by the path that the kernel has for their mappings, even if the loader has another
 * one. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/module_name.h"

#include <stdio.h>
#include <string.h>

static void set(struct sp_module *mod, const char *text)
{
	mod->path = text;
	mod->shown = text + SP_MODULE_PATH_BYTES;
	mod->name = strrchr(mod->shown, '/') != NULL ? strrchr(mod->shown, '/') + 1 : mod->shown;
}

/* A path that is too long becomes empty. */
static void put(char *to, const char *path)
{
	size_t len = strlen(path);

	memcpy(to, path, len < SP_MODULE_PATH_BYTES ? len + 1 : 0);
}

static void put_cut(char *to, const char *path, size_t len)
{
	len = len < SP_MODULE_PATH_BYTES ? len : SP_MODULE_PATH_BYTES - 1;
	memcpy(to, path, len);
	to[len] = '\0';
}

void sp_module_name(struct sp_module *mod, const char *proc, const struct sp_host_object *object,
		    char text[2 * SP_MODULE_PATH_BYTES])
{
	static const char deleted[] = " (deleted)";
	const struct sp_object_file *f = object->file;
	size_t len = strlen(f->mapped);
	size_t tail = sizeof(deleted) - 1;

	if (len > tail && strcmp(f->mapped + len - tail, deleted) == 0)
		len -= tail;
	/* The program itself can be opened by this link even when its file was replaced. */
	if (object->main)
		(void)snprintf(text, SP_MODULE_PATH_BYTES, "%s/exe", proc);
	else
		put(text, f->path != NULL ? f->path : "");
	put_cut(text + SP_MODULE_PATH_BYTES, f->mapped, len);
	set(mod, text);
}

/*
 * The loader's path is what the host says, and whoever may write to its memory. We may have more rights
 * than whoever wrote it, so it is shown and leads to no file.
 */
void sp_module_name_event(struct sp_module *mod, const char *path,
			  char text[2 * SP_MODULE_PATH_BYTES])
{
	put(text, "");
	put_cut(text + SP_MODULE_PATH_BYTES, path, strlen(path));
	set(mod, text);
}
