/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stories, the same for every SDK: what programs do with spans, and the label of a sample at each moment
 * (README.md).
 */
#include "test/conformance/story.h"
#include "test/hosts/host.h"

/* SP_SPAN_FORGET of sampler/open_spans/span_stack.h: only the root is known of this many of the oldest spans then. */
#define FORGET 32
#define DEEP 150
#define MANY 200
#define TURNS 4
#define THREADS 8
#define ATTACHED 64
#define LOST 1200
#define MANY_VALUES 1300

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

/* The SDK's current span becomes the parent. */
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
	/* a context without a span hides the spans around it */
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
	struct span *b;
	void *inner;

	story_shows(a);
	story_detach(scope);
	story_shows(NULL);
	scope = story_attach(a);
	b = story_start("b", a);
	inner = story_attach(b);
	story_shows(b);
	story_finish(b);
	story_shows(NULL);
	story_detach(inner);
	story_shows(a);
	story_turn();
	/* the other thread has ended it meanwhile */
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

static void detach_elsewhere(void *scope)
{
	HOST_CHECK(!story_detach(scope));
}

static void scope_there(void)
{
	struct span *a;
	void *scope;

	story_use_scopes();
	a = story_start("a", NULL);
	scope = story_attach(a);
	story_elsewhere(detach_elsewhere, scope);
	story_shows(a);
	HOST_CHECK(story_detach(scope));
	story_shows(NULL);
	story_finish(a);
}

/*
 * If the program uses scopes, the start of a span does not tell for which span the thread works. The span has the
 * parent that its start names.
 */
static void beside(void)
{
	struct span *a;
	struct span *s;
	void *scope_a;
	void *scope;

	story_use_scopes();
	s = story_start_ambient("alone", NULL);
	story_shows(NULL);
	scope = story_attach(s);
	story_shows(s);
	story_detach(scope);
	story_finish(s);
	a = story_start("a", NULL);
	scope_a = story_attach(a);
	for (int i = 0; i < 2 * TURNS; i++) {
		s = i % 2 == 0 ? story_start("root", NULL) : story_start_ambient("child", a);
		story_shows(a);
		scope = story_attach(s);
		story_shows(s);
		story_detach(scope);
		story_finish(s);
	}
	story_shows(a);
	story_detach(scope_a);
	story_finish(a);
	story_shows(NULL);
	story_open(0);
}

/* A server's framework has read a request: the attached context has no span of this process. */
static void remote_scope(void)
{
	struct span *a;
	void *far;
	void *scope;

	story_use_scopes();
	far = story_attach_remote();
	story_shows(NULL);
	a = story_start_ambient("a", NULL);
	story_shows(NULL);
	scope = story_attach(a);
	story_shows(a);
	story_detach(scope);
	story_finish(a);
	story_detach(far);
	story_shows(NULL);
}

static void many_scopes(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b = story_start("b", a);
	void *scope[ATTACHED];
	void *one_more;

	for (int i = 0; i < ATTACHED; i++)
		scope[i] = story_attach(a);
	one_more = story_attach(b);
	story_shows(one_more != NULL ? b : a);
	if (one_more != NULL)
		story_detach(one_more);
	story_shows(a);
	for (int i = ATTACHED; i-- > 0;)
		story_detach(scope[i]);
	story_shows(NULL);
	story_finish(b);
	story_finish(a);
}

static void held(void)
{
	struct span *a;
	void *scope;

	story_use_scopes();
	a = story_start("a", NULL);
	scope = story_attach(a);
	story_destroy(a);
	story_shows(a);
	story_detach(scope);
	story_shows(NULL);
	story_open(0);
}

static void own_storage(void)
{
	struct span *a;
	void *scope;

	story_use_scopes();
	sdk->bring_storage(false);
	a = story_start("a", NULL);
	story_shows(NULL);
	scope = story_attach(a);
	story_shows(a);
	story_detach(scope);
	story_shows(NULL);
	story_finish(a);
}

/* This storage always answers that nothing is attached: then spans label from start to end. */
static void deaf_storage(void)
{
	struct span *a;
	void *scope;

	sdk->bring_storage(true);
	a = story_start("a", NULL);
	scope = story_attach(a);
	story_used_scopes = false;
	story_shows(a);
	story_detach(scope);
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
	story_expect_message("context::RuntimeContextStorage is not understood");
}

