/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rings hold: records of several kinds, each a struct of its own, as the host has written it.
 * The ring keeps kind and length of each (ring.h). Self-contained: no pointers.
 */
#ifndef SP_RECORD_H
#define SP_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/base/arch_sig.h"

/* The kernel's name of a thread, 15 bytes of anything but NUL (linux/sched.h: TASK_COMM_LEN, the NUL included). */
#define SP_THREAD_NAME_BYTES 16U

enum sp_record_kind {
	SP_RECORD_PAD = 1,  /* no record: the rest of the ring's end, where the next did not fit */
	SP_RECORD_SAMPLE,   /* struct sp_sample, as long as its depth says */
	SP_RECORD_CPU_TIME, /* struct sp_cpu_time */
	SP_RECORD_MODULE_EVENT, /* struct sp_module_event */
	SP_RECORD_SPAN_VALUES,  /* struct sp_span_values, as long as its values are */
	SP_RECORD_FREED,        /* a word: the number of a block that is no more */
	SP_RECORD_SPAN_ENDED,   /* a word: the id of a span that blocks were allocated in */
	SP_RECORD_SNAPSHOT,     /* struct sp_snapshot, in a ring of its own */
	SP_RECORD_NAME,         /* struct sp_name_record, in a ring of its own */
};

/* One sample, of CPU time as the signal handler wrote it, or of allocations. */
#define SP_FRAMES_MAX 496U

/* struct sp_sample.flags */
#define SP_SAMPLE_ROOTED 1U    /* the walk reached the thread's outermost frame */
#define SP_SAMPLE_TRUNCATED 2U /* the depth limit cut root-most frames */
#define SP_SAMPLE_OFF_STACK 4U /* sp was outside the thread's stack (coroutine, alternate stack) */
/* Inside the handler only: the call frame information is of a form that the exporter may read. */
#define SP_SAMPLE_RETRY 8U
/* Inside the handler only: an object that frames are in could not be told of (object_sig.h). */
#define SP_SAMPLE_UNTOLD 16U

struct sp_sample {
	/* The 8 bytes of the label's span id as they lie in memory; 0 = no span was active. */
	uint64_t span_id;
	uint8_t trace_id[16]; /* W3C byte order; all zero = none */
	uint64_t root_id;     /* the local root, if values of its attributes are labels; else 0 */
	uint32_t name_id;     /* span name, see names.h; 0 = none */
	uint32_t tid;         /* kernel thread id */
	uint32_t weight;      /* sampling periods it stands for (1 + overruns) */
	uint16_t depth;       /* valid entries of pc[] */
	uint16_t flags;
	char thread_name
		[SP_THREAD_NAME_BYTES]; /* when sampled; all NUL = unknown, or not asked for */
	uint64_t allocated; /* bytes of the sampled allocation; 0 = it is a sample of CPU time */
	uint64_t block;     /* its number, by which its end is told; 0 = nobody will tell that */
	/*
	 * Leaf first. Each value lies inside the instruction that was executing: for callers it is
	 * the return address minus one, so that a symbol or line lookup needs no correction.
	 */
	uint64_t pc[SP_FRAMES_MAX];
};

#define SP_SAMPLE_HEAD_WORDS (offsetof(struct sp_sample, pc) / sizeof(uint64_t))

/* What is used of a sample of that depth. */
static inline uint64_t sp_sample_bytes(uint32_t depth)
{
	return offsetof(struct sp_sample, pc) + depth * sizeof(uint64_t);
}

_Static_assert(offsetof(struct sp_sample, pc) % 8 == 0, "records are whole words");
_Static_assert(sizeof(struct sp_sample) <= 4096, "a sample must fit one page");

/* CPU time that no sample stands for (thread_account.h). */
struct sp_cpu_time {
	uint64_t span_id; /* this, and all up to name_id, as in a sample */
	uint8_t trace_id[16];
	uint64_t root_id;
	uint32_t name_id;
	uint32_t tid;                           /* kernel thread id; 0 = of no single thread */
	char thread_name[SP_THREAD_NAME_BYTES]; /* all NUL = unknown, or not asked for */
	uint64_t start;                         /* the thread's start routine; 0 = unknown */
	uint64_t ns;
};

