/* SPDX-License-Identifier: Apache-2.0 */
/* The stories' way to talk; see tell.h. */
#include "test/haproxy/tell.h"

#include "test/hosts/host.h"

#define KIND_SERVER 2
#define STATUS_OK 1
#define NAME_MAX_BYTES 64

int tell_piece_ms = 1;
struct otelc_tracer *tell_tracer;

#if FIXTURE_API >= 10
static struct otelc_ctx *context;
#endif

void tell_before(void)
{
	errno = 4242;
}

void tell_after(const char *call, long result)
{
	int after = errno;
	const char *error = tell_tracer != NULL ? tell_tracer->err : NULL;

	printf("call %s %ld errno %d error %s\n", call, result, after, error != NULL ? error : "");
}

struct otelc_tracer *tell_create(void)
{
	struct otelc_tracer *tracer;
	char *error = NULL;

#if FIXTURE_API >= 10
	context = otelc_init("config", &error);
	tell_before();
	tracer = otelc_tracer_create(context, &error);
#else
	HOST_CHECK(otelc_init("config", &error) == OTELC_RET_OK);
	tell_before();
	tracer = otelc_tracer_create(&error);
#endif
	tell_after("create", tracer != NULL);
	printf("error %s\n", error != NULL ? error : "");
	free(error);
	return tracer;
}

void tell_deinit(struct otelc_tracer *tracer)
{
	tell_before();
#if FIXTURE_API >= 10
	tracer->ops->destroy(&tracer);
	otelc_deinit(&context);
#else
	otelc_deinit(&tracer);
#endif
	tell_tracer = NULL;
	tell_after("deinit", tracer == NULL);
}

static struct otelc_span *started(const char *call, const char *name, const char *root,
				  struct otelc_span *span)
{
	tell_after(call, span != NULL);
	if (root != NULL)
		printf("span %s %s\n", name, root);
	return span;
}

/* Whoever keeps the pointer to the name, not the name, finds something else there. */
static const char *lent(char *room, const char *name)
{
	snprintf(room, NAME_MAX_BYTES, "%s", name);
	return room;
}

static void taken_back(char *room)
{
	memset(room, 'x', NAME_MAX_BYTES - 1);
}

struct otelc_span *tell_start(const char *name, const char *root)
{
	char room[NAME_MAX_BYTES];
	const char *text = lent(room, name);
	struct otelc_span *span;

	tell_before();
	span = tell_tracer->ops->start_span(tell_tracer, text);
	span = started("start_span", name, root, span);
	taken_back(room);
	return span;
}

static struct otelc_span *start_with_options(const char *name, const char *root,
					     const struct otelc_span *parent,
					     const struct otelc_span_context *from)
{
	struct timespec steady = {1, 2};
	struct timespec system = {3, 4};
	struct otelc_span_link link = {.context = from};
	char room[NAME_MAX_BYTES];
	const char *text = lent(room, name);
	struct otelc_span *span;

	tell_before();
	span = tell_tracer->ops->start_span_with_options(tell_tracer, text, parent, from, &steady,
							 &system, KIND_SERVER, &link, 1);
	span = started("start_span_with_options", name, root, span);
	taken_back(room);
	return span;
}

struct otelc_span *tell_child(const char *name, const char *root, const struct otelc_span *parent)
{
	return start_with_options(name, root, parent, NULL);
}

struct otelc_span *tell_from(const char *name, const char *root,
			     const struct otelc_span_context *from)
{
	return start_with_options(name, root, NULL, from);
}

void tell_rename(const struct otelc_span *span, const char *name, const char *root)
{
	char room[NAME_MAX_BYTES];
	const char *text = lent(room, name);

	tell_before();
	span->ops->set_operation_name(span, text);
	tell_after("set_operation_name", 0);
	taken_back(room);
	if (root != NULL)
		printf("span %s %s\n", name, root);
}

void tell_end(struct otelc_span *span)
{
	tell_before();
	span->ops->end(&span);
	tell_after("end", span == NULL);
}

void tell_end_with_options(struct otelc_span *span)
{
	struct timespec steady = {5, 6};
	const char *description = "fine";

	tell_before();
	span->ops->end_with_options(&span, &steady, STATUS_OK, description);
	tell_after("end_with_options", span == NULL);
}

void tell_destroy(struct otelc_span *span)
{
	tell_before();
	span->ops->destroy(&span);
	tell_after("destroy", span == NULL);
}

struct otelc_span_context *tell_extract(const struct otelc_carrier *carrier)
{
	struct otelc_span_context *from;

	tell_before();
	from = tell_tracer->ops->extract_http_headers(tell_tracer, carrier);
	tell_after("extract", from != NULL);
	return from;
}
