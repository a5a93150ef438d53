/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what made the slowest requests slow (slowest.h).
 *
 * A slow root has its exact times and the median of its name. The profiles have samples with its
 * span id: samples of its CPU time, and looks at its waits. A part of a request's time is a cause
 * if the request spent more on that part than a usual request: the difference must be at least a
 * third of what the request is slower by, and at least a tenth of the median. A usual request
 * spends the average of all requests of its name on that part, but at most the median. If profiles
 * of counted requests are missing, the average is not known, and a usual request may have spent the
 * whole median on that part.
 *
 * Which moments are sampled is chance, so each part counts as two standard errors less than its
 * estimate. If the whole is exact (spanprof.off_cpu_time_ns), k of n looks are a share of it, which
 * is at least the lower bound of Wilson's interval; that bound holds for few looks as well, even if
 * all of them are equal. If the whole is not exact, the error is that of the sum
 * (sp_tally_error()). Context: the report tool.
 */
#define _GNU_SOURCE
#include "export/report/slowest.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "export/profile/profile_type.h"
#include "export/report/file.h"
#include "export/report/load.h"
#include "export/report/tally.h"
#include "sampler/base/compiler.h"

/*
 * A cause is at least one part in CAUSE_OF_EXCESS of what the request is slower by, and one part in
 * CAUSE_OF_MEDIAN of the median.
 */
#define CAUSE_OF_EXCESS 3.0
#define CAUSE_OF_MEDIAN 10.0

/* Limit for the memory of samples, as in all reports. */
#define TREE_MAX ((size_t)1 << 30)

const char *const sp_part_words[SP_PARTS] = {
	[SP_PART_CPU] = "cpu",           [SP_PART_RUNNABLE] = "runnable",
	[SP_PART_LOCK] = "lock",         [SP_PART_CONDITION] = "condition",
	[SP_PART_FUTEX] = "futex",       [SP_PART_SLEEP] = "sleep",
	[SP_PART_CHILD] = "child",       [SP_PART_EVENTS] = "events",
	[SP_PART_SIGNAL] = "signal",     [SP_PART_SOCKET] = "socket",
	[SP_PART_PIPE] = "pipe",         [SP_PART_FILE] = "file",
	[SP_PART_TERMINAL] = "terminal", [SP_PART_KERNEL] = "kernel",
	[SP_PART_OTHER] = "other",       [SP_PART_OFF_CPU] = "off_cpu",
	[SP_PART_INACTIVE] = "inactive",
};

static int refuse(struct sp_slowest *x, int status, const char *why)
{
	(void)snprintf(x->r.why, sizeof(x->r.why), "%s", why);
	return status;
}

static int no_memory(struct sp_slowest *x)
{
	return refuse(x, SP_EXIT_DAMAGED, SP_REPORT_NO_MEMORY);
}

/* The requests */

/*
 * The file that is being read belongs to a process whose requests count: remembers the first file
 * of that process.
 */
static void count_file(struct sp_slowest *x, uint32_t process, uint64_t number, uint64_t begin_ns)
{
	x->is_counted = true;
	if (number < x->first[process].number)
		x->first[process] = (struct sp_slowest_file){number, begin_ns};
}

/*
 * Adds the process of the file: its requests count from its first file of slow roots on. *id: the
 * process; 0 = it is not known. 0, or -1 when out of memory.
 */
static int count_process(struct sp_slowest *x, uint32_t *id)
{
	char process[SP_REPORT_TEXT_MAX];
	uint64_t number, begin_ns;
	uint32_t had = x->process.n;

	*id = 0;
	if (!sp_reading_process_of(x->r.path, process, sizeof(process), &number, &begin_ns)) {
		x->is_whole = false;
		return 0;
	}
	if (sp_strtab_put(&x->process, process, strlen(process), id) != 0 ||
	    !SP_GROW(x->first, x->first_cap, (size_t)*id + 1, UINT32_MAX))
		return -1;
	if (*id == had)
		x->first[*id] = (struct sp_slowest_file){number, begin_ns};
	count_file(x, *id, number, begin_ns);
	return 0;
}

static int load_roots(void *arg, const struct sp_bytes *file, char why[SP_REPORT_ERROR])
{
	struct sp_slowest *x = arg;
	size_t had = x->roots.n;
	uint32_t id;
	int err;

	x->r.has_shown = true;
	if (count_process(x, &id) != 0) {
		(void)snprintf(why, SP_REPORT_ERROR, "%s", SP_REPORT_NO_MEMORY);
		return -1;
	}
	err = sp_report_roots_read(&x->roots, file, why);
	for (size_t i = had; err == 0 && i < x->roots.n; i++)
		x->roots.root[i].file = id;
	return err;
}

/*
 * Whether a root is of the time and the name that are asked for. Its time is that of its end,
 * because it is in the file of the interval in which it ended.
 */
static bool is_selected(const struct sp_slowest *x, const struct sp_report_root *root)
{
	const struct sp_selection *s = &x->r.selection;

	return sp_time_window_has(&x->o->window, root->end_ns, 0) &&
	       (s->span_name == NULL ||
		strcmp(s->span_name, sp_report_roots_text(&x->roots, root->name)) == 0);
}

