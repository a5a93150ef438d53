/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which object is mapped at which addresses: an entry for each loaded object and, for a while, for unloaded
 * ones. An epoch is a time during which no object was unloaded, so an address has one meaning in it.
 */
#ifndef SP_MODULES_H
#define SP_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "export/objects/host_objects.h"
#include "sampler/region/record.h"
#include "sampler/region/region.h"

#define SP_MODULE_SEGMENTS 4U
#define SP_MODULES_MAX 4096U
#define SP_EPOCH_ALIVE UINT32_MAX

/* An executable PT_LOAD, in runtime addresses rounded out to pages, as /proc/PID/maps shows it. */
struct sp_segment {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file */
};

/* An object's file. A write to the file changes the time. */
struct sp_file_id {
	uint64_t device;
	uint64_t inode; /* 0 = unknown */
	uint64_t bytes;
	struct timespec changed;
};

static inline struct sp_file_id sp_file_id_of(const struct stat *st)
{
	return (struct sp_file_id){st->st_dev, st->st_ino, (uint64_t)st->st_size, st->st_ctim};
}

/* Whether both files are known and different. */
static inline bool sp_file_id_differs(const struct sp_file_id *a, const struct sp_file_id *b)
{
	return a->inode != 0 && b->inode != 0 &&
	       (a->inode != b->inode || a->device != b->device || a->bytes != b->bytes ||
		a->changed.tv_sec != b->changed.tv_sec || a->changed.tv_nsec != b->changed.tv_nsec);
}

struct sp_module {
	uint32_t serial; /* one number per object; the same when it is loaded there again */
	uint32_t born;   /* first epoch in which it was seen */
	uint32_t died;   /* first epoch without it; or SP_EPOCH_ALIVE */
	uint64_t bias;   /* runtime address minus ELF virtual address */
	uint64_t lo;     /* of its executable PT_LOADs: only addresses of code are looked up */
	uint64_t hi;
	uint64_t phdr; /* where its program headers are: with bias, its identity */
	uint8_t build_id[SP_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0 = none */
	uint8_t segments;
	uint64_t content; /* sp_module_content() of an object without a build id; 0 = unknown */
	struct sp_file_id file; /* the file that was seen mapped */
	bool main;              /* the program itself */
	bool vdso;              /* it has no file */
	struct sp_segment segment[SP_MODULE_SEGMENTS];
	/* the path to open while the host lives; "" = the mappings showed no file */
	const char *path;
	/* the object's content, if the path may lead to another file; or NULL */
	struct sp_held_object *held;
	const char *name;  /* the name to show (sp_object_name()) */
	const char *shown; /* the path to show; it usually leads to the same file as `path` */
};

/* Whether there is a file in which its names can be looked up. */
static inline bool sp_module_has_file(const struct sp_module *mod)
{
	return mod->path[0] == '/' || mod->held != NULL;
}

struct sp_modules;

/*
 * The arguments are those of sp_host_objects_new(). NULL when out of memory. Nothing is known before the first
 * refresh.
 */
struct sp_modules *sp_modules_new(const char *proc, int maps);
void sp_modules_free(struct sp_modules *m);

/*
 * A copy of the present state, for a thread that names addresses later. Only the functions that find something may be
 * called on the copy. NULL when out of memory.
 */
struct sp_modules *sp_modules_copy(const struct sp_modules *m);

/* The copy does not read names of generated code any more, because the process itself has written them. */
void sp_modules_forget_perf_map(struct sp_modules *copy);

/* Memory that a copy takes. */
size_t sp_modules_bytes(const struct sp_modules *copy);

/*
 * Reads what is mapped now; host_objects.h says what that costs. 0 or a negative errno: then until the next refresh
 * some modules stay unknown, or some that are gone stay known.
 */
int sp_modules_refresh(struct sp_modules *m);

/* The objects that the last refresh found; they live as long as the modules. */
struct sp_host_objects *sp_modules_host(const struct sp_modules *m);

/*
 * A module event: the handler found this object before the samples that follow. If another object is known at its
 * addresses, that object is gone, and a new epoch begins; if SP_MODULES_MAX are gone already, the oldest is
 * forgotten, and pointers to it become invalid, as in a refresh. During this upload interval and the next one the
 * object counts as mapped, until another one is announced at its addresses. The path in the event is never opened:
 * the object has only a name until the mappings show its file.
 */
void sp_modules_take_event(struct sp_modules *m, const struct sp_module_event *s);

/* The epoch of samples that are read from the ring now. */
uint32_t sp_modules_epoch(const struct sp_modules *m);

/*
 * Begins an upload interval, in which all objects with samples are announced again. Forgets modules
 * that were gone before `epoch`; pointers to them become invalid. Modules that were gone in the
 * epoch `wanted` or later stay for old stacks, as far as there is room. Returns an epoch: the
 * addresses of stacks from before it have no known meaning; 0 = there is no such stack.
 */
uint32_t sp_modules_forget(struct sp_modules *m, uint32_t epoch, uint32_t wanted);

/*
 * The object that contained pc during the epoch; otherwise the last one that ever did; otherwise NULL. If an object
 * of that epoch was forgotten for lack of room, only an object that contained pc during the epoch is returned,
 * because the last one may be another one.
 */
const struct sp_module *sp_modules_find(const struct sp_modules *m, uint64_t pc, uint32_t epoch);

/* The profiler's own objects are those that are mapped at these addresses; 0 = none. */
void sp_modules_set_own(struct sp_modules *m, const uint64_t bias[SP_REGION_OBJECTS]);
/* Whether it is one of the profiler's own objects. */
bool sp_modules_is_own(const struct sp_modules *m, const struct sp_module *mod);

/* The program itself, or NULL. */
const struct sp_module *sp_modules_main(const struct sp_modules *m);

#endif
