/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tracers of the stand-in, with the original's rules: the two starts do the same through no table,
 * failures leave a message in the tracer, and a tracer that was not started or is not enabled starts
 * nothing. Every call checks that nobody has changed the tracer but for its table.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/haproxy/record.h"

#define KINDS 6

/* A tracer and what it is known to be. */
struct whole {
	struct otelc_tracer tracer;
	int number;
	bool started;
	char text[64]; /* where err points to */
};

static _Atomic int tracers;
#if FIXTURE_API >= 10
static struct otelc_ctx {
	int number;
} the_context = {1};
#endif

static struct whole *whole(const struct otelc_tracer *tracer)
{
	tracer_check(tracer);
	return (struct whole *)tracer->impl;
}

void tracer_check(const struct otelc_tracer *t)
{
	const struct whole *w = t->impl;
	bool ok = &w->tracer == t && strcmp(t->scope_name, "scope") == 0 &&
		  (t->err == NULL || t->err == w->text);

#if FIXTURE_API == 10 || FIXTURE_API == 11
	ok = ok && strcmp(t->yaml_prefix, "prefix") == 0;
#endif
#if FIXTURE_API >= 10
	ok = ok && t->ctx == &the_context;
#endif
	if (!ok) {
		fprintf(stderr, "a tracer is not what it was\n");
		abort();
	}
}

int tracer_failed(struct otelc_tracer *tracer, const char *text)
{
	struct whole *w = whole(tracer);

	snprintf(w->text, sizeof(w->text), "%s", text);
	tracer->err = w->text;
	return OTELC_RET_ERROR;
}

static bool may_start(struct otelc_tracer *tracer, const char *name, bool two_parents, int kind)
{
	if (name == NULL || *name == '\0')
		return tracer_failed(tracer, "Invalid operation name") == OTELC_RET_OK;
	if (two_parents)
		return tracer_failed(tracer, "mutually exclusive") == OTELC_RET_OK;
	if (!whole(tracer)->started)
		return tracer_failed(tracer, "Invalid tracer") == OTELC_RET_OK;
	if (kind < 0 || kind >= KINDS)
		return tracer_failed(tracer, "Invalid span kind") == OTELC_RET_OK;
#if FIXTURE_API >= 10
	return tracer->enabled;
#else
	return true;
#endif
}

static int64_t idx_of(const struct otelc_span *span)
{
	if (span != NULL)
		span_check(span);
	return span != NULL ? span->idx : -1;
}

static struct otelc_span *start_span(struct otelc_tracer *tracer, const char *name)
{
	struct call c = CALL();
	struct otelc_span *span = NULL;

	if (may_start(tracer, name, false, 0))
		span = span_start(tracer, name, NULL);
	call_end(&c, "start_span %d %s \"%s\" -> %" PRId64, whole(tracer)->number, label_of(name),
		 name != NULL ? name : "", idx_of(span));
	return span;
}

static struct otelc_span *start_span_with_options(struct otelc_tracer *tracer, const char *name,
						  const struct otelc_span *parent_span,
						  const struct otelc_span_context *parent_context,
						  const struct timespec *ts_steady,
						  const struct timespec *ts_system, int kind,
						  const struct otelc_span_link *links,
						  size_t links_len)
{
	struct call c = CALL();
	struct otelc_carrier parent;
	struct otelc_span *span = NULL;

	if (parent_span != NULL)
		parent = span_ids(parent_span);
	else if (parent_context != NULL)
		parent = context_ids(parent_context);
	if (may_start(tracer, name, parent_span != NULL && parent_context != NULL, kind))
		span = span_start(tracer, name,
				  parent_span != NULL || parent_context != NULL ? &parent : NULL);
	call_end(&c,
		 "start_span_with_options %d %s \"%s\" %" PRId64
		 " %s %s %s %s %d %s %zu -> %" PRId64,
		 whole(tracer)->number, label_of(name), name != NULL ? name : "",
		 idx_of(parent_span), label_of(parent_span), label_of(parent_context),
		 label_of(ts_steady), label_of(ts_system), kind, label_of(links), links_len,
		 idx_of(span));
	return span;
}

static struct otelc_span_context *extract(struct otelc_tracer *tracer,
					  const struct otelc_carrier *carrier)
{
	struct call c = CALL();
	struct otelc_span_context *context = otelc_span_context_create();

	memcpy(context + 1, carrier, sizeof(*carrier));
	call_end(&c, "extract %d %s", whole(tracer)->number, label_of(carrier));
	return context;
}

static int enabled(struct otelc_tracer *tracer)
{
	struct call c = CALL();
	bool is = may_start(tracer, "x", false, 0);

	call_end(&c, "enabled %d -> %d", whole(tracer)->number, is);
	return is;
}