#define SP_MODULE_EVENT_LOADS 8U
#define SP_MODULE_EVENT_ID_MAX 32U
#define SP_MODULE_EVENT_PATH_MAX 512U

/* An object that the samples behind it may be in (object_sig.h). */
struct sp_module_event {
	uint64_t bias; /* runtime address minus ELF virtual address */
	uint64_t phdr; /* where its program headers are */
	uint64_t loads;
	uint64_t build_id_len;
	uint8_t build_id[SP_MODULE_EVENT_ID_MAX];
	struct {
		uint64_t vaddr;
		uint64_t memsz;
		uint64_t offset;
		uint64_t flags;
	} load[SP_MODULE_EVENT_LOADS];
	char path[SP_MODULE_EVENT_PATH_MAX]; /* as the loader has it */
};

/*
 * Values of the attributes in SPANPROF_SPAN_LABELS, by their order there, of a local root that has ended. Texts are
 * valid UTF-8; a number, or a boolean, is a word. The values lie one after the other, each padded to whole words.
 */
#define SP_SPAN_VALUES_MAX 4U
#define SP_SPAN_VALUE_BYTES 256U
#define SP_SPAN_KEY_BYTES 255U

enum sp_span_value_type {
	SP_SPAN_VALUE_NONE,
	SP_SPAN_VALUE_TEXT,
	SP_SPAN_VALUE_INT64,
	SP_SPAN_VALUE_UINT64,
	SP_SPAN_VALUE_DOUBLE,
	SP_SPAN_VALUE_BOOL,
	SP_SPAN_VALUE_TYPES
};

struct sp_span_values {
	uint64_t root_id;
	struct {
		uint16_t type;  /* enum sp_span_value_type */
		uint16_t bytes; /* without the padding; 0 for none */
	} value[SP_SPAN_VALUES_MAX];
	uint8_t bytes[SP_SPAN_VALUES_MAX * SP_SPAN_VALUE_BYTES];
};

#define SP_SPAN_VALUES_HEAD_BYTES offsetof(struct sp_span_values, bytes)
#define SP_SPAN_VALUE_PADDED(bytes) (((uint32_t)(bytes) + 7U) & ~7U)
_Static_assert(SP_SPAN_VALUES_HEAD_BYTES % 8 == 0 && SP_SPAN_VALUE_BYTES % 8 == 0,
	       "records are whole words");

/* A span name (names.h): its id and length, then the text, padded to whole words. */
#define SP_NAME_MAX 2048U
#define SP_NAME_WORDS(len) (((uint64_t)(len) + 7) & ~UINT64_C(7))

struct sp_name_head {
	uint32_t id;
	uint32_t len;
};

struct sp_name_record {
	struct sp_name_head head;
	char text[SP_NAME_MAX];
};

/*
 * The second chance of a sample whose stack the handler cannot walk: the registers and the nearest part of the
 * stack, for the exporter to walk.
 */
#define SP_SNAPSHOT_STACK_MAX                                                                      \
	16384U /* most stacks are shorter; of deeper ones the outermost frames are cut */

struct sp_snapshot {
	uint64_t sample[SP_SAMPLE_HEAD_WORDS]; /* all of it but the frames */
	uint64_t stack_at;                     /* the address that stack[0] had */
	uint64_t stack_bytes;                  /* valid bytes of stack[] */
	uint64_t reg[SP_ARCH_REGS];            /* by DWARF number */
	uint8_t stack[SP_SNAPSHOT_STACK_MAX];
};

/* One of those that share a ring. */
struct sp_record {
	uint32_t
		kind; /* enum sp_record_kind: a sample, CPU time, a module event, values of a span, a word */
	union {
		struct sp_sample sample;
		struct sp_cpu_time cpu_time;
		struct sp_module_event module_event;
		struct sp_span_values span_values;
		uint64_t word;
	};
};

_Static_assert(sizeof(struct sp_cpu_time) % 8 == 0 && sizeof(struct sp_module_event) % 8 == 0,
	       "records are whole words");
_Static_assert(sizeof(struct sp_record) - offsetof(struct sp_record, sample) ==
		       sizeof(struct sp_sample),
	       "no record is longer than a sample");

#endif