/* Scopes pile up, in the SDK as well. */
static void lost_scopes(void)
{
	struct span *a;

	for (int i = 0; i < LOST; i++) {
		a = story_start("lost", NULL);
		story_attach(a);
		story_finish(a);
	}
	a = story_start("a", NULL);
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
	story_expect_message("nesting of scopes is not understood");
	story_expect_message("labels or scopes were nested too deep");
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

static void ended_inside(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b;

	story_shows(a);
	b = story_start_ending("b", a);
	story_shows(b);
	story_finish(b);
	story_destroy(a);
	story_shows(NULL);
	story_open(0);
}

/* Nothing is ever attached, but a root that links to another one continues its work, as in MySQL. */
static void linked_by(bool is_remote)
{
	struct span *a = story_start("session", NULL);
	struct span *b;
	struct span *c;

	story_shows(a);
	for (int i = 0; i < 2; i++) {
		b = story_start_linked("statement", a, is_remote);
		story_shows(b);
		c = story_start("part", b);
		story_shows(c);
		story_finish(c);
		story_shows(b);
		story_finish(b);
		story_shows(a);
	}
	story_finish(a);
	story_shows(NULL);
	story_open(0);
}

static void linked(void)
{
	linked_by(false);
}

/* The same for a client that sends a traceparent: the statement is a part of the client's trace. */
static void linked_remote(void)
{
	linked_by(true);
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

/* The span never ends: for samples it ends with its thread. */
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
	story_end(a);
	/* too late */
	if (sdk->lacks[NEED_END_TWICE] == NULL)
		story_rename(a, "late");
	story_destroy(a);
	story_shows(NULL);
}

static void unnamed(void)
{
	struct span *a = story_start("", NULL);

	a->name = "(unnamed)";
	story_shows(sdk->needs_name ? NULL : a);
	if (a->handle != NULL)
		story_finish(a);
	story_shows(NULL);
}

#define HOSTS_WORD "mine"

static void set_here(void *a)
{
	story_set(a, STORY_PROFILE_ID, HOSTS_WORD);
}

/* Programs that set their own profile id, and programs with a similar attribute. */
static void own_id(void)
{
	struct span *a = story_start("by itself", NULL);

	set_here(a);
	story_shows(a);
	story_finish(a);
	a = story_start("almost", NULL);
	story_set(a, STORY_PROFILE_ID ".of", HOSTS_WORD);
	story_set(a, "pyroscope.profile", HOSTS_WORD);
	story_set(a, "pyroscope.profile.ix", HOSTS_WORD);
	story_shows(a);
	story_end(a);
	if (sdk->lacks[NEED_END_TWICE] == NULL)
		set_here(a);
	story_destroy(a);
	a = story_start("elsewhere", NULL);
	story_elsewhere(set_here, a);
	story_finish(a);
	if (sdk->start_with != NULL) {
		story_finish(story_start_with("at the start", STORY_PROFILE_ID, HOSTS_WORD));
		story_finish(story_start_with("almost", "pyroscope.profile.ix", HOSTS_WORD));
	}
	/* may get the memory of the spans before */
	a = story_start("after", NULL);
	story_shows(a);
	story_finish(a);
}

/* The value of the local root at its end: a child's value, or one that comes too late, does not count. */
static void end_with_value(struct span *a, void *scope)
{
	struct span *b = story_start("b", a);

	story_set(b, STORY_VALUE_KEY, "of the child");
	story_shows(scope != NULL ? a : b);
	story_finish(b);
	if (scope != NULL)
		story_detach(scope);
	story_end(a);
	if (sdk->lacks[NEED_END_TWICE] == NULL)
		story_set(a, STORY_VALUE_KEY, "too late");
	story_destroy(a);
}

static void *attached_if(bool scopes, const struct span *a)
{
	void *scope = scopes ? story_attach(a) : NULL;

	story_shows(a);
	return scope;
}

/* Attributes that become labels of samples, by each way in which the SDK accepts one. */
static void values_by(bool scopes)
{
	struct span *a;
	void *scope;

	for (unsigned way = 0; (a = story_start_with_value("given", way)) != NULL; way++) {
		scope = attached_if(scopes, a);
		end_with_value(a, scope);
	}
	a = story_start("first", NULL);
	story_set(a, STORY_VALUE_KEY, "first");
	scope = attached_if(scopes, a);
	end_with_value(a, scope);
	for (unsigned way = 0;; way++) {
		a = story_start("a", NULL);
		scope = attached_if(scopes, a);
		if (!story_set_value(a, way))
			break;
		end_with_value(a, scope);
	}
	end_with_value(a, scope);
}

static void values(void)
{
	values_by(false);
	if (sdk->lacks[NEED_SCOPE] == NULL) {
		story_use_scopes();
		values_by(true);
	}
}

/* More values than a profile distinguishes. */
static void many_values(void)
{
	static char text[MANY_VALUES][8];

	for (int i = 0; i < MANY_VALUES; i++) {
		struct span *a = story_start("a", NULL);

		snprintf(text[i], sizeof(text[i]), "%d", i);
		story_shows(a);
		story_set(a, STORY_VALUE_KEY, text[i]);
		story_finish(a);
	}
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

static void shut_down_first(void)
{
	struct span *a;

	story_shut_down();
	a = story_start("a", NULL);
	a->exported = sdk->records_after_shutdown;
	story_shows(sdk->records_after_shutdown ? a : NULL);
	story_finish(a);
	story_shows(NULL);
}

static void shut_down_between(void)
{
	struct span *a = story_start("a", NULL);

	story_shows(a);
	story_shut_down();
	story_shows(a);
	story_finish(a);
	story_shows(NULL);
}

static void odd_calls(void)
{
	bool scopes = sdk->lacks[NEED_SCOPE] == NULL;
	void *scope = NULL;
	struct span *a;

	if (scopes)
		story_use_scopes();
	a = story_start("a", NULL);
	if (scopes)
		scope = story_attach(a);
	story_shows(a);
	sdk->odd(a->handle);
	story_shows(a);
	if (scopes)
		story_detach(scope);
	story_finish(a);
	story_shows(NULL);
	story_open(0);
}

static void some_spans(void)
{
	for (int i = 0; i < MANY / 10; i++) {
		struct span *a = story_start("a", NULL);

		story_shows(a);
		story_finish(a);
		story_shows(NULL);
	}
}

/* The first spans of the process. */
static void at_once(void)
{
	story_at_once(THREADS, some_spans);
	story_open(0);
}

static void forked_child(void)
{
	struct span *a = story_start("a", NULL);

	story_shows(a);
	story_finish(a);
	story_shows(NULL);
}

/* HAProxy does this: the SDK is initialised before the fork of the process that works with it. */
static void forked(void)
{
	story_forked(forked_child);
	forked_child();
}

/* An event loop: two requests at a time on one thread. As long as both are open, samples have no label. */
static void interleaved(void)
{
	struct span *a = story_start("a", NULL);
	struct span *b = story_start("b", NULL);
	struct span *c;

	a->is_shared = b->is_shared = true;
	story_shows(NULL);
	story_finish(a);
	story_shows(b);
	c = story_start("c", NULL);
	c->is_shared = true;
	story_shows(NULL);
	story_finish(c);
	story_shows(b);
	story_finish(b);
	story_shows(NULL);
	story_open(0);
	story_expect_message("spans interleave");
}

static void shows_level(const struct span *s, int level)
{
	if (level >= FORGET)
		story_shows(s);
	else
		story_shows_root(s);
}

static void deep(void)
{
	struct span *s[DEEP];

	for (int i = 0; i < DEEP; i++) {
		s[i] = story_start("deep", i > 0 ? s[i - 1] : NULL);
		story_shows(s[i]);
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

/* A child's status is not its root's, and the last status of a root counts. */
static void failed(void)
{
	static const char *const names[] = {"failed", "mended", "with a failed child"};

	for (unsigned i = 0; i < 3; i++) {
		struct span *a = story_start(names[i], NULL);
		struct span *b = story_start("child", a);

		story_set_status(i < 2 ? a : b, true);
		story_shows(b);
		story_finish(b);
		if (i == 1)
			story_set_status(a, false);
		story_shows(a);
		story_finish(a);
	}
	story_shows(NULL);
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
	{"detached on another thread", NEED(SCOPE), PROVIDER_SAMPLED, scope_there},
	{"started beside an active span", NEED(SCOPE) | NEED(ROOT) | NEED(AMBIENT),
	 PROVIDER_SAMPLED, beside},
	{"attached remote span", NEED(SCOPE) | NEED(AMBIENT), PROVIDER_SAMPLED, remote_scope},
	{"64 scopes and one more", NEED(SCOPE), PROVIDER_SAMPLED, many_scopes},
	{"held by its scope", NEED(HELD), PROVIDER_SAMPLED, held},
	{"ended inside a start", NEED(CALLBACK), PROVIDER_SAMPLED, ended_inside},
	{"linked root", NEED(LINKS), PROVIDER_SAMPLED, linked},
	{"linked root, remote parent", NEED(LINKS) | NEED(REMOTE), PROVIDER_SAMPLED, linked_remote},
	{"without a name", 0, PROVIDER_SAMPLED, unnamed},
	{"own profile id", NEED(ROOT), PROVIDER_SAMPLED, own_id},
	{"values for labels", NEED(PARENT), PROVIDER_SAMPLED, values},
	{"1,300 values", STORY_ALONE, PROVIDER_SAMPLED, many_values},
	{"own storage", NEED(STORAGE), PROVIDER_SAMPLED, own_storage},
	{"deaf storage", NEED(STORAGE), PROVIDER_SAMPLED, deaf_storage},
	{"lost scopes", NEED(STORAGE), PROVIDER_SAMPLED, lost_scopes},
	{"odd calls", NEED(ODD), PROVIDER_SAMPLED, odd_calls},
	{"shut down first", NEED(SHUTDOWN), PROVIDER_SAMPLED, shut_down_first},
	{"shut down between", NEED(SHUTDOWN), PROVIDER_SAMPLED, shut_down_between},
	{"first spans at once", 0, PROVIDER_SAMPLED, at_once},
	{"failed", NEED(PARENT) | NEED(STATUS), PROVIDER_SAMPLED, failed},
	{"forked", 0, PROVIDER_SAMPLED, forked},
};

const unsigned story_count = sizeof(stories) / sizeof(stories[0]);
