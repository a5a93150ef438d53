/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One SDK as the stories see it. Each driver is linked into a host or opened as a plugin, in every
 * way of linking and loading there is, so nothing in it knows of the profiler.
 */
#ifndef TEST_CONFORMANCE_DRIVER_H
#define TEST_CONFORMANCE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum driver_provider { PROVIDER_SAMPLED, PROVIDER_UNSAMPLED, PROVIDER_NONE };

/* What not every SDK can be asked for. */
enum driver_need {
	NEED_PARENT,    /* a parent among the arguments of the start */
	NEED_AMBIENT,   /* the current span as the parent */
	NEED_ROOT,      /* a root beside a span that is open on the same thread */
	NEED_REMOTE,    /* a parent in another process */
	NEED_SCOPE,     /* attach and detach */
	NEED_END_TWICE, /* a second end of the same span */
	NEED_DESTROY,   /* giving the span back without an end */
	NEED_RENAME,
	NEED_SHUTDOWN,
	NEED_NO_SCOPE, /* starting does not attach */
	NEED_PROVIDER, /* a provider that does not sample, or none */
	NEED_WRAPPER,  /* the SDK hands its spans on to another that is hooked too */
	NEED_HELD,     /* a scope that keeps its span when the handle is given back */
	NEED_CALLBACK, /* attributes and links of the program's own making, which a start reads */
	NEED_STORAGE,  /* a place for what is attached that the program brings itself */
	NEED_ODD,
	NEEDS
};

struct driver_ids {
	uint8_t trace_id[16];
	uint8_t span_id[8];
};

struct driver {
	/* Why the SDK does not have it: the key of a reason in matrix.conf, NULL if it has it. */
	const char *lacks[NEEDS];
	/* Detaching a scope that is not the innermost takes those above it along. */
	bool detach_goes_through;
	/* So does an end, as starting attaches and ending detaches. */
	bool end_goes_through;
	/* Spans started after the shutdown still record, and this test's exporters still take them. */
	bool records_after_shutdown;
	/* A span without a name is none. */
	bool needs_name;

	void (*set_up)(enum driver_provider provider);
	void (*shut_down)(void);
	/*
	 * Each returns a new handle of the driver's own, NULL if the SDK returned none. Where an SDK has
	 * several calls for the same, they take turns.
	 */
	void *(*start)(const char *name, const void *parent);
	void *(*start_ambient)(const char *name);
	void *(*start_remote)(const char *name, const struct driver_ids *parent);
	/* False for a span that has no valid ids. */
	bool (*ids)(const void *span, struct driver_ids *out);
	void (*rename)(void *span, const char *name);
	void (*set_attribute)(void *span, const char *key, const char *value);
	/* With that attribute from the start; NULL = the SDK has no such call. */
	void *(*start_with)(const char *name, const char *key, const char *value);
	/*
	 * Span and attribute test.value, by the way of that number, with the text of the label that it makes, "-" or,
	 * for an array, "[]" if none; no text: there are no more ways. NULL = set_attribute() is all there is.
	 */
	void *(*start_with_value)(const char *name, unsigned way, const char **text);
	const char *(*set_value)(void *span, unsigned way);
	/* The start ends the other span. */
	void *(*start_ending)(const char *name, void *other);
	/* A root that links to that span, and to one of another process. */
	void *(*start_linked)(const char *name, const void *other, const struct driver_ids *far);
	void (*end)(void *span);
	/* Gives back the handle, which the SDK may take for an end. */
	void (*destroy)(void *span);
	/* NULL = no span. Returns the scope, or NULL if the SDK refused. */
	void *(*attach)(const void *span);
	void *(*attach_remote)(const struct driver_ids *far);
	/* Whether the SDK agreed; if not, the scope is still to be detached. */
	bool (*detach)(void *scope);
	/* One for each thread, as the SDK's own is; a deaf one says of whatever is attached that it is not. */
	void (*bring_storage)(bool deaf);
	/*
	 * Calls that the SDK refuses or that have no effect, while that span is active. The driver prints
	 * what came of them.
	 */
	void (*odd)(void *span);
};

/* Variables of the environment that say where ended spans are written; set both. */
#define DRIVER_SPANS_VARIABLES "OTELC_SPANS_JSON", "FIXTURE_SPANS"

__attribute__((visibility("default"))) const struct driver *conformance_driver(void);

#ifdef __cplusplus
}
#endif

#endif
