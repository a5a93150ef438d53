/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the stories talk. Each step goes to the SDK and is printed, for the comparison with the run
 * without the profiler; each expectation is compared with a sample of the calling thread and goes to
 * the verdict. Without the profiler expectations say nothing.
 */
#ifndef TEST_CONFORMANCE_STORY_H
#define TEST_CONFORMANCE_STORY_H

#include <stdbool.h>

#include "test/conformance/driver.h"

#define STORY_SPANS_MAX 2048
#define STORY_PROFILE_ID "pyroscope.profile.id"

struct span {
	const char *name;
	struct span *root; /* whose root it is: itself or the parent's */
	void *handle;
	struct driver_ids ids;
	bool recorded; /* has ids and is to be labelled */
	const char
		*own_id; /* what the program itself has set as the profile's id; NULL = nothing */
	bool exported;   /* is to be found among the exported spans */
	bool is_shared; /* another root was open on its thread, and nobody knows for which one that worked */
	bool ended;
	const char *value;  /* of a root: the value of its samples; NULL = none */
	_Atomic int64_t ns; /* of a root: the CPU time of its pieces of work */
};

struct story {
	const char *name;
	unsigned
		needs; /* 1 << enum driver_need; or that it is told where its name is given, only */
#define STORY_ALONE (1U << NEEDS)
	enum driver_provider provider;
	void (*tell)(void);
};

extern const struct story stories[];
extern const unsigned story_count;

/* The SDK of the story that is being told. */
extern const struct driver *sdk;

/* Something was attached. */
extern bool story_used_scopes;

/*
 * Each returns a span that need not be given back. Parents and roots of the root's kind decide what
 * label is expected in the root's scope.
 */
struct span *story_start(const char *name, struct span *parent);
struct span *story_start_ambient(const char *name, struct span *root);
struct span *story_start_remote(const char *name);
struct span *story_start_with(const char *name, const char *key, const char *value);
struct span *story_start_ending(const char *name, struct span *other);
struct span *story_start_linked(const char *name, const struct span *other);
void story_set(struct span *s, const char *key, const char *value);
/*
 * Gives the span the attribute test.value by the way of that number, at its start or now. False and NULL: there
 * is no such way. The file "work" gets what the label of the root's samples has to be.
 */
#define STORY_VALUE_KEY "test.value"
struct span *story_start_with_value(const char *name, unsigned way);
bool story_set_value(struct span *s, unsigned way);
void story_rename(struct span *s, const char *name);
void story_end(struct span *s);
void story_destroy(struct span *s);
/* Both. */
void story_finish(struct span *s);
void *story_attach(const struct span *s);
void *story_attach_remote(void);
bool story_detach(void *scope);
/* The process shows by scopes from now on what a thread works for. */
void story_use_scopes(void);
void story_shut_down(void);

/* A sample now carries that span, NULL for none. */
#define story_shows(span) story_expect_label(span, __LINE__)
void story_expect_label(const struct span *s, int line);
/* A sample now carries the id of that span's root, and where ids are the spans' own, nothing. */
#define story_shows_root(span) story_expect_root(span, __LINE__)
void story_expect_root(const struct span *s, int line);
/* That many spans are open. */
#define story_open(count) story_expect_open(count, __LINE__)
void story_expect_open(unsigned count, int line);

/* The profiler has something to say about this story, once; about others it has not. */
void story_expect_message(const char *words);

/* Runs it on another thread, to its end. */
void story_elsewhere(void (*run)(void *), void *argument);
/* Runs it on another thread, and gives the word back and forth: story_turn() waits for the other. */
void story_begin_other(void (*run)(void *), void *argument);
void story_turn(void);
void story_end_other(void);
/* Runs it on that many threads at once. What they do is printed in no order, so nothing is printed. */
void story_at_once(unsigned count, void (*run)(void));
/* Runs it in a forked child, whose spans and expectations are judged there. */
void story_forked(void (*run)(void));

/*
 * Tells one story with that SDK in this process, with spans of a second one around it if there is
 * one, checks the exported spans in that file, and appends "ok name:", "na name: reason" or
 * "fail name: what" to the verdicts; without the profiler "silent name:". Returns the
 * exit status.
 *
 * With a piece of work, in milliseconds or in samples, no sample is looked at here. Instead the thread works at
 * each of the first expectations, or has so many samples at each, and a line goes to the file "work": the label
 * that these samples have to have ("SPAN-ID TRACE-ID", or "- -"), the CPU time in nanoseconds, and the label's
 * name; a line "value NANOSECONDS TEXT" for each root with a value that
 * worked; and a line "says" with what the profiler has to say.
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

/* Tells it first with the one SDK, then with the other, and so on; the other is closed and opened in between. */
struct story_plugin {
	const struct driver *(*open)(void);
	void (*close)(void);
};
int story_run_in_turns(const struct story *story, const struct driver *first,
		       const struct story_plugin *other, const struct story_files *files);

#endif
