/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what made the slowest requests slow: joins their slow roots with the samples that have
 * their span ids.
 */
#ifndef SP_REPORT_SLOWEST_H
#define SP_REPORT_SLOWEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "export/report/options.h"
#include "export/report/print.h"
#include "export/report/reading.h"
#include "export/report/roots.h"
#include "export/util/containers.h"

/* What a request spends time on. */
enum sp_part {
	SP_PART_CPU,
	SP_PART_RUNNABLE, /* waiting for a processor */
	SP_PART_LOCK,
	SP_PART_CONDITION,
	SP_PART_FUTEX, /* a lock or a condition variable: its stack does not say which */
	SP_PART_SLEEP,
	SP_PART_CHILD,
	SP_PART_EVENTS,
	SP_PART_SIGNAL,
	SP_PART_SOCKET,
	SP_PART_PIPE,
	SP_PART_FILE,
	SP_PART_TERMINAL,
	SP_PART_KERNEL, /* blocked without a system call */
	SP_PART_OTHER,
	SP_PART_SAMPLED,                   /* the number of parts that samples show */
	SP_PART_OFF_CPU = SP_PART_SAMPLED, /* exact time off the processor, without the reason */
	SP_PART_INACTIVE,                  /* exact: the request was active on no thread */
	SP_PARTS,
};

/* The word for each part in JSON. */
extern const char *const sp_part_words[SP_PARTS];

/*
 * A time of a request. low_ns: a lower bound despite chance: two standard errors less than ns, or
 * ns itself if that is exact. of_exact: ns is exact, or a part of an exact time.
 */
struct sp_slowest_time {
	bool is_known, of_exact;
	uint64_t samples;
	double ns, low_ns;
};

struct sp_slowest_cause {
	enum sp_part part;
	struct sp_slowest_time time;
	/* Ids of texts of the tree; 0 = not known. */
	uint32_t leaf;     /* "held by POST /refund in shop::reserve", or the system call */
	uint32_t function; /* the function of the program in which most of the time was spent */
};

/* A sample of a request, with its time: a sample of CPU time, or a look at a thread that waits. */
struct sp_moment {
	uint32_t request; /* index in slowest.request */
	uint32_t thread;  /* kernel thread id */
	uint32_t name;    /* the thread's name, a text of slowest.times; 0 = unknown */
	uint32_t node;    /* its leaf, a node of slowest.times */
	enum sp_part part;
	uint64_t at_ns; /* since the epoch */
	uint64_t ns;    /* the time that the sample stands for */
};

#define SP_SLOWEST_CAUSES 3U

struct sp_slowest_causes {
	struct sp_slowest_cause cause[SP_SLOWEST_CAUSES]; /* what took longest comes first */
	unsigned n;
};

/* All requests of one name and service. */
struct sp_slowest_group {
	uint32_t service, name; /* texts of roots */
	uint64_t slow;          /* number of roots in the files */
	/* number of all roots of the processes; SP_ROOT_VALUE_UNKNOWN, as the next three may be */
	uint64_t count;
	uint64_t p50_ns, p90_ns, p99_ns; /* percentiles of the process with the most roots */
	uint64_t most;                   /* number of roots of that process */
	double rate; /* requests a second, of all processes together; less than 0 = unknown */
	/* nodes of the tree with the samples of this name; 0 = none */
	uint32_t node[SP_PART_SAMPLED];
	uint32_t next; /* the next group of the same name, plus 1; 0 = none */
};

struct sp_slowest_request {
	uint32_t root;  /* index in roots */
	uint32_t group; /* index in slowest.group */
	uint64_t duration_ns;
	/* duration minus the median of its name, which counts as 0 if unknown */
	uint64_t slower_by_ns;
	uint32_t node[SP_PART_SAMPLED];
	struct sp_slowest_time cpu, off_cpu, runnable;
	uint64_t sampled_bytes; /* allocated bytes, by samples */
	/* allocated bytes, exact if known; may be SP_ROOT_VALUE_UNKNOWN */
	uint64_t allocated_bytes;
	struct sp_slowest_causes causes;
	bool is_added;                /* it is no slow root (sp_slowest_add) */
	bool is_unknown;              /* neither a sample nor an attribute says anything of it */
	size_t first_moment, moments; /* in slowest.moment, by thread and time */
	/*
	 * why no cause was found, or none that says what the request waited for; NULL = one was
	 * found
	 */
	const char *why_not;
};

struct sp_slowest;

/*
 * Chooses which requests are shown, in place of the number that the options have: it removes others
 * from x->request, where the slowest is first, and may add some (sp_slowest_add()). 0, or an exit
 * status with one line in x->r.why.
 */
struct sp_slowest_chooser {
	int (*choose)(void *arg, struct sp_slowest *x);
	void *arg;
};

