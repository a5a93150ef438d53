/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records in the rings. Each kind is a struct, as the host has written it; the ring stores kind
 * and length of each record (ring.h). Records contain no pointers.
 */
#ifndef SP_RECORD_H
#define SP_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/base/arch_sig.h"

/*
 * The kernel's name of a thread: up to 15 bytes, any but NUL (linux/sched.h: TASK_COMM_LEN, with
 * the NUL).
 */
#define SP_THREAD_NAME_BYTES 16U

enum sp_record_kind {
	/* no record: fills the ring's end if the next record did not fit there */
	SP_RECORD_PAD = 1,
	SP_RECORD_SAMPLE,       /* struct sp_sample, cut after its last frame */
	SP_RECORD_CPU_TIME,     /* struct sp_cpu_time */
	SP_RECORD_MODULE_EVENT, /* struct sp_module_event */
	SP_RECORD_SPAN_VALUES,  /* struct sp_span_values, cut after its last value */
	SP_RECORD_FREED,        /* a word: the number of a sampled block that was freed */
	SP_RECORD_SPAN_ENDED,   /* a word: the id of an ended span in which blocks were allocated */
	SP_RECORD_SLOW_ROOT,    /* struct sp_slow_root */
	SP_RECORD_SNAPSHOT,     /* struct sp_snapshot, in a ring of its own */
	SP_RECORD_NAME,         /* struct sp_name_record, in a ring of its own */
	SP_RECORD_ROOT_END,     /* struct sp_root_end */
};

/* One sample: of CPU time, written by the signal handler, or of allocations. */
#define SP_FRAMES_MAX 496U

/* struct sp_sample.flags */
#define SP_SAMPLE_ROOTED 1U    /* the walk reached the thread's outermost frame */
#define SP_SAMPLE_TRUNCATED 2U /* the depth limit cut root-most frames */
#define SP_SAMPLE_OFF_STACK 4U /* sp was outside the thread's stack (coroutine, alternate stack) */
/* In the handler only: the exporter may be able to read the call frame information. */
#define SP_SAMPLE_RETRY 8U
/*
 * In the handler only: the ring had no room for the module event of an object with frames of this
 * sample (object_sig.h).
 */
#define SP_SAMPLE_UNTOLD 16U

struct sp_sample {
	/*
	 * The 8 bytes of the label's span id, in the order in which they are in memory; 0 = no span
	 * was active.
	 */
	uint64_t span_id;
	uint8_t trace_id[16]; /* W3C byte order; all zero = none */
	/* the local root, if values of its attributes are labels; otherwise 0 */
	uint64_t root_id;
	uint32_t name_id; /* span name, see names.h; 0 = none */
	uint32_t tid;     /* kernel thread id */
	uint32_t weight;  /* sampling periods that it stands for (1 + overruns) */
	uint16_t depth;   /* valid entries of pc[] */
	uint16_t flags;
	char thread_name
		/* at the time of the sample; all NUL = unknown, or not wanted */
		[SP_THREAD_NAME_BYTES];
	uint64_t allocated; /* bytes of the sampled allocation; 0 = this is a sample of CPU time */
	/* number of the block, for the record of its free; 0 = there will be no such record */
	uint64_t block;
	uint64_t time_ns; /* CLOCK_MONOTONIC, of CPU time with SPANPROF_SLOW; otherwise 0 */
	/*
	 * Leaf first. Each value is inside the instruction that was executing: for callers the
	 * return address minus one, so that a lookup of a symbol or line needs no correction.
	 */
	uint64_t pc[SP_FRAMES_MAX];
};

#define SP_SAMPLE_HEAD_WORDS (offsetof(struct sp_sample, pc) / sizeof(uint64_t))

/* The used bytes of a sample of that depth. */
static inline uint64_t sp_sample_bytes(uint32_t depth)
{
	return offsetof(struct sp_sample, pc) + depth * sizeof(uint64_t);
}

_Static_assert(offsetof(struct sp_sample, pc) % 8 == 0, "records are whole words");
_Static_assert(sizeof(struct sp_sample) <= 4096, "a sample must fit one page");

/* CPU time that no sample covers (thread_account.h). */
struct sp_cpu_time {
	uint64_t span_id; /* this and the fields up to name_id are as in a sample */
	uint8_t trace_id[16];
	uint64_t root_id;
	uint32_t name_id;
	uint32_t tid;                           /* kernel thread id; 0 = not of one thread */
	char thread_name[SP_THREAD_NAME_BYTES]; /* all NUL = unknown, or not wanted */
	uint64_t start;                         /* the thread's start routine; 0 = unknown */
	uint64_t ns;
};

#define SP_MODULE_EVENT_LOADS 8U
#define SP_MODULE_EVENT_ID_MAX 32U
#define SP_MODULE_EVENT_PATH_MAX 512U

#define SP_MODULE_CONTENT_BYTES 4096U

