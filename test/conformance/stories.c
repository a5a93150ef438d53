/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stories, the same for every SDK: what programs do with spans, and what a sample has to carry
 * at each moment (README.md).
 */
#include "test/conformance/story.h"
#include "test/hosts/host.h"

/* SP_SPAN_DEPTH_MAX of sampler/open_spans/span_stack.h: of what is deeper only the root is known. */
#define DEPTH_MAX 128
#define DEEP 150
#define MANY 200

static void single(void)
{
	struct span *a;

	story_shows(NULL);
	a = story_start("a", NULL);
	story_shows(a);
	story_open(1);
	story_end(a);
	story_shows(NULL);
	story_destroy(a);
	story_shows(NULL);
	story_open(0);
}

static void nested(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b = story_start("b", a);
	struct span *c = story_start("c", b);

	story_shows(c);
	story_open(3);
	story_finish(c);
	story_shows(b);
	story_finish(b);
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
	story_open(0);
}

static void siblings(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b = story_start("b", a);
	struct span *c;

	story_shows(b);
	story_finish(b);
	story_shows(a);
	c = story_start("c", a);
	story_shows(c);
	story_finish(c);
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
}

static void one_after_another(void)
{
	for (int i = 0; i < MANY; i++) {
		struct span *a = story_start("a", NULL);

		story_shows(a);
		story_finish(a);
		story_shows(NULL);
	}
	story_open(0);
}

/* The parent is whatever the SDK has for the current span. */
static void ambient(void)
{
	bool scopes = sdk->lacks[NEED_SCOPE] == NULL;
	void *scope_a = NULL;
	void *scope_b = NULL;
	struct span *a;
	struct span *b;

	if (scopes)
		story_use_scopes();
	a = story_start("a", NULL);
	if (scopes)
		scope_a = story_attach(a);
	b = story_start_ambient("b", a);
	if (scopes)
		scope_b = story_attach(b);
	story_shows(b);
	if (scopes)
		story_detach(scope_b);
	story_finish(b);
	story_shows(a);
	if (scopes)
		story_detach(scope_a);
	story_finish(a);
	story_shows(NULL);
}

static void child_of(void *a)
{
	struct span *b;

	story_shows(NULL);
	b = story_start("b", a);
	story_shows(b);
	story_finish(b);
	story_shows(NULL);
}

static void child_elsewhere(void)
{
	struct span *a = story_start("a", NULL);

	story_elsewhere(child_of, a);
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
}

static void remote_parent(void)
{
	struct span *a = story_start_remote("a");
	struct span *b;

	story_shows(a);
	b = story_start("b", a);
	story_shows(b);
	story_finish(b);
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
}

static void scopes(void)
{
	struct span *a;
	struct span *b;
	void *scope_a;
	void *scope_b;

	story_use_scopes();
	a = story_start("a", NULL);
	b = story_start("b", a);
	story_shows(NULL);
	scope_a = story_attach(a);
	story_shows(a);
	scope_b = story_attach(b);
	story_shows(b);
	story_detach(scope_b);
	story_shows(a);
	/* a context without a span hides what is around it */
	scope_b = story_attach(NULL);
	story_shows(NULL);
	story_detach(scope_b);
	story_shows(a);
	story_detach(scope_a);
	story_shows(NULL);
	story_finish(b);
	story_finish(a);
	story_open(0);
}

static void attach_here(void *a)
{
	void *scope = story_attach(a);

	story_shows(a);
	story_turn();
	/* ended meanwhile by the other thread */
	story_shows(NULL);
	story_detach(scope);
	story_shows(NULL);
}

static void scope_elsewhere(void)
{
	struct span *a;

	story_use_scopes();
	a = story_start("a", NULL);
	story_begin_other(attach_here, a);
	story_shows(NULL);
	story_end(a);
	story_end_other();
	story_destroy(a);
	story_open(0);
}

static void scope_order(void)
{
	struct span *a;
	struct span *b;
	void *scope_a;
	void *scope_b;

	story_use_scopes();
	a = story_start("a", NULL);
	b = story_start("b", a);
	scope_a = story_attach(a);
	scope_b = story_attach(b);
	HOST_CHECK(story_detach(scope_a) == sdk->detach_goes_through);
	story_shows(sdk->detach_goes_through ? NULL : b);
	if (!sdk->detach_goes_through) {
		story_detach(scope_b);
		story_shows(a);
		story_detach(scope_a);
	}
	story_shows(NULL);
	story_finish(b);
	story_finish(a);
}

static void end_order(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b = story_start("b", a);

	story_finish(a);
	story_shows(sdk->end_goes_through ? NULL : b);
	story_finish(b);
	story_shows(NULL);
	story_open(0);
}

static void finish_here(void *a)
{
	story_finish(a);
	story_shows(NULL);
}

static void end_elsewhere(void)
{
	struct span *a = story_start("a", NULL);

	story_shows(a);
	story_elsewhere(finish_here, a);
	story_shows(NULL);
	story_open(0);
}

static void end_twice(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b;

	story_end(a);
	story_shows(NULL);
	b = story_start("b", NULL);
	story_end(a);
	story_shows(b);
	story_destroy(a);
	story_shows(b);
	story_end(b);
	story_end(b);
	story_shows(NULL);
	story_destroy(b);
	story_open(0);
}

