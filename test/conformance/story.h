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

#define STORY_SPANS_MAX 512

struct span {
	const char *name;
	struct span *root; /* whose root it is: itself or the parent's */
	void *handle;
	struct driver_ids ids;
	bool recorded; /* has ids and is to be labelled */
	bool exported; /* is to be found among the exported spans */
};

struct story {
	const char *name;
	unsigned needs; /* 1 << enum driver_need */
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
void story_rename(struct span *s, const char *name);
void story_end(struct span *s);
void story_destroy(struct span *s);
/* Both. */
void story_finish(struct span *s);
void *story_attach(const struct span *s);
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

/* Runs it on another thread, to its end. */
void story_elsewhere(void (*run)(void *), void *argument);
/* Runs it on another thread, and gives the word back and forth: story_turn() waits for the other. */
void story_begin_other(void (*run)(void *), void *argument);
void story_turn(void);
void story_end_other(void);

/*
 * Tells one story with that SDK in this process, with spans of a second one around it if there is
 * one, checks the exported spans in that file, and appends "ok name:", "na name: reason" or
 * "fail name: what" to the verdicts; without the profiler "silent name:". Returns the
 * exit status.
 */
#define STORY_TOLD 7
struct story_files {
	const char *spans;
	const char *verdicts;
};
int story_run(const struct story *story, const struct driver *driver, const struct driver *second,
	      const struct story_files *files);

#endif
