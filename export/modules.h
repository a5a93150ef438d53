/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mapped where: one entry per loaded object, and for a while the ones that were unloaded.
 * An epoch is a stretch of time in which nothing was unloaded; an address has one meaning in it.
 */
#ifndef SP_MODULES_H
#define SP_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/host_objects.h"
#include "sampler/module_event.h"

#define SP_MODULE_SEGMENTS 4U
#define SP_MODULES_MAX 4096U
#define SP_EPOCH_ALIVE UINT32_MAX

/* An executable PT_LOAD, in runtime addresses rounded out to pages, as /proc/PID/maps shows it. */
struct sp_segment {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
};

struct sp_module {
	uint32_t serial; /* never of two objects; what is loaded again where it was keeps it */
	uint32_t born;   /* first epoch it was seen in */
	uint32_t died;   /* first epoch it was gone, or SP_EPOCH_ALIVE as far as is known */
	uint64_t bias;   /* runtime address minus ELF virtual address */
	uint64_t lo;     /* of all its PT_LOADs */
	uint64_t hi;
	uint64_t phdr; /* where its program headers are: with bias, its identity */
	uint8_t build_id[SP_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0 = none */
	uint8_t segments;
	bool main; /* the program itself */
	bool vdso; /* has no file */
	struct sp_segment segment[SP_MODULE_SEGMENTS];
	const char *path;  /* to open as long as the host lives, "" = none */
	const char *name;  /* last part of the path to show */
	const char *shown; /* the path to show; as a rule it opens the file as well */
};

struct sp_modules;

/*
 * As sp_host_objects_new(). NULL when out of memory. Nothing is known before the
 * first refresh.
 */
struct sp_modules *sp_modules_new(const char *proc, int maps);
void sp_modules_free(struct sp_modules *m);

/*
 * Looks what is mapped now; what that costs is told in host_objects.h. 0 or a negative errno: then
 * some modules stay unknown, or ones that are gone known, until the next refresh.
 */
int sp_modules_refresh(struct sp_modules *m);

/* What the last refresh looked at; lives as long as the modules. */
const struct sp_host_objects *sp_modules_host(const struct sp_modules *m);

/*
 * The handler has found this object before the samples that follow. If it is another one than is known at
 * its addresses, that one is gone, and a new epoch begins. For this upload interval and the next one it is
 * there, as far as epochs are concerned, until another one is told of at its addresses.
 */
void sp_modules_take_event(struct sp_modules *m, const struct sp_module_event *s);

/* Number for samples drained now. */
uint32_t sp_modules_epoch(const struct sp_modules *m);

/*
 * Begins an upload interval, in which all objects that samples are in are told of again. Forgets modules that
 * were gone before `epoch`. Pointers to them die.
 */
void sp_modules_forget(struct sp_modules *m, uint32_t epoch);

/* The object that held pc during the epoch; else the last one that ever did; else NULL. */
const struct sp_module *sp_modules_find(const struct sp_modules *m, uint64_t pc, uint32_t epoch);

/* The program itself, or NULL. */
const struct sp_module *sp_modules_main(const struct sp_modules *m);

#endif