/*
 * A hash of the first page of an object's file, which distinguishes objects without a build id. The
 * page has the sizes of all segments, and in small objects the names of exported functions. The
 * loader does not write to the page unless its segment is writable. Never 0.
 */
static inline uint64_t sp_module_content(const uint64_t page[SP_MODULE_CONTENT_BYTES / 8])
{
	uint64_t hash = 0;

	for (unsigned i = 0; i < SP_MODULE_CONTENT_BYTES / 8; i++)
		hash = ((hash ^ page[i]) * UINT64_C(0x9e3779b97f4a7c15)) ^ hash >> 29;
	return hash | 1;
}

/* An object that frames of later samples may be in (object_sig.h). */
struct sp_module_event {
	uint64_t bias;    /* runtime address minus ELF virtual address */
	uint64_t phdr;    /* the address of its program headers */
	uint64_t content; /* sp_module_content(), if it has no build id; 0 = unknown */
	uint64_t loads;
	uint64_t build_id_len;
	uint8_t build_id[SP_MODULE_EVENT_ID_MAX];
	struct {
		uint64_t vaddr;
		uint64_t memsz;
		uint64_t offset;
		uint64_t flags;
	} load[SP_MODULE_EVENT_LOADS];
	char path[SP_MODULE_EVENT_PATH_MAX]; /* as the loader knows it */
};

/*
 * A local root that has ended: the values of its attributes that SPANPROF_SPAN_LABELS names, in
 * that order. Texts are valid UTF-8; a number or a boolean is one word. The values follow each
 * other, each padded to whole words.
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

/* A local root that has ended and was slow for its name (root_durations.h). */
#define SP_SLOW_ROOT_CPU 1U     /* cpu_ns is known */
#define SP_SLOW_ROOT_OFF_CPU 2U /* off_cpu_ns and major_faults are known */
#define SP_SLOW_ROOT_RUNNABLE 4U
#define SP_SLOW_ROOT_ALLOCATED 8U
#define SP_SLOW_ROOT_ERROR 16U /* the program has set the span's status to error */

struct sp_slow_root {
	uint64_t span_id; /* span id, trace id and name are as in a sample */
	uint8_t trace_id[16];
	uint64_t end_ns; /* CLOCK_REALTIME */
	uint32_t name_id;
	uint32_t tid;   /* kernel thread id of the thread that ended it; 0 = unknown */
	uint32_t place; /* the place of the name's histogram */
	/* bits: which of the following fields are known, besides duration_ns */
	uint32_t has;
	uint64_t duration_ns;      /* CLOCK_MONOTONIC */
	uint64_t end_monotonic_ns; /* when it ended, by the clock of samples */
	uint64_t cpu_ns;           /* this and the next fields are as in struct sp_span_times */
	uint64_t off_cpu_ns;
	uint64_t runnable_ns;
	uint64_t major_faults;
	uint64_t allocated;
};

/*
 * A local root that has ended and has a sample or a wait. By its duration the exporter finds the label `latency`, and
 * whether the root's samples keep their span id.
 */
struct sp_root_end {
	uint64_t root_id;
	uint64_t duration_ns; /* CLOCK_MONOTONIC */
	uint32_t place;       /* of its name's histogram */
	uint32_t name_id;
};

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
 * A sample whose stack the handler could not walk: the registers and the innermost part of the
 * stack, which the exporter walks.
 */
#define SP_SNAPSHOT_STACK_MAX                                                                      \
	16384U /* most stacks are shorter; deeper ones lose their outermost frames */

struct sp_snapshot {
	uint64_t sample[SP_SAMPLE_HEAD_WORDS]; /* the sample without its frames */
	uint64_t stack_at;                     /* the address of stack[0] in the host */
	uint64_t stack_bytes;                  /* valid bytes of stack[] */
	uint64_t reg[SP_ARCH_REGS];            /* by DWARF number */
	uint8_t stack[SP_SNAPSHOT_STACK_MAX];
};

/* A record of a ring that has several kinds. */
struct sp_record {
	uint32_t kind; /* enum sp_record_kind: one of the structs below, or a word */
	union {
		struct sp_sample sample;
		struct sp_cpu_time cpu_time;
		struct sp_module_event module_event;
		struct sp_span_values span_values;
		struct sp_slow_root slow_root;
		struct sp_root_end root_end;
		uint64_t word;
	};
};

_Static_assert(sizeof(struct sp_cpu_time) % 8 == 0 && sizeof(struct sp_module_event) % 8 == 0 &&
		       sizeof(struct sp_slow_root) % 8 == 0 && sizeof(struct sp_root_end) % 8 == 0,
	       "records are whole words");
_Static_assert(sizeof(struct sp_record) - offsetof(struct sp_record, sample) ==
		       sizeof(struct sp_sample),
	       "no record is longer than a sample");

#endif