#if FIXTURE_API >= 10
static int set_enabled(struct otelc_tracer *tracer, bool is)
{
	struct call c = CALL();

	tracer->enabled = is;
	call_end(&c, "set_enabled %d %d", whole(tracer)->number, is);
	return OTELC_RET_OK;
}
#endif

#if FIXTURE_API >= 11
static int set_flush_timeout(struct otelc_tracer *tracer, int milliseconds)
{
	struct call c = CALL();

	call_end(&c, "set_flush_timeout %d %d", whole(tracer)->number, milliseconds);
	return OTELC_RET_OK;
}
#endif

static int force_flush(struct otelc_tracer *tracer, const struct timespec *timeout)
{
	struct call c = CALL();

	call_end(&c, "force_flush %d %s", whole(tracer)->number, label_of(timeout));
	return OTELC_RET_OK;
}

static int shut_down(struct otelc_tracer *tracer, const struct timespec *timeout)
{
	struct call c = CALL();

	whole(tracer)->started = false;
	call_end(&c, "shutdown %d %s", whole(tracer)->number, label_of(timeout));
	return OTELC_RET_OK;
}

static int start(struct otelc_tracer *tracer)
{
	struct call c = CALL();

	whole(tracer)->started = true;
	call_end(&c, "start %d", whole(tracer)->number);
	return OTELC_RET_OK;
}

static void destroy(struct otelc_tracer **tracer)
{
	struct call c = CALL();
	struct whole *w = whole(*tracer);
	int number = w->number;

	memset(w, 0xfe, sizeof(*w));
	free(w);
	*tracer = NULL;
	call_end(&c, "destroy_tracer %d %s", number, label_of(tracer));
}

/* Constant and read-only, one for all tracers, as the original's. */
static const struct otelc_tracer_ops tracer_ops = {
	.start_span = start_span,
	.start_span_with_options = start_span_with_options,
	.extract_text_map = extract,
	.extract_http_headers = extract,
	.enabled = enabled,
#if FIXTURE_API >= 10
	.set_enabled = set_enabled,
#endif
#if FIXTURE_API >= 11
	.set_flush_timeout = set_flush_timeout,
#endif
	.force_flush = force_flush,
	.shutdown = shut_down,
	.start = start,
	.destroy = destroy,
};

static struct otelc_tracer *create(char **err)
{
	struct whole *w;

	if (fixture_mode_is("no_tracer")) {
		*err = strdup("no tracer");
		return NULL;
	}
	w = calloc(1, sizeof(*w));
	if (w == NULL)
		abort();
	w->number = atomic_fetch_add(&tracers, 1) + 1;
	w->tracer.scope_name = "scope";
	w->tracer.impl = w;
	w->tracer.ops = &tracer_ops;
#if FIXTURE_API == 40
	/* nothing that looks like a table may be read */
	w->tracer.not_ops[0] = (const void *)24;
	w->tracer.not_ops[2] = (const void *)40;
#elif FIXTURE_API >= 10
	w->tracer.yaml_prefix = "prefix";
#endif
#if FIXTURE_API >= 10
	w->tracer.enabled = true;
	w->tracer.ctx = &the_context;
#endif
	return &w->tracer;
}

#if FIXTURE_API >= 10
API struct otelc_tracer *otelc_tracer_create(const struct otelc_ctx *ctx, char **err)
{
	struct call c = CALL();
	struct otelc_tracer *tracer = ctx == &the_context ? create(err) : NULL;

	call_end(&c, "create %s %s -> %d", label_of(ctx), label_of(err),
		 tracer != NULL ? whole(tracer)->number : 0);
	return tracer;
}

API struct otelc_ctx *otelc_init(const char *config, char **err)
{
	(void)config;
	(void)err;
	return &the_context;
}

API void otelc_deinit(struct otelc_ctx **ctx)
{
	*ctx = NULL;
}
#else
API struct otelc_tracer *otelc_tracer_create(char **err)
{
	struct call c = CALL();
	struct otelc_tracer *tracer = create(err);

	call_end(&c, "create %s -> %d", label_of(err), tracer != NULL ? whole(tracer)->number : 0);
	return tracer;
}

API int otelc_init(const char *config, char **err)
{
	(void)config;
	(void)err;
	return OTELC_RET_OK;
}

/* This one destroys through the table, as the original does. */
API void otelc_deinit(struct otelc_tracer **tracer)
{
	if (*tracer != NULL)
		(*tracer)->ops->destroy(tracer);
}
#endif

#ifndef FIXTURE_NO_VERSION
API const char *otelc_version(void)
{
	struct call c = CALL();
	const char *version = getenv("FIXTURE_VERSION");

	if (version == NULL)
		version = FIXTURE_RELEASE;
	call_end(&c, "version");
	return version;
}
#endif
