/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One SDK as the stories see it. Each driver is linked into a host or opened as a plugin, in every way of linking and
 * loading, so it does not know the profiler.
 */
#ifndef TEST_CONFORMANCE_DRIVER_H
#define TEST_CONFORMANCE_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum driver_provider { PROVIDER_SAMPLED, PROVIDER_UNSAMPLED, PROVIDER_NONE };

/* Features that some SDKs do not have. */
enum driver_need {
	NEED_PARENT,    /* a parent among the arguments of the start */
	NEED_AMBIENT,   /* the current span becomes the parent */
	NEED_ROOT,      /* a root beside a span that is open on the same thread */
	NEED_REMOTE,    /* a parent in another process */
	NEED_SCOPE,     /* attach and detach */
	NEED_END_TWICE, /* a second end of the same span */
	NEED_DESTROY,   /* releasing the span without an end */
	NEED_RENAME,
	NEED_SHUTDOWN,
	NEED_NO_SCOPE, /* starting does not attach */
	NEED_PROVIDER, /* a provider that does not sample, or none */
	NEED_WRAPPER,  /* the SDK passes its spans on to another hooked SDK */
	NEED_HELD,     /* a scope that keeps its span when the handle is released */
	NEED_CALLBACK, /* attributes in an object of the program's, which a start reads */
	NEED_LINKS,    /* links among the arguments of the start */
	NEED_STORAGE,  /* a storage for attached contexts that the program supplies */
	NEED_ODD,
	NEED_STATUS, /* a call for the status of a span */
	NEEDS
};

struct driver_ids {
	uint8_t trace_id[16];
	uint8_t span_id[8];
};

struct driver {
	/* Why the SDK does not have it: the key of a reason in matrix.conf, NULL if it has it. */
	const char *lacks[NEEDS];
	/* Detaching a scope that is not the innermost also detaches those above it. */
	bool detach_goes_through;
	/* An end does the same, because starting attaches and ending detaches. */
	bool end_goes_through;
	/* Spans that start after the shutdown are still recorded, and this test's exporters still take them. */
	bool records_after_shutdown;
	/* A start without a name gives no span. */
	bool needs_name;

	void (*set_up)(enum driver_provider provider);
	void (*shut_down)(void);
	/*
	 * Each returns a new handle of the driver's own, NULL if the SDK returned none. If an SDK has several calls
	 * for one purpose, the driver uses them in turn.
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
	 * Starts a span with the attribute test.value, by the way with that number. *text is the text of the label,
	 * "-" or, for an array, "[]" if there is no label; NULL = there are no more ways. NULL = the SDK has only
	 * set_attribute().
	 */
	void *(*start_with_value)(const char *name, unsigned way, const char **text);
	const char *(*set_value)(void *span, unsigned way);
	/* The status becomes error, or OK. */
	void (*set_status)(void *span, bool is_error);
	/* The start ends the other span. */
	void *(*start_ending)(const char *name, void *other);
	/*
	 * A root with links to that span and to a span of another process, which is also its parent if it is remote.
	 */
	void *(*start_linked)(const char *name, const void *other, const struct driver_ids *far,
			      bool is_remote);
	void (*end)(void *span);
	/* Releases the handle, which the SDK may take for an end. */
	void (*destroy)(void *span);
	/* NULL = no span. Returns the scope, or NULL if the SDK refused. */
	void *(*attach)(const void *span);
	void *(*attach_remote)(const struct driver_ids *far);
	/* Whether the SDK agreed; if not, the scope still has to be detached. */
	bool (*detach)(void *scope);
	/*
	 * A storage with one stack for each thread, like the SDK's own; a deaf one always answers that nothing is
	 * attached.
	 */
	void (*bring_storage)(bool deaf);
	/*
	 * Calls that the SDK refuses or that have no effect, while that span is active. The driver prints their
	 * results.
	 */
	void (*odd)(void *span);
};

/* Environment variables with the file for ended spans; set both. */
#define DRIVER_SPANS_VARIABLES "OTELC_SPANS_JSON", "FIXTURE_SPANS"

__attribute__((visibility("default"))) const struct driver *conformance_driver(void);

#ifdef __cplusplus
}
#endif

#endif