struct sp_slowest {
	const struct sp_report_options *o;
	const struct sp_slowest_chooser *chooser; /* NULL = the slowest are shown */
	/* its tree has the samples of each request and of each name, by part */
	struct sp_reading r;
	struct sp_report_roots roots; /* slow roots, sorted, and then what was added */
	size_t slow;                  /* of the roots */
	struct sp_slowest_group *group;
	size_t groups, group_cap;
	bool several_services;
	/* the requests that are shown, ordered by slower_by_ns, the largest first */
	struct sp_slowest_request *request;
	size_t requests, request_cap;
	size_t all_requests; /* number of selected requests, also of those that are not shown */
	struct sp_hash_index by_id;
	struct sp_hash_index by_group; /* by service and name */
	/*
	 * The processes whose files of slow roots were read, by the names of the files, and of each
	 * process the file with the lowest number. is_whole: no process lacks its first files, so
	 * the samples of a name belong to the counted requests.
	 */
	struct sp_strtab process;
	struct sp_slowest_file {
		uint64_t number;
		uint64_t begin_ns; /* beginning of its interval */
	} * first;
	size_t first_cap;
	bool is_whole;
	bool is_counted;   /* the file that is being read belongs to one of these processes */
	uint32_t *of_name; /* for each text of roots: the first group of that name, plus 1 */
	/* stacks of samples with times, each below the number of its request */
	struct sp_tree times;
	struct sp_moment *moment;
	size_t moments, moment_cap;
	uint64_t from_ns, to_ns; /* beginning of the first request, end of the last one */
	uint64_t sum;            /* sum of all values that were read, to detect an overflow */
	uint64_t cpu_samples;
	bool wants_times;
	bool has_waits;   /* a profile of waits was read */
	bool is_of_waits; /* the profile that is being read is one of waits */
	/* the profile that is being read is of memory; it is read again for allocations */
	bool wants_memory;
};

/* The largest parts of its time, whether or not a usual request has them as well. */
void sp_slowest_where(const struct sp_slowest *x, const struct sp_slowest_request *q,
		      struct sp_slowest_causes *out);

/*
 * For a chooser: adds a request that is no slow root; its texts are in x->roots. 0, or an exit
 * status with one line in x->r.why.
 */
int sp_slowest_add(struct sp_slowest *x, const struct sp_report_root *root);

/* Writes the sentence about a request. is_short: functions are without their arguments. */
void sp_slowest_sentence(char out[SP_REPORT_TEXT_MAX + 1], const struct sp_slowest *x,
			 const struct sp_slowest_request *q, bool is_short);

/*
 * slowest_report.c: reads files, finds causes, and prints the report. Returns an exit status, after all messages. The
 * caller sets width and coloured of p.
 */
int sp_slowest(const struct sp_report_options *o, char *const *path, struct sp_print *p);

/*
 * Reads files and finds causes. Returns an exit status; after an error x->r.why has one line,
 * unless a message was printed for each file. Call sp_slowest_fini() in both cases. told: as for
 * sp_reading_init().
 */
int sp_slowest_read(struct sp_slowest *x, const struct sp_report_options *o, char *const *path,
		    struct sp_strtab *told, const struct sp_slowest_chooser *chooser);
void sp_slowest_fini(struct sp_slowest *x);

/*
 * The average time that the requests of a name spend on a part; SP_PART_OFF_CPU: on all waits
 * together. False: it is not known.
 */
bool sp_slowest_mean(const struct sp_slowest *x, const struct sp_slowest_group *g,
		     enum sp_part part, double *ns);

/* The time that a request spent on a part, from looks and exact times. */
struct sp_slowest_time sp_slowest_part(const struct sp_slowest *x,
				       const struct sp_slowest_request *q, enum sp_part part);

/* The text with that id of the tree. */
const char *sp_slowest_text(const struct sp_slowest *x, uint32_t id);
/* Whether a leaf says who held the lock: "held by POST /refund in shop::reserve". */
bool sp_slowest_has_holder(const char *leaf);

/* The leaf of most samples below a node, and the number of these samples; 0 = none. */
uint32_t sp_slowest_leaf(const struct sp_slowest *x, uint32_t node, uint64_t *samples);

/*
 * The same without the duration: "350 ms waiting for a lock in shop::reserve, 22 ms in
 * shop::parse", or "".
 */
void sp_slowest_put_where(char out[SP_REPORT_TEXT_MAX + 1], const struct sp_slowest *x,
			  const struct sp_slowest_request *q, bool is_short);

#define SP_SLOWEST_TIME 32
/* "412 ms", "1.62 s" */
const char *sp_slowest_put_time(char out[SP_SLOWEST_TIME], double ns);
/* The same of a sampled time as "~412 ms", and "-" of what is not known. */
const char *sp_slowest_put_part(char out[SP_SLOWEST_TIME], const struct sp_slowest_time *time);
/* "22:13:41.207" in UTC; days: with the date before it. */
const char *sp_slowest_put_when(char out[SP_SLOWEST_TIME], uint64_t ns, bool days);

/* In slowest_print.c and slowest_json.c: print tables with sentences, or JSON. 0 or -1. */
void sp_slowest_print(FILE *out, const struct sp_slowest *x, const struct sp_print *p);
int sp_slowest_print_json(FILE *out, const struct sp_slowest *x);

/*
 * In slowest_page.c: print an HTML page of a struct sp_slowest, with a time line of each request, or
 * only its data as JSON.
 * 0 or -1.
 */
int sp_slowest_print_page(FILE *out, const void *slowest);
int sp_slowest_print_data(FILE *out, const struct sp_slowest *x);

/* "shop: slow requests" */
#define SP_SLOWEST_TITLE (SP_REPORT_TEXT_MAX + 32)
void sp_slowest_title(char out[SP_SLOWEST_TITLE], const struct sp_slowest *x);

#endif
