/* SPDX-License-Identifier: Apache-2.0 */
/* Reads untrusted profiles, and tells whose code their frames are. */
#ifndef SP_REPORT_LOAD_H
#define SP_REPORT_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"

/* CPU time between samples is under this frame; no sample was taken for it. */
#define SP_REPORT_UNSAMPLED "[unsampled cpu]"

/* Whose code a frame is: what the colours of a flame graph say. */
enum sp_frame_kind {
	SP_FRAME_OWN, /* the program, and shared objects that are not installed */
	SP_FRAME_LIBRARY, /* installed shared objects, and what their headers brought into the program */
	SP_FRAME_KERNEL,    /* the kernel, and the page of code that it lends (vdso) */
	SP_FRAME_WAITING,   /* no code: what a thread waits for */
	SP_FRAME_UNSAMPLED, /* no code: CPU time between samples */
	SP_FRAME_MARKER,    /* no code: where something is missing */
	SP_FRAME_SPAN,      /* no code: the name of a span, at the root */
	SP_FRAME_KIND_N,
};

/* What is known of a frame besides its name; texts are never NULL. */
struct sp_frame_place {
	const char *object;   /* the file that is mapped there, "" = none */
	const char *source;   /* "" = unknown */
	bool is_leaf_of_wait; /* the leaf of a sample in a profile of waiting time */
};

enum sp_frame_kind sp_frame_kind_of(const char *name, const struct sp_frame_place *place);

/* The word for it in the data of a flame graph. */
extern const char *const sp_frame_kind_words[SP_FRAME_KIND_N];

/*
 * Where those who add up samples have put a frame. A busy profile has thousands of samples for each
 * of its frames, so a text is looked up when its frame is met first, and not for each sample. All 0
 * at first; one for all samples of a profile with that frame.
 */
struct sp_report_memo {
	uint32_t function; /* its row in the tally, plus 1 */
	uint32_t node;     /* its text in the tree */
};

/* One function of a stack. */
struct sp_report_frame {
	const char *name;
	const char *file;        /* "" = unknown */
	uint64_t line;           /* 0 = unknown */
	enum sp_frame_kind kind; /* only if it is wanted */
	struct sp_report_memo *memo;
};

/*
 * One sample with everything looked up. All texts are printable: what a profile says is made valid
 * UTF-8 without control characters when it is read. Pointers live during the call.
 */
struct sp_report_sample {
	uint64_t samples;
	uint64_t ns;         /* or bytes, of so many blocks */
	const char *span_id; /* "" = not labelled */
	const char *span_name;
	const char *trace_id;
	const char *thread_name;             /* "" = not labelled */
	const char *blocked_by_span_id;      /* the same; else the leaf tells who holds the lock */
	const char *by;                      /* of the label that is asked for; "" = it has none */
	const struct sp_report_frame *frame; /* leaf first */
	size_t frames;
};

/* What a profile says of itself. */
struct sp_report_about {
	const char *type;     /* the sample type that is read: "cpu" */
	bool in_bytes;        /* its values are bytes, and its samples blocks of memory */
	uint64_t time_ns;     /* since the epoch, when it began; 0 = unknown */
	uint64_t duration_ns; /* 0 = unknown */
};

struct sp_report_sink {
	void (*sample)(void *arg, const struct sp_report_sample *s);
	void *arg;
	/*
	 * The sample type whose values are wanted; profiles without it give no samples. NULL = CPU time,
	 * else the last one in nanoseconds, else the last one. What it counts is the type before it, if that is a
	 * count, else the first count.
	 */
	const char *type;
	const char *
		by; /* the name of a label that is wanted, or of the attribute that it is made of; NULL = none */
	bool kinds; /* of frames are wanted, which takes time */
	/* Before the first sample. False = none is wanted. NULL = they are. */
	bool (*begin)(void *arg, const struct sp_report_about *about);
};

/* A sum in what people read, with its unit: "MiB" or "s". */
double sp_report_amount(bool in_bytes, uint64_t n);
const char *sp_report_unit(bool in_bytes);

#define SP_REPORT_ERROR 256

/* A profile that the server accepts needs a tenth of it. */
#define SP_REPORT_MEMORY_MAX ((size_t)512 << 20)

/*
 * Reads a profile in pprof, or profiles in OTLP (otlp.h), with at most that much memory at a time, and calls the sink for each
 * sample. 0, or -1 with a reason in why. A damaged profile gives no samples at all.
 */
int sp_report_load(const struct sp_bytes *profile, size_t memory_max,
		   const struct sp_report_sink *sink, char why[SP_REPORT_ERROR]);

#define SP_REPORT_TEXT_MAX 4096U

/*
 * Writes the function's name, with lines and as far as known followed by " (file:line)", cut to that
 * size and NUL-terminated. Returns its length.
 */
size_t sp_report_frame_text(const struct sp_report_frame *f, bool lines,
			    char out[SP_REPORT_TEXT_MAX + 1]);

/* Any text as valid UTF-8 without control characters. Returns its length. */
size_t sp_report_clean(const char *s, char out[SP_REPORT_TEXT_MAX + 1]);

/* One line on stderr about a file, or "" for none. */
void sp_report_complain(const char *path, const char *why);

#endif
