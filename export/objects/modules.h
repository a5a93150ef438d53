/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is mapped where: an entry for each loaded object and, for a while, for those that were
 * unloaded. An epoch is a time in which nothing was unloaded, so that an address has one meaning in
 * it.
 */
#ifndef SP_MODULES_H
#define SP_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/objects/host_objects.h"
#include "sampler/region/record.h"

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
	uint32_t serial; /* one object; kept when it is loaded there again */
	uint32_t born;   /* first epoch it was seen in */
	uint32_t died;   /* first epoch without it; or SP_EPOCH_ALIVE */
	uint64_t bias;   /* runtime address minus ELF virtual address */
	uint64_t lo;     /* of its executable PT_LOADs: only addresses of code are looked up */
	uint64_t hi;
	uint64_t phdr; /* where its program headers are: with bias, its identity */
	uint8_t build_id[SP_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0 = none */
	uint8_t segments;
	bool main; /* the program itself */
	bool vdso; /* has no file */
	struct sp_segment segment[SP_MODULE_SEGMENTS];
	const char *
		path; /* to open as long as the host lives; "" = the mappings showed no file of it */
	const char *name; /* last part of the path to show */
	const char *
		shown; /* the path to show; where there is one to open, it usually opens the file as well */
};

struct sp_modules;

/* As sp_host_objects_new(). NULL when out of memory. Nothing is known before the first refresh. */
struct sp_modules *sp_modules_new(const char *proc, int maps);
void sp_modules_free(struct sp_modules *m);

/*
 * What is known now, for whoever names addresses later and meanwhile knows of no change: only what finds
 * something may be called on it. NULL when out of memory.
 */
struct sp_modules *sp_modules_copy(const struct sp_modules *m);

/* Memory that a copy takes. */
size_t sp_modules_bytes(const struct sp_modules *copy);

/*
 * Reads what is mapped now; host_objects.h says what that costs. 0 or a negative errno: then some
 * modules stay unknown, or gone ones known, until the next refresh.
 */
int sp_modules_refresh(struct sp_modules *m);

/* What the last refresh looked at; lives as long as the modules. */
struct sp_host_objects *sp_modules_host(const struct sp_modules *m);

/*
 * A module event: the handler found this object before the samples that follow. If another object
 * is known at its addresses, that one is gone, and a new epoch begins; of SP_MODULES_MAX that are gone the
 * oldest is forgotten, and pointers to it become invalid, as in a refresh. During this upload interval
 * and the next one the object counts as mapped, until another one is announced at its addresses. What the
 * event says is its path is never opened: the object has a file once the mappings have shown it, and until
 * then a name.
 */
void sp_modules_take_event(struct sp_modules *m, const struct sp_module_event *s);

/* The epoch of samples that are drained now. */
uint32_t sp_modules_epoch(const struct sp_modules *m);

/*
 * Begins an upload interval, in which all objects with samples are announced again. Forgets modules
 * that were gone before `epoch`; pointers to them become invalid. Those that went in or after the epoch
 * `wanted` are kept for old stacks, as far as there is room. Returns an epoch: of a stack from before it nobody knows
 * what its addresses mean; 0 = there is no such stack.
 */
uint32_t sp_modules_forget(struct sp_modules *m, uint32_t epoch, uint32_t wanted);

/*
 * The object that held pc during the epoch; else the last one that ever did; else NULL. Of an epoch from which an
 * object was forgotten for want of room, only what held pc then is told: the last one may be another one.
 */
const struct sp_module *sp_modules_find(const struct sp_modules *m, uint64_t pc, uint32_t epoch);

/* The program itself, or NULL. */
const struct sp_module *sp_modules_main(const struct sp_modules *m);

#endif
