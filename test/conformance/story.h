/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps and expectations of stories. Each step goes to the SDK and is printed, for the comparison with the run
 * without the profiler; each expectation is compared with a sample of the calling thread and goes to the verdict.
 * Without the profiler expectations do nothing.
 */
#ifndef TEST_CONFORMANCE_STORY_H
#define TEST_CONFORMANCE_STORY_H

#include <stdbool.h>

#include "test/conformance/driver.h"

#define STORY_SPANS_MAX 2048
#define STORY_PROFILE_ID "pyroscope.profile.id"

struct span {
	const char *name;
	struct span *root; /* its root: itself or the parent's root */
	void *handle;
	struct driver_ids ids;
	bool recorded;      /* has ids and gets labels */
	const char *own_id; /* the profile id that the program itself has set; NULL = none */
	bool exported;      /* must be among the exported spans */
	/* another root was open on its thread, and it is unknown for which one the thread worked */
	bool is_shared;
	bool ended;
	bool failed;
	const char *value;  /* for a root: the value on its samples; NULL = none */
	_Atomic int64_t ns; /* for a root: the CPU time of its pieces of work */
};

struct story {
	const char *name;
	unsigned needs; /* 1 << enum driver_need; or a flag: the story runs only if it is named */
#define STORY_ALONE (1U << NEEDS)
	enum driver_provider provider;
	void (*tell)(void);
};

extern const struct story stories[];
extern const unsigned story_count;

/* The SDK of the present story. */
extern const struct driver *sdk;

/* A context was attached. */
extern bool story_used_scopes;

/* Each returns a span that need not be released. Parents and roots decide which label is expected with root scope. */
struct span *story_start(const char *name, struct span *parent);
struct span *story_start_ambient(const char *name, struct span *root);
struct span *story_start_remote(const char *name);
struct span *story_start_with(const char *name, const char *key, const char *value);
struct span *story_start_ending(const char *name, struct span *other);
struct span *story_start_linked(const char *name, const struct span *other, bool is_remote);
void story_set(struct span *s, const char *key, const char *value);
/*
 * Gives the span the attribute test.value by the way with that number, at its start or now. False and NULL: there is
 * no such way. The file "work" gets the expected label of the root's samples.
 */
#define STORY_VALUE_KEY "test.value"
struct span *story_start_with_value(const char *name, unsigned way);
bool story_set_value(struct span *s, unsigned way);
/*
 * The status of the span becomes error, or OK. The file "work" gets the ids of the roots that failed in the end, which
 * are listed as such if they are slow.
 */
void story_set_status(struct span *s, bool is_error);
void story_rename(struct span *s, const char *name);
void story_end(struct span *s);
void story_destroy(struct span *s);
/* Ends and releases the span. */
void story_finish(struct span *s);
void *story_attach(const struct span *s);
void *story_attach_remote(void);
bool story_detach(void *scope);
/* From now on the process's scopes say for which span a thread works. */
void story_use_scopes(void);
void story_shut_down(void);

/* A sample must now have that span, NULL for none. */
#define story_shows(span) story_expect_label(span, __LINE__)
void story_expect_label(const struct span *s, int line);
/* A sample must now have the id of that span's root, and if ids are the spans' own, no label. */
#define story_shows_root(span) story_expect_root(span, __LINE__)
void story_expect_root(const struct span *s, int line);
/* That many spans are open. */
#define story_open(count) story_expect_open(count, __LINE__)
void story_expect_open(unsigned count, int line);

/* The profiler must report something about this story, once; about other stories nothing. */
void story_expect_message(const char *words);

/* Runs it on another thread, to its end. */
void story_elsewhere(void (*run)(void *), void *argument);
/* Runs it on another thread; the two threads take turns: story_turn() waits for the other. */
void story_begin_other(void (*run)(void *), void *argument);
void story_turn(void);
void story_end_other(void);
/* Runs it on that many threads at once. The order of their steps is random, so nothing is printed. */
void story_at_once(unsigned count, void (*run)(void));
/* Runs it in a forked child, which checks its own spans and expectations. */
void story_forked(void (*run)(void));

/*
 * Runs one story with that SDK in this process, with spans of a second one around it if there is one. Checks the
 * exported spans in that file, and appends "ok name:", "na name: reason" or "fail name: what" to the verdicts;
 * without the profiler "silent name:". Returns the exit status.
 *
 * If piece_ms or piece_samples is not 0, the story checks no sample. Instead the thread works, or takes samples, at
 * each of the first expectations. The file "work" gets a line for each of them: the expected label of these samples
 * ("SPAN-ID TRACE-ID", or "- -"), the CPU time in nanoseconds, and the label's name; a line "value NANOSECONDS TEXT"
 * for each root that has a value and worked; and a line "says" with the expected message of the profiler.
 */
#define STORY_TOLD 7
struct story_files {
	const char *spans;
	const char *verdicts;
	const char *work;
	int piece_ms;
	unsigned piece_samples;
};
int story_run(const struct story *story, const struct driver *driver, const struct driver *second,
	      const struct story_files *files);

/* Runs it alternately with both SDKs; the other one is closed and opened in between. */
struct story_plugin {
	const struct driver *(*open)(void);
	void (*close)(void);
};
int story_run_in_turns(const struct story *story, const struct driver *first,
		       const struct story_plugin *other, const struct story_files *files);

#endif