static void destroy_only(void)
{
	struct span *a = story_start("a", NULL);

	story_shows(a);
	story_destroy(a);
	story_shows(NULL);
	story_open(0);
}

static void leave_open(void *unused)
{
	struct span *a = story_start("a", NULL);

	(void)unused;
	a->exported = false;
	story_shows(a);
}

/* Nobody ends it: it goes with its thread as far as samples are concerned. */
static void never_ended(void)
{
	struct span *b;

	story_elsewhere(leave_open, NULL);
	story_shows(NULL);
	b = story_start("b", NULL);
	story_shows(b);
	story_finish(b);
	story_shows(NULL);
}

static void renamed(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b;

	story_shows(a);
	story_rename(a, "GET /a");
	story_shows(a);
	b = story_start("b", a);
	story_shows(b);
	story_rename(b, "SELECT b");
	story_shows(b);
	story_rename(a, "POST /a");
	story_shows(b);
	story_finish(b);
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
}

static void silent(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b = story_start("b", a);

	a->exported = false;
	b->exported = false;
	story_shows(NULL);
	story_open(0);
	story_finish(b);
	story_finish(a);
	story_shows(NULL);
}

static void after_shutdown(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b;

	story_shows(a);
	story_finish(a);
	story_shut_down();
	b = story_start("b", NULL);
	b->exported = sdk->records_after_shutdown;
	story_shows(sdk->records_after_shutdown ? b : NULL);
	story_finish(b);
	story_shows(NULL);
	story_open(0);
}

/* An event loop: two requests at a time on one thread. As long as both are open, no label is the answer. */
static void interleaved(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b = story_start("b", NULL);
	struct span *c;

	story_shows(NULL);
	story_finish(a);
	story_shows(b);
	c = story_start("c", NULL);
	story_shows(NULL);
	story_finish(c);
	story_shows(b);
	story_finish(b);
	story_shows(NULL);
	story_open(0);
}

/* Before the first attach of a process a start has a place, too. */
static void shows_level(const struct span *s, int level)
{
	if (level < DEPTH_MAX - (sdk->lacks[NEED_NO_SCOPE] != NULL))
		story_shows(s);
	else
		story_shows_root(s);
}

static void deep(void)
{
	struct span *s[DEEP];

	for (int i = 0; i < DEEP; i++) {
		s[i] = story_start("deep", i > 0 ? s[i - 1] : NULL);
		shows_level(s[i], i);
	}
	for (int i = DEEP; i-- > 0;) {
		shows_level(s[i], i);
		story_finish(s[i]);
	}
	story_shows(NULL);
	story_open(0);
}

static void wrapped(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b = story_start("b", a);

	story_open(2);
	story_finish(b);
	story_open(1);
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
	story_open(0);
}

#define NEED(what) (1U << NEED_##what)

const struct story stories[] = {
	{"single", 0, PROVIDER_SAMPLED, single},
	{"nested", NEED(PARENT), PROVIDER_SAMPLED, nested},
	{"siblings", NEED(PARENT), PROVIDER_SAMPLED, siblings},
	{"one after another", 0, PROVIDER_SAMPLED, one_after_another},
	{"ambient parent", NEED(AMBIENT), PROVIDER_SAMPLED, ambient},
	{"child on another thread", NEED(PARENT), PROVIDER_SAMPLED, child_elsewhere},
	{"remote parent", NEED(REMOTE), PROVIDER_SAMPLED, remote_parent},
	{"attach and detach", NEED(SCOPE), PROVIDER_SAMPLED, scopes},
	{"attached on another thread", NEED(SCOPE), PROVIDER_SAMPLED, scope_elsewhere},
	{"detached out of order", NEED(SCOPE), PROVIDER_SAMPLED, scope_order},
	{"ended out of order", NEED(PARENT), PROVIDER_SAMPLED, end_order},
	{"ended on another thread", 0, PROVIDER_SAMPLED, end_elsewhere},
	{"ended twice", NEED(END_TWICE), PROVIDER_SAMPLED, end_twice},
	{"destroyed, not ended", NEED(DESTROY), PROVIDER_SAMPLED, destroy_only},
	{"never ended", 0, PROVIDER_SAMPLED, never_ended},
	{"renamed", NEED(RENAME), PROVIDER_SAMPLED, renamed},
	{"unsampled", NEED(PROVIDER), PROVIDER_UNSAMPLED, silent},
	{"no SDK installed", NEED(PROVIDER), PROVIDER_NONE, silent},
	{"started after shutdown", NEED(SHUTDOWN), PROVIDER_SAMPLED, after_shutdown},
	{"interleaved roots", NEED(ROOT) | NEED(NO_SCOPE), PROVIDER_SAMPLED, interleaved},
	{"150 deep", NEED(PARENT), PROVIDER_SAMPLED, deep},
	{"wrapped SDK counts once", NEED(WRAPPER), PROVIDER_SAMPLED, wrapped},
};

const unsigned story_count = sizeof(stories) / sizeof(stories[0]);
