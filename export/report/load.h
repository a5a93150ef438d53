/* SPDX-License-Identifier: Apache-2.0 */
/* Reads untrusted profiles, and classifies frames by whose code they are. */
#ifndef SP_REPORT_LOAD_H
#define SP_REPORT_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"

/* Classes of --latency with a meaning even if no sample has the label `latency`. */
#define SP_REPORT_SLOW "slow"
#define SP_REPORT_REST "rest"

/* The frame with CPU time for which no sample was taken. */
#define SP_REPORT_UNSAMPLED "[unsampled cpu]"

/* Whose code a frame is. A flame graph has a colour for each kind. */
enum sp_frame_kind {
	SP_FRAME_OWN,       /* the program, and shared objects in no folder for installed ones */
	SP_FRAME_LIBRARY,   /* installed shared objects, and code of their headers in the program */
	SP_FRAME_KERNEL,    /* the kernel, and its code in the process (vdso) */
	SP_FRAME_WAITING,   /* no code: what a thread waits for */
	SP_FRAME_UNSAMPLED, /* no code: CPU time between samples */
	SP_FRAME_MARKER,    /* no code: a part of the stack is missing */
	SP_FRAME_SPAN,      /* no code: the name of a span, at the root */
	SP_FRAME_KIND_N,
};

/* What besides its name decides the kind of a frame. Texts are never NULL. */
struct sp_frame_place {
	const char *object;   /* the mapped file; "" = none */
	const char *source;   /* "" = unknown */
	bool is_leaf_of_wait; /* it is the leaf of a sample in a profile of waiting time */
};

enum sp_frame_kind sp_frame_kind_of(const char *name, const struct sp_frame_place *place);

/* The word for each kind in the data of a flame graph. */
extern const char *const sp_frame_kind_words[SP_FRAME_KIND_N];

/*
 * Remembers the rows to which a frame adds. A busy profile has thousands of samples for each of its
 * frames, so a text is looked up once per frame, and not for each sample. All samples of a profile
 * with the frame share one memo. Initially zero.
 */
struct sp_report_memo {
	uint32_t function; /* row of the tally, plus 1; 0 = not known */
	uint32_t node;     /* id of the name in the tree's texts; 0 = not known */
	uint8_t matches;   /* which expressions its name matches (filter.c); 0 = not known */
};

/* One function of a stack. */
struct sp_report_frame {
	const char *name;
	const char *file;        /* "" = unknown */
	uint64_t line;           /* 0 = unknown */
	enum sp_frame_kind kind; /* valid if sp_report_sink.kinds is set */
	struct sp_report_memo *memo;
};

/*
 * One sample with all its texts. They are valid UTF-8 without control characters. Pointers are
 * valid during the call.
 */
struct sp_report_sample {
	uint64_t samples;
	uint64_t ns;         /* or bytes; `samples` is the number of blocks then */
	const char *span_id; /* "" = not labelled */
	const char *span_name;
	const char *trace_id;
	const char *thread_name; /* "" = not labelled */
	/* "" = not labelled; the leaf may name the holder of the lock instead */
	const char *blocked_by_span_id;
	const char *latency;                 /* class of its root; "" = not labelled */
	const char *by;                      /* value of the label sp_report_sink.by; "" = none */
	const struct sp_report_frame *frame; /* leaf first */
	size_t frames;
	uint64_t end_ns; /* when it was taken, since the epoch; 0 = unknown */
	uint64_t thread_id;
};

/* Facts about a profile. */
struct sp_report_about {
	const char *type;     /* the sample type that is read: "cpu" */
	bool in_bytes;        /* values are bytes, and samples are blocks of memory */
	uint64_t time_ns;     /* beginning, since the epoch; 0 = unknown */
	uint64_t duration_ns; /* 0 = unknown */
};

struct sp_report_sink {
	void (*sample)(void *arg, const struct sp_report_sample *s);
	void *arg;
	/*
	 * The sample type whose values are wanted; profiles without it give no samples. NULL = CPU
	 * time, otherwise the last type in a unit of time, otherwise the last type. Values in other
	 * units become nanoseconds or bytes. Numbers of samples come from the type before it, if
	 * that is a count, otherwise from the first count.
	 */
	const char *type;
	/* the wanted label, by its name or that of its attribute; NULL = none */
	const char *by;
	bool kinds; /* the kinds of frames are wanted, which takes time */
	/*
	 * Called before the first sample. False = the samples of this profile are not wanted. NULL
	 * = all are.
	 */
	bool (*begin)(void *arg, const struct sp_report_about *about);
};

/* A sum in the unit that is shown to users, "MiB" or "s"; and that unit. */
double sp_report_amount(bool in_bytes, uint64_t n);
const char *sp_report_unit(bool in_bytes);

#define SP_REPORT_ERROR 256

/* The only reason that is not a fault of the file. */
#define SP_REPORT_NO_MEMORY "out of memory"

/* Ten times what a profile needs that a server accepts. */
#define SP_REPORT_MEMORY_MAX ((size_t)512 << 20)

/*
 * Reads a profile in pprof, or profiles in OTLP (otlp.h), and calls the sink for each sample. Uses
 * at most memory_max bytes at a time. 0, or -1 with a reason in why. A damaged profile gives no
 * samples at all.
 */
int sp_report_load(const struct sp_bytes *profile, size_t memory_max,
		   const struct sp_report_sink *sink, char why[SP_REPORT_ERROR]);

#define SP_REPORT_TEXT_MAX 4096U

/*
 * Writes the function's name; if lines is set and the line is known, followed by " (file:line)".
 * Cuts it to the buffer's size, and ends it with a NUL. Returns its length.
 */
size_t sp_report_frame_text(const struct sp_report_frame *f, bool lines,
			    char out[SP_REPORT_TEXT_MAX + 1]);

/* Copies a text as valid UTF-8 without control characters. Returns its length. */
size_t sp_report_clean(const char *s, char out[SP_REPORT_TEXT_MAX + 1]);

/* Prints one line to stderr about a file; path "" = about no file. */
void sp_report_complain(const char *path, const char *why);

#endif