static bool has_selected_id(const struct sp_slowest *x, const struct sp_report_root *root)
{
	const struct sp_selection *s = &x->r.selection;

	return (s->span_id == NULL || strcasecmp(s->span_id, root->span_id) == 0) &&
	       (s->trace_id == NULL || strcasecmp(s->trace_id, root->trace_id) == 0);
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* Sorts by name, process and time. The last root of a process has counted all roots of its name before it. */
static int compare_roots(const void *a, const void *b)
{
	const struct sp_report_root *x = a;
	const struct sp_report_root *y = b;
	int order = compare_numbers(x->service, y->service);

	if (order == 0)
		order = compare_numbers(x->name, y->name);
	if (order == 0)
		order = compare_numbers(x->process, y->process);
	if (order == 0)
		order = compare_numbers(x->end_ns, y->end_ns);
	if (order == 0)
		order = compare_numbers(x->id, y->id);
	return order != 0 ? order : strcmp(x->trace_id, y->trace_id);
}

/*
 * Drops the names without a root that has a selected id. All roots of the other names stay: their
 * numbers tell what is usual for the name.
 */
static void select_names(struct sp_slowest *x)
{
	struct sp_report_root *root = x->roots.root;
	size_t n = 0;
	size_t end;

	for (size_t i = 0; i < x->roots.n; i = end) {
		bool has_id = false;

		for (end = i; end < x->roots.n && root[end].service == root[i].service &&
			      root[end].name == root[i].name;
		     end++)
			has_id |= has_selected_id(x, &root[end]);
		if (has_id) {
			memmove(&root[n], &root[i], (end - i) * sizeof(*root));
			n += end - i;
		}
	}
	x->roots.n = n;
}

/*
 * Drops the roots that are not selected, and duplicates: a file may exist twice, or be named as
 * well as its folder.
 */
static void select_roots(struct sp_slowest *x)
{
	struct sp_report_root *root = x->roots.root;
	size_t n = 0;

	if (x->roots.n != 0)
		qsort(root, x->roots.n, sizeof(*root), compare_roots);
	for (size_t i = 0; i < x->roots.n; i++)
		if (is_selected(x, &root[i]) &&
		    (n == 0 || compare_roots(&root[n - 1], &root[i]) != 0))
			root[n++] = root[i];
	x->roots.n = n;
	select_names(x);
}

/* Adds the numbers of all roots of a name in a process, which its last root has. */
static void add_process(struct sp_slowest_group *g, const struct sp_report_root *last)
{
	if (last->count == SP_ROOT_VALUE_UNKNOWN)
		return;
	if (g->count == SP_ROOT_VALUE_UNKNOWN)
		g->count = 0;
	if (__builtin_add_overflow(g->count, last->count, &g->count))
		g->count = INT64_MAX;
	if (last->count < g->most)
		return;
	g->most = last->count;
	g->p50_ns = last->p50_ns;
	g->p90_ns = last->p90_ns;
	g->p99_ns = last->p99_ns;
}

static bool is_last_of_process(const struct sp_slowest *x, size_t i)
{
	const struct sp_report_root *root = &x->roots.root[i];

	return i + 1 == (x->slow != 0 ? x->slow : x->roots.n) || root[1].service != root->service ||
	       root[1].name != root->name || root[1].process != root->process;
}

static uint32_t hash_of_group(const struct sp_report_root *root)
{
	return (uint32_t)sp_hash_add(sp_hash_add(0, root->service), root->name);
}

/* The group of a root, which is made if there is none. 0 or -1 without memory. */
static int find_group(struct sp_slowest *x, const struct sp_report_root *root, uint32_t *group)
{
	for (uint32_t step = 0;
	     sp_hash_index_next(&x->by_group, hash_of_group(root), &step, group);)
		if (x->group[*group].service == root->service &&
		    x->group[*group].name == root->name)
			return 0;
	*group = (uint32_t)x->groups;
	if (!SP_GROW(x->group, x->group_cap, x->groups + 1, UINT32_MAX) ||
	    !sp_hash_index_put(&x->by_group, hash_of_group(root), *group))
		return -1;
	x->several_services |= x->groups != 0 && x->group[0].service != root->service;
	x->group[x->groups++] = (struct sp_slowest_group){.service = root->service,
							  .name = root->name,
							  .count = SP_ROOT_VALUE_UNKNOWN,
							  .p50_ns = SP_ROOT_VALUE_UNKNOWN,
							  .p90_ns = SP_ROOT_VALUE_UNKNOWN,
							  .p99_ns = SP_ROOT_VALUE_UNKNOWN};
	return 0;
}

static int add_request(struct sp_slowest *x, size_t i)
{
	const struct sp_report_root *root = &x->roots.root[i];
	struct sp_slowest_request q = {.root = (uint32_t)i,
				       .duration_ns = root->end_ns - root->start_ns};

	if (find_group(x, root, &q.group) != 0 ||
	    !SP_GROW(x->request, x->request_cap, x->requests + 1, UINT32_MAX))
		return no_memory(x);
	x->request[x->requests++] = q;
	return 0;
}

static int group_roots(struct sp_slowest *x)
{
	for (size_t i = 0; i < x->roots.n; i++) {
		struct sp_slowest_group *g;
		int err = add_request(x, i);

		if (err != 0)
			return err;
		g = &x->group[x->request[i].group];
		g->slow++;
		if (is_last_of_process(x, i))
			add_process(g, &x->roots.root[i]);
	}
	x->slow = x->roots.n;
	return 0;
}

int sp_slowest_add(struct sp_slowest *x, const struct sp_report_root *root)
{
	int err;

	if (!SP_GROW(x->roots.root, x->roots.cap, x->roots.n + 1, UINT32_MAX))
		return no_memory(x);
	x->roots.root[x->roots.n++] = *root;
	err = add_request(x, x->roots.n - 1);
	if (err == 0)
		x->request[x->requests - 1].is_added = true;
	return err;
}

/* Sorts by slower_by_ns, the largest first. */
static int compare_requests(const void *a, const void *b)
{
	const struct sp_slowest_request *x = a;
	const struct sp_slowest_request *y = b;
	int order = compare_numbers(y->slower_by_ns, x->slower_by_ns);

	if (order == 0)
		order = compare_numbers(y->duration_ns, x->duration_ns);
	return order != 0 ? order : compare_numbers(x->root, y->root);
}

static int choose_requests(struct sp_slowest *x)
{
	const size_t top = x->o->top;
	size_t n = 0;
	int err;

	for (size_t i = 0; i < x->requests; i++) {
		struct sp_slowest_request *q = &x->request[i];
		uint64_t median = x->group[q->group].p50_ns;

		if (q->duration_ns < x->o->slower_than_ns ||
		    !has_selected_id(x, &x->roots.root[q->root]))
			continue;
		if (median == SP_ROOT_VALUE_UNKNOWN)
			median = 0;
		q->slower_by_ns = q->duration_ns > median ? q->duration_ns - median : 0;
		x->request[n++] = *q;
	}
	if (n != 0)
		qsort(x->request, n, sizeof(*x->request), compare_requests);
	x->requests = n;
	err = x->chooser != NULL ? x->chooser->choose(x->chooser->arg, x) : 0;
	n = x->requests;
	x->all_requests = n;
	if (x->chooser == NULL && top != 0 && top < n)
		x->requests = top;
	for (size_t i = 0; i < x->requests; i++) {
		const struct sp_report_root *root = &x->roots.root[x->request[i].root];

		if (i == 0 || root->start_ns < x->from_ns)
			x->from_ns = root->start_ns;
		if (root->end_ns > x->to_ns)
			x->to_ns = root->end_ns;
	}
	return err;
}

static bool find_id(const struct sp_slowest *x, uint64_t id, uint32_t *request)
{
	uint32_t hash = (uint32_t)sp_hash_add(0, id);

	for (uint32_t step = 0; sp_hash_index_next(&x->by_id, hash, &step, request);)
		if (x->roots.root[x->request[*request].root].id == id)
			return true;
	return false;
}

static int index_requests(struct sp_slowest *x)
{
	uint32_t other;

	x->of_name = calloc(x->roots.text.n, sizeof(*x->of_name));
	if (x->of_name == NULL)
		return no_memory(x);
	for (uint32_t i = 0; i < x->groups; i++) {
		x->group[i].next = x->of_name[x->group[i].name];
		x->of_name[x->group[i].name] = i + 1;
	}
	for (uint32_t i = 0; i < x->requests; i++) {
		uint64_t id = x->roots.root[x->request[i].root].id;

		/* A hostile file may have any number of roots with one id. */
		if (!find_id(x, id, &other) &&
		    !sp_hash_index_put(&x->by_id, (uint32_t)sp_hash_add(0, id), i))
			return no_memory(x);
	}
	return 0;
}

static bool find_request(const struct sp_slowest *x, const struct sp_report_sample *s,
			 uint32_t *request)
{
	uint64_t id;

	return sp_report_id_read(s->span_id, &id) && find_id(x, id, request);
}

/* Their samples */

const char *sp_slowest_text(const struct sp_slowest *x, uint32_t id)
{
	size_t len;

	return sp_strtab_get(&x->r.tree.text, id, &len);
}

bool sp_slowest_has_holder(const char *leaf)
{
	return strncmp(leaf, "held by ", strlen("held by ")) == 0;
}

/*
 * The part of a wait in futex(). The functions of the C and C++ libraries between the system call
 * and the program show whether the thread waits for a lock or a condition.
 */
static enum sp_part part_of_futex(const struct sp_report_sample *s, size_t leaf)
{
	for (size_t i = leaf + 1; i < s->frames && s->frame[i].kind != SP_FRAME_OWN; i++) {
		const char *name = s->frame[i].name;

		/* std::condition_variable::wait(std::unique_lock<std::mutex>&) has both words. */
		if (strstr(name, "cond_") != NULL || strstr(name, "condition") != NULL)
			return SP_PART_CONDITION;
		if (strstr(name, "mutex") != NULL || strstr(name, "rwlock") != NULL)
			return SP_PART_LOCK;
	}
	return SP_PART_FUTEX;
}

/* The part of a wait, by the leaf, as WAITING TIME in the manual lists them. */
static enum sp_part part_of_wait(const struct sp_report_sample *s)
{
	static const struct {
		const char *mark;
		enum sp_part part;
	} marks[] = {
		{"[waiting for a CPU]", SP_PART_RUNNABLE},
		{"[blocked in the kernel]", SP_PART_KERNEL},
		{"(lock)", SP_PART_LOCK},
		{"(timer)", SP_PART_SLEEP},
		{"(child)", SP_PART_CHILD},
		{"(events)", SP_PART_EVENTS},
		{"(signal)", SP_PART_SIGNAL},
		{"(socket)", SP_PART_SOCKET},
		{"(pipe)", SP_PART_PIPE},
		{"(file)", SP_PART_FILE},
		{"(terminal)", SP_PART_TERMINAL},
		/* Leaves of SPANPROF_OFF_CPU_TARGETS. */
		{" tcp ", SP_PART_SOCKET},
		{" udp ", SP_PART_SOCKET},
		{" unix ", SP_PART_SOCKET},
		{" socket", SP_PART_SOCKET},
		{" pipe", SP_PART_PIPE},
		{" /dev/pts/", SP_PART_TERMINAL},
		{" /dev/tty", SP_PART_TERMINAL},
		{" /", SP_PART_FILE},
	};
	size_t leaf = s->frames > 1 && sp_slowest_has_holder(s->frame[0].name) ? 1 : 0;
	const char *name = s->frames != 0 ? s->frame[leaf].name : "";

	if (strncmp(name, "futex", strlen("futex")) == 0)
		return leaf != 0 ? SP_PART_LOCK : part_of_futex(s, leaf);
	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
		if (strstr(name, marks[i].mark) != NULL)
			return marks[i].part;
	return SP_PART_OTHER;
}

/*
 * Adds a sample to the tree, which has the stacks of each request and of each name by part, below
 * "r12.3" and "n12.3".
 */
static void add_to_tree(struct sp_slowest *x, const struct sp_report_sample *s, char whose,
			uint32_t number, enum sp_part part)
{
	struct sp_report_sample keyed = *s;
	char key[32];

	(void)snprintf(key, sizeof(key), "%c%" PRIu32 ".%u", whose, number, (unsigned)part);
	keyed.span_name = key;
	sp_tree_add(&x->r.tree, &keyed, SP_SIDE_SELECTED);
	x->r.too_large = sp_tree_bytes(&x->r.tree) > TREE_MAX;
}

/*
 * Whether the sum of all values does not overflow: a hostile profile can have values of 2^63 - 1.
 * All other sums are of some of these samples.
 */
static bool fits(struct sp_slowest *x, const struct sp_report_sample *s)
{
	x->r.has_added = true;
	x->r.too_much |= __builtin_add_overflow(x->sum, s->ns, &x->sum);
	x->r.too_much |= __builtin_add_overflow(x->sum, s->samples, &x->sum);
	return !x->r.too_much && !x->r.too_large;
}

static void add_sample(void *arg, const struct sp_report_sample *s)
{
	struct sp_slowest *x = arg;
	enum sp_part part = x->is_of_waits ? part_of_wait(s) : SP_PART_CPU;
	uint32_t n;

	if (!fits(x, s))
		return;
	if (!x->is_of_waits)
		x->cpu_samples += s->samples;
	if (find_request(x, s, &n))
		add_to_tree(x, s, 'r', n, part);
	if (x->is_counted &&
	    sp_strtab_find(&x->roots.text, s->span_name, strlen(s->span_name), &n) &&
	    x->of_name[n] != 0)
		add_to_tree(x, s, 'n', n, part);
}

static bool begin(void *arg, const struct sp_report_about *about)
{
	struct sp_slowest *x = arg;

	enum sp_profile_type type = sp_profile_type_find(about->type);

	x->wants_memory |= about->in_bytes;
	x->is_of_waits = type == SP_PROFILE_OFF_CPU;
	if (about->in_bytes || type == SP_PROFILE_WALL)
		return false;
	x->r.has_shown = true;
	x->has_waits |= x->is_of_waits;
	return true;
}

static void add_memory(void *arg, const struct sp_report_sample *s)
{
	struct sp_slowest *x = arg;
	uint32_t n;

	if (fits(x, s) && find_request(x, s, &n))
		x->request[n].sampled_bytes += s->ns;
}

static int load_profile(void *arg, const struct sp_bytes *file, char why[SP_REPORT_ERROR])
{
	struct sp_slowest *x = arg;
	const struct sp_report_sink times = {
		.sample = add_sample, .arg = x, .kinds = true, .begin = begin};
	const struct sp_report_sink memory = {
		.sample = add_memory, .arg = x, .type = "alloc_space"};
	char process[SP_REPORT_TEXT_MAX];
	uint64_t number, begin_ns;
	uint32_t id;
	int err;

	if (sp_report_is_of_slow_roots(x->r.path) || sp_report_is_of_times(x->r.path))
		return 0;
	x->wants_memory = x->is_counted = false;
	if (sp_reading_process_of(x->r.path, process, sizeof(process), &number, &begin_ns) &&
	    sp_strtab_find(&x->process, process, strlen(process), &id))
		count_file(x, id, number, begin_ns);
	err = sp_report_load(file, SP_REPORT_MEMORY_MAX, &times, why);
	if (err == 0 && x->wants_memory)
		err = sp_report_load(file, SP_REPORT_MEMORY_MAX, &memory, why);
	return err;
}

/* The times of their samples */

/* Limit for the samples with times, because a hostile file may have any number. */
#define MOMENTS_MAX ((size_t)1 << 22)

static void add_moment(void *arg, const struct sp_report_sample *s)
{
	struct sp_slowest *x = arg;
	struct sp_report_sample keyed = *s;
	struct sp_moment m = {.thread = (uint32_t)s->thread_id, .at_ns = s->end_ns, .ns = s->ns};
	char key[16];

	if (s->end_ns == 0 || !fits(x, s) || !find_request(x, s, &m.request))
		return;
	m.part = s->frames != 0 && s->frame[0].kind == SP_FRAME_WAITING ? part_of_wait(s)
									: SP_PART_CPU;
	(void)snprintf(key, sizeof(key), "%" PRIu32, m.request);
	keyed.span_name = key;
	m.node = sp_tree_add(&x->times, &keyed, SP_SIDE_SELECTED);
	if (sp_strtab_put(&x->times.text, s->thread_name, strlen(s->thread_name), &m.name) != 0 ||
	    x->times.nomem || x->moments == MOMENTS_MAX ||
	    !SP_GROW(x->moment, x->moment_cap, x->moments + 1, MOMENTS_MAX)) {
		x->r.too_large = true;
		return;
	}
	x->moment[x->moments++] = m;
	x->r.too_large = sp_tree_bytes(&x->times) > TREE_MAX;
}

static int load_times(void *arg, const struct sp_bytes *file, char why[SP_REPORT_ERROR])
{
	struct sp_slowest *x = arg;
	const struct sp_report_sink sink = {
		.sample = add_moment, .arg = x, .kinds = true, .type = "wall"};

	x->r.has_shown = true;
	return sp_report_load(file, SP_REPORT_MEMORY_MAX, &sink, why);
}

static int compare_moments(const void *a, const void *b)
{
	const struct sp_moment *x = a;
	const struct sp_moment *y = b;
	int order = compare_numbers(x->request, y->request);

	if (order == 0)
		order = compare_numbers(x->thread, y->thread);
	if (order == 0)
		order = compare_numbers(x->at_ns, y->at_ns);
	return order != 0 ? order : compare_numbers(x->node, y->node);
}

static void sort_moments(struct sp_slowest *x)
{
	if (x->moments != 0)
		qsort(x->moment, x->moments, sizeof(*x->moment), compare_moments);
	for (size_t i = 0; i < x->moments; i++) {
		struct sp_slowest_request *q = &x->request[x->moment[i].request];

		if (q->moments++ == 0)
			q->first_moment = i;
	}
}

/* Finds the nodes of the tree with the samples of each request and name. */
static void find_nodes(struct sp_slowest *x)
{
	const struct sp_tree *t = &x->r.tree;

	for (uint32_t i = t->node[0].first; i != 0; i = t->node[i].next) {
		const char *key = sp_tree_text(t, &t->node[i]);
		char *end;
		unsigned long number = strtoul(key + 1, &end, 10);
		unsigned long part = strtoul(end + 1, NULL, 10);

		if (key[0] == 'r')
			x->request[number].node[part] = i;
		for (uint32_t g = key[0] == 'n' ? x->of_name[number] : 0; g != 0;
		     g = x->group[g - 1].next)
			x->group[g - 1].node[part] = i;
	}
}

/*
 * Computes the rate of requests. A process counts from its first interval until the end of its last
 * root of the name.
 */
static void find_rates(struct sp_slowest *x)
{
	size_t group = 0;

	for (size_t i = 0; i < x->slow; i++) {
		const struct sp_report_root *root = &x->roots.root[i];
		const struct sp_slowest_file *first = &x->first[root->file];
		struct sp_slowest_group *g;

		while (x->group[group].service != root->service ||
		       x->group[group].name != root->name)
			group++;
		g = &x->group[group];
		if (!is_last_of_process(x, i))
			continue;
		if (root->file == 0 || first->number != 1 || root->end_ns <= first->begin_ns ||
		    root->count == SP_ROOT_VALUE_UNKNOWN)
			g->rate = -1;
		else if (g->rate >= 0)
			g->rate += (double)root->count /
				   ((double)(root->end_ns - first->begin_ns) / (double)SP_NS_PER_S);
	}
}

/* The causes */

/*
 * If k of n samples belong to a part: the lower bound of Wilson's interval for the share of the
 * part.
 */
static double low_share(uint64_t k, uint64_t n)
{
	double of = (double)n;
	double share = n != 0 ? (double)k / of : 0;

	if (n == 0)
		return 0;
	return (share + 2 / of - 2 * sqrt(share * (1 - share) / of + 1 / (of * of))) / (1 + 4 / of);
}

static struct sp_slowest_time exact(uint64_t ns)
{
	return (struct sp_slowest_time){ns != SP_ROOT_VALUE_UNKNOWN, true, 0, (double)ns,
					(double)ns};
}

static struct sp_slowest_time sampled(const struct sp_slowest *x, bool waits,
				      const struct sp_sum *sum)
{
	const struct sp_tally errors = {.by_looks = waits, .read = x->cpu_samples};
	double low = sum->samples != 0 ? 1 - 2 * sp_tally_error(&errors, sum) : 0;

	return (struct sp_slowest_time){sum->ns != 0, false, sum->samples, (double)sum->ns,
					low > 0 ? low * (double)sum->ns : 0};
}

static struct sp_sum sum_of(const struct sp_slowest *x, uint32_t node)
{
	const struct sp_tree_node *n = &x->r.tree.node[node];

	return node != 0 ? (struct sp_sum){n->samples, n->ns} : (struct sp_sum){0, 0};
}

/*
 * The sum of all waits of a request or name. runnable: includes waits for a processor; false if
 * these are known otherwise.
 */
static struct sp_sum sum_of_waits(const struct sp_slowest *x, const uint32_t *node, bool runnable)
{
	struct sp_sum sum = {0, 0};

	for (unsigned part = runnable ? SP_PART_RUNNABLE : SP_PART_LOCK; part < SP_PART_SAMPLED;
	     part++) {
		struct sp_sum one = sum_of(x, node[part]);

		sum.samples += one.samples;
		sum.ns += one.ns;
	}
	return sum;
}

/* The time of a part of the time off the processor that has these looks. */
static struct sp_slowest_time part_of_waits(const struct sp_slowest *x,
					    const struct sp_slowest_request *q,
					    const struct sp_sum *sum)
{
	const struct sp_report_root *root = &x->roots.root[q->root];
	bool has_runnable = root->runnable_ns != SP_ROOT_VALUE_UNKNOWN;
	struct sp_sum all = sum_of_waits(x, q->node, !has_runnable);
	double whole = (double)root->off_cpu_ns;

	if (root->off_cpu_ns == SP_ROOT_VALUE_UNKNOWN || all.samples == 0)
		return sampled(x, true, sum);
	if (has_runnable)
		whole = whole > (double)root->runnable_ns ? whole - (double)root->runnable_ns : 0;
	return (struct sp_slowest_time){sum->samples != 0, true, sum->samples,
					whole * (double)sum->samples / (double)all.samples,
					whole * low_share(sum->samples, all.samples)};
}

struct sp_slowest_time sp_slowest_part(const struct sp_slowest *x,
				       const struct sp_slowest_request *q, enum sp_part part)
{
	struct sp_sum sum = sum_of(x, q->node[part]);

	if (part == SP_PART_CPU)
		return q->cpu;
	return part == SP_PART_RUNNABLE ? q->runnable : part_of_waits(x, q, &sum);
}

static void read_times(const struct sp_slowest *x, struct sp_slowest_request *q)
{
	const struct sp_report_root *root = &x->roots.root[q->root];
	struct sp_sum cpu = sum_of(x, q->node[SP_PART_CPU]);
	struct sp_sum waits = sum_of_waits(x, q->node, true);
	struct sp_sum runnable = sum_of(x, q->node[SP_PART_RUNNABLE]);

	q->cpu = root->cpu_ns != SP_ROOT_VALUE_UNKNOWN ? exact(root->cpu_ns)
						       : sampled(x, false, &cpu);
	q->off_cpu = root->off_cpu_ns != SP_ROOT_VALUE_UNKNOWN ? exact(root->off_cpu_ns)
							       : sampled(x, true, &waits);
	q->runnable = root->runnable_ns != SP_ROOT_VALUE_UNKNOWN ? exact(root->runnable_ns)
								 : part_of_waits(x, q, &runnable);
	q->allocated_bytes = root->allocated_bytes;
	if (q->allocated_bytes == SP_ROOT_VALUE_UNKNOWN && q->sampled_bytes != 0)
		q->allocated_bytes = q->sampled_bytes;
}

/* The next node below `node` after i: with children, the first child of i may be next. 0 = none. */
static uint32_t next_below(const struct sp_tree *t, uint32_t node, uint32_t i, bool children)
{
	i = sp_tree_after(t, i, children);
	return t->node[i].depth > t->node[node].depth ? i : 0;
}

uint32_t sp_slowest_leaf(const struct sp_slowest *x, uint32_t node, uint64_t *samples)
{
	const struct sp_tree *t = &x->r.tree;
	struct {
		uint32_t text;
		uint64_t samples;
	} leaf[16] = {{0, 0}};
	size_t n = 0;
	size_t best = 0;
	size_t k;

	*samples = 0;
	for (uint32_t i = node != 0 ? t->node[node].first : 0; i != 0;) {
		if (t->node[i].first == 0) {
			for (k = 0; k < n && leaf[k].text != t->node[i].text; k++)
				;
			/* With more different leaves, none is likely to have a majority. */
			if (k == sizeof(leaf) / sizeof(leaf[0]))
				return 0;
			n = k == n ? n + 1 : n;
			leaf[k].text = t->node[i].text;
			leaf[k].samples += t->node[i].samples;
		}
		i = next_below(t, node, i, true);
	}
	for (k = 1; k < n; k++)
		if (leaf[k].samples > leaf[best].samples)
			best = k;
	*samples = leaf[best].samples;
	return leaf[best].text;
}

/*
 * The sum of the samples below a node that have a frame with this text. A function that calls
 * itself counts once.
 */
static struct sp_sum sum_below(const struct sp_tree *t, uint32_t node, uint32_t text)
{
	struct sp_sum sum = {0, 0};
	bool is_in;

	for (uint32_t i = node != 0 ? t->node[node].first : 0; i != 0;) {
		is_in = t->node[i].text == text;
		if (is_in) {
			sum.samples += t->node[i].samples;
			sum.ns += t->node[i].ns;
		}
		i = next_below(t, node, i, !is_in);
	}
	return sum;
}

/*
 * Among the frames that most of the samples below a node have: the function of the program nearest
 * to the leaf, or else that of a library. 0 = none.
 */
static uint32_t find_function(const struct sp_tree *t, uint32_t node, struct sp_sum *sum)
{
	uint32_t own = 0, any = 0;

	for (uint32_t i = node != 0 ? t->node[node].first : 0;
	     i != 0 && t->node[i].samples * 2 > t->node[node].samples; i = t->node[i].first) {
		if (t->node[i].kind == SP_FRAME_OWN)
			own = i;
		if (t->node[i].kind == SP_FRAME_OWN || t->node[i].kind == SP_FRAME_LIBRARY)
			any = i;
	}
	if (own != 0)
		any = own;
	*sum = any != 0 ? sum_below(t, node, t->node[any].text) : (struct sp_sum){0, 0};
	return any != 0 ? t->node[any].text : 0;
}

bool sp_slowest_mean(const struct sp_slowest *x, const struct sp_slowest_group *g,
		     enum sp_part part, double *ns)
{
	struct sp_sum sum;

	/* Samples have no service, so the mean is not known if two services have the name. */
	if (!x->is_whole || g->count == SP_ROOT_VALUE_UNKNOWN || g->count == 0 ||
	    x->of_name[g->name] != (uint32_t)(g - x->group) + 1 || g->next != 0 ||
	    part == SP_PART_INACTIVE || (part != SP_PART_CPU && !x->has_waits))
		return false;
	sum = part == SP_PART_OFF_CPU ? sum_of_waits(x, g->node, true) : sum_of(x, g->node[part]);
	*ns = (double)sum.ns / (double)g->count;
	return true;
}

/*
 * Whether the time of a part makes the request slower. of_part: the sum of all requests of the
 * name, if `time` is only a portion of the part; otherwise NULL.
 */
static bool is_cause(const struct sp_slowest *x, const struct sp_slowest_request *q,
		     enum sp_part part, const struct sp_slowest_time *time,
		     const struct sp_sum *of_part)
{
	const struct sp_slowest_group *g = &x->group[q->group];
	double median = g->p50_ns != SP_ROOT_VALUE_UNKNOWN ? (double)g->p50_ns : 0;
	double usual, more;

	if (!sp_slowest_mean(x, g, part, &usual))
		usual = median;
	else if (of_part != NULL)
		usual = (double)of_part->ns / (double)g->count;
	more = time->low_ns - (usual < median ? usual : median);
	return more >= (double)q->slower_by_ns / CAUSE_OF_EXCESS &&
	       more >= median / CAUSE_OF_MEDIAN;
}

/* What took longest comes first, and the shortest is left out where there are too many. */
static void add_cause(struct sp_slowest_causes *all, const struct sp_slowest_cause *c)
{
	unsigned at = all->n;

	while (at > 0 && all->cause[at - 1].time.ns < c->time.ns) {
		if (at < SP_SLOWEST_CAUSES)
			all->cause[at] = all->cause[at - 1];
		at--;
	}
	if (at < SP_SLOWEST_CAUSES)
		all->cause[at] = *c;
	if (all->n < SP_SLOWEST_CAUSES)
		all->n++;
}

/*
 * Judges the time on a processor: as a cause in one function of the program if that function alone
 * is a cause, otherwise as a whole.
 */
static void judge_cpu(const struct sp_slowest *x, struct sp_slowest_request *q)
{
	const struct sp_tree *t = &x->r.tree;
	const struct sp_slowest_group *g = &x->group[q->group];
	struct sp_slowest_cause c = {.part = SP_PART_CPU, .time = q->cpu};
	struct sp_slowest_cause of_function = c;
	struct sp_sum all = sum_of(x, q->node[SP_PART_CPU]);
	struct sp_sum sum, of_name;

	if (!is_cause(x, q, SP_PART_CPU, &c.time, NULL))
		return;
	of_function.function = find_function(t, q->node[SP_PART_CPU], &sum);
	if (of_function.function != 0) {
		of_function.time.samples = sum.samples;
		of_function.time.ns *= (double)sum.samples / (double)all.samples;
		of_function.time.low_ns *= low_share(sum.samples, all.samples);
		of_name = sum_below(t, g->node[SP_PART_CPU], of_function.function);
		if (is_cause(x, q, SP_PART_CPU, &of_function.time, &of_name))
			c = of_function;
	}
	add_cause(&q->causes, &c);
}

/*
 * Judges a kind of waiting. The wait for one holder of a lock may be a cause by itself. Returns
 * whether the kind is a cause.
 */
static bool judge_wait(const struct sp_slowest *x, struct sp_slowest_request *q, enum sp_part part)
{
	const struct sp_tree *t = &x->r.tree;
	const struct sp_slowest_group *g = &x->group[q->group];
	struct sp_slowest_cause c = {.part = part, .time = sp_slowest_part(x, q, part)};
	struct sp_sum sum = sum_of(x, q->node[part]);
	struct sp_sum of_leaf, of_function;
	struct sp_slowest_time time;
	uint64_t samples;
	uint32_t leaf;

	if (!is_cause(x, q, part, &c.time, NULL))
		return false;
	c.function = find_function(t, q->node[part], &of_function);
	leaf = sp_slowest_leaf(x, q->node[part], &samples);
	if (leaf != 0 && part == SP_PART_LOCK) {
		of_leaf = sum_below(t, q->node[part], leaf);
		time = part_of_waits(x, q, &of_leaf);
		of_leaf = sum_below(t, g->node[part], leaf);
		if (is_cause(x, q, part, &time, &of_leaf)) {
			c.leaf = leaf;
			c.time = time;
		}
	} else if (samples * 2 > sum.samples) {
		c.leaf = leaf;
	}
	add_cause(&q->causes, &c);
	return true;
}

/*
 * Judges the time off the processor that no samples explain, and the time in which the request was
 * active on no thread.
 */
static void judge_rest(const struct sp_slowest *x, struct sp_slowest_request *q, bool has_wait)
{
	double active = q->cpu.ns + q->off_cpu.ns;
	struct sp_slowest_cause off = {.part = SP_PART_OFF_CPU, .time = q->off_cpu};
	struct sp_slowest_cause inactive = {.part = SP_PART_INACTIVE};

	if (q->off_cpu.of_exact && !has_wait && is_cause(x, q, SP_PART_OFF_CPU, &off.time, NULL))
		add_cause(&q->causes, &off);
	if (!q->cpu.of_exact || !q->off_cpu.of_exact || active >= (double)q->duration_ns)
		return;
	inactive.time = exact(q->duration_ns - (uint64_t)active);
	if (is_cause(x, q, SP_PART_INACTIVE, &inactive.time, NULL))
		add_cause(&q->causes, &inactive);
}

/* The reason why no cause was found. */
static const char *why_not(const struct sp_slowest *x, const struct sp_slowest_request *q)
{
	const struct sp_tally looks = {.by_looks = true};
	const struct sp_tally samples = {.by_looks = false};
	struct sp_sum waits = sum_of_waits(x, q->node, true);
	struct sp_sum cpu = sum_of(x, q->node[SP_PART_CPU]);

	if (x->r.files == 0)
		return "there are no profiles of that time";
	if (!x->has_waits)
		return "there is no profile of waits (SPANPROF_OFF_CPU=true)";
	if (waits.samples == 0 && cpu.samples == 0)
		return "no sample has its span id (SPANPROF_SPAN_ID_SCOPE)";
	if ((waits.samples == 0 || sp_tally_has_too_few(&looks, &waits)) &&
	    (cpu.samples == 0 || sp_tally_has_too_few(&samples, &cpu)))
		return "too few samples have its span id";
	return "no part of its time explains a third of that beyond chance";
}

static void judge(const struct sp_slowest *x, struct sp_slowest_request *q)
{
	bool has_wait = false;

	read_times(x, q);
	if (q->slower_by_ns == 0)
		return;
	judge_cpu(x, q);
	for (unsigned part = SP_PART_RUNNABLE; part < SP_PART_SAMPLED; part++)
		has_wait |= judge_wait(x, q, (enum sp_part)part);
	judge_rest(x, q, has_wait);
	for (unsigned i = 0; i < q->causes.n; i++)
		if (q->causes.cause[i].part != SP_PART_OFF_CPU)
			return;
	q->why_not = why_not(x, q);
}

/* Where the time was */

/* A smaller part of the duration is not told. */
#define WHERE_PART 20.0

static void add_where(const struct sp_slowest_request *q, struct sp_slowest_causes *out,
		      const struct sp_slowest_cause *c)
{
	if (c->time.is_known && c->time.low_ns > 0 &&
	    c->time.ns * WHERE_PART >= (double)q->duration_ns)
		add_cause(out, c);
}

/* A function that has most of the CPU time is told with its own part of it. */
static void add_where_cpu(const struct sp_slowest *x, const struct sp_slowest_request *q,
			  struct sp_slowest_causes *out)
{
	struct sp_slowest_cause c = {.part = SP_PART_CPU, .time = q->cpu};
	struct sp_sum all = sum_of(x, q->node[SP_PART_CPU]);
	struct sp_sum sum;
	uint32_t function = find_function(&x->r.tree, q->node[SP_PART_CPU], &sum);

	if (function != 0 && sum.samples * 2 > all.samples) {
		c.function = function;
		c.time.samples = sum.samples;
		c.time.ns *= (double)sum.samples / (double)all.samples;
		c.time.low_ns *= low_share(sum.samples, all.samples);
	}
	add_where(q, out, &c);
}

static void add_where_wait(const struct sp_slowest *x, const struct sp_slowest_request *q,
			   enum sp_part part, struct sp_slowest_causes *out)
{
	struct sp_slowest_cause c = {.part = part, .time = sp_slowest_part(x, q, part)};
	struct sp_sum sum = sum_of(x, q->node[part]);
	struct sp_sum of_function;
	uint64_t samples;
	uint32_t leaf = sp_slowest_leaf(x, q->node[part], &samples);

	c.function = find_function(&x->r.tree, q->node[part], &of_function);
	c.leaf = samples * 2 > sum.samples ? leaf : 0;
	add_where(q, out, &c);
}

void sp_slowest_where(const struct sp_slowest *x, const struct sp_slowest_request *q,
		      struct sp_slowest_causes *out)
{
	double active = q->cpu.ns + q->off_cpu.ns;
	struct sp_slowest_cause off = {.part = SP_PART_OFF_CPU, .time = q->off_cpu};
	struct sp_slowest_cause inactive = {.part = SP_PART_INACTIVE};
	struct sp_sum waits = sum_of_waits(x, q->node, true);

	*out = (struct sp_slowest_causes){.n = 0};
	add_where_cpu(x, q, out);
	for (unsigned part = SP_PART_RUNNABLE; part < SP_PART_SAMPLED; part++)
		add_where_wait(x, q, (enum sp_part)part, out);
	if (q->off_cpu.of_exact && waits.samples == 0) {
		off.time.ns -= q->runnable.is_known ? q->runnable.ns : 0;
		add_where(q, out, &off);
	}
	if (q->cpu.of_exact && q->off_cpu.of_exact && active < (double)q->duration_ns) {
		inactive.time = exact(q->duration_ns - (uint64_t)active);
		add_where(q, out, &inactive);
	}
}

/* All of it */

static int say_none(struct sp_slowest *x)
{
	/* A message was printed for each file. */
	x->r.is_told = x->r.files == 0 && x->r.passed != 0;
	if (x->r.is_told)
		return SP_EXIT_DAMAGED;
	if (x->r.files == 0)
		return refuse(x, SP_EXIT_USAGE,
			      "no slow requests found; a program writes them into its folder with "
			      "SPANPROF_SLOW");
	return refuse(x, SP_EXIT_USAGE,
		      x->roots.n == 0 ? "there is no slow request with that name or id, or of that "
					"time"
				      : "no request took as long as that");
}

static int read_all(struct sp_slowest *x, char *const *path)
{
	const struct sp_reading_visitor roots = {load_roots, x, sp_report_is_of_slow_roots};
	const struct sp_reading_visitor profiles = {load_profile, x, NULL};
	const struct sp_reading_visitor times = {load_times, x, sp_report_is_of_times};
	size_t files;
	int err = sp_strtab_init(&x->process) == 0 ? sp_reading_visit(&x->r, path, &roots)
						   : no_memory(x);

	if (err != 0)
		return err;
	select_roots(x);
	err = group_roots(x);
	if (err != 0)
		return err;
	err = choose_requests(x);
	if (err != 0)
		return err;
	if (x->requests == 0)
		return say_none(x);
	err = index_requests(x);
	if (err != 0)
		return err;
	/* Samples of a request may be in intervals before the one in which it ended. */
	x->r.files = 0;
	if (sp_time_window_is_set(&x->o->window))
		x->r.window = (struct sp_time_window){x->from_ns, x->to_ns + 1};
	err = sp_reading_visit(&x->r, path, &profiles);
	files = x->r.files;
	if (err == 0 && x->wants_times)
		err = sp_reading_visit(&x->r, path, &times);
	x->r.files = files;
	if (err != 0)
		return err;
	sort_moments(x);
	if (sp_tree_sort(&x->times) != 0 || sp_tree_sort(&x->r.tree) != 0)
		return no_memory(x);
	find_nodes(x);
	for (uint32_t i = 1; i < x->process.n; i++)
		x->is_whole = x->is_whole && x->first[i].number == 1;
	find_rates(x);
	for (size_t i = 0; i < x->requests; i++)
		judge(x, &x->request[i]);
	return 0;
}

int sp_slowest_read(struct sp_slowest *x, const struct sp_report_options *o, char *const *path,
		    struct sp_strtab *told, const struct sp_slowest_chooser *chooser)
{
	int err;

	*x = (struct sp_slowest){
		.o = o, .chooser = chooser, .is_whole = !sp_time_window_is_set(&o->window)};
	err = sp_reading_init(&x->r, o, told);
	if (err == 0 && sp_tree_init(&x->times) != 0)
		err = no_memory(x);
	x->r.tree.by_span = x->times.by_span = true;
	x->wants_times = o->page != NULL;
	return err == 0 ? read_all(x, path) : err;
}

void sp_slowest_fini(struct sp_slowest *x)
{
	sp_hash_index_fini(&x->by_id);
	sp_hash_index_fini(&x->by_group);
	sp_strtab_fini(&x->process);
	sp_tree_fini(&x->times);
	free(x->moment);
	free(x->first);
	free(x->of_name);
	free(x->request);
	free(x->group);
	sp_report_roots_fini(&x->roots);
	sp_reading_fini(&x->r);
}
