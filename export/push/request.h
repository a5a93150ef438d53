/* SPDX-License-Identifier: Apache-2.0 */
/* One profile as it goes to the server, in each protocol. */
#ifndef SP_REQUEST_H
#define SP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/encoded.h"
#include "export/profile/pprof.h"
#include "sampler/config/config.h"

/* The server allows 30 label names per series; five remain for the labels of samples. */
#define SP_SERIES_MAX 25U

/* The labels of the series that all profiles of a process belong to. */
struct sp_series {
	struct sp_label label[SP_SERIES_MAX];
	size_t n;
	/* index of the label pid that we add; SIZE_MAX = none */
	size_t pid;
	char *text; /* names and values of all labels */
	size_t used;
	size_t cap;
};

/* Called for a label that cannot be used; name is not NUL-terminated. */
typedef void (*sp_series_refused)(void *arg, const char *name, size_t len, const char *reason);

/*
 * Makes the labels of a process: __name__, service_name, pid, hostname, additional labels of
 * SPANPROF_LABELS, and resource attributes that become labels. SPANPROF_LABELS may also leave
 * labels out (sp_label_is_left_out()). If two labels have the same name, the user's counts. Names
 * are made safe for every version of the server, values are cleaned and cut. 0 or -ENOMEM; call
 * sp_series_fini() after either.
 */
int sp_series_init(struct sp_series *s, const struct sp_config *config, uint32_t pid,
		   sp_series_refused refused, void *arg);
void sp_series_fini(struct sp_series *s);

/* Whether the series has the label pid that we add. */
bool sp_series_has_pid(const struct sp_series *s);
void sp_series_remove_pid(struct sp_series *s);

/*
 * Makes the resource for OTLP, packed: the service, all resource attributes of the program, those
 * that SPANPROF_LABELS adds, host and process. pid: 0 = without one. 0 or -ENOMEM; free out->data.
 */
int sp_resource_make(const struct sp_config *config, uint32_t pid, const char *version,
		     struct sp_bytes *out);

/* At most this many requests are under way at a time. */
#define SP_TRANSFERS 16U

/* A whole profile, from which parts are cut if a server finds it too large. Messages hold it. */
struct sp_whole;

struct sp_message {
	enum sp_profile_type type;
	uint64_t samples; /* number of samples in the profile */
	/*
	 * The message has the records first to end - 1 of this profile, and holds it. NULL = it
	 * cannot be cut.
	 */
	struct sp_whole *whole;
	uint32_t first;
	uint32_t end;
	struct sp_bytes body;
	size_t plain;      /* bytes of the body before compression */
	char *query;       /* follows the path of the URL, begins with '?'; NULL = none */
	uint32_t *holders; /* how many messages share body and query; NULL = only this one */
	/* Beginning and end of the profile. The end is when the first message was made from it. */
	int64_t from_ns;
	int64_t until_ns;
};

struct sp_request {
	enum sp_protocol protocol;
	enum sp_compression compression; /* of OTLP */
	const struct sp_series *series;
	const struct sp_bytes *resource; /* of OTLP */
	enum sp_profile_type type;       /* gives the series its name */
	const char *id;                  /* for the server's log */
	int64_t from_ns;
	int64_t until_ns;
	uint32_t rate_hz;
};

/*
 * Makes a message with the profile in the format of the protocol; packs the profile if necessary.
 * The message has no record numbers and no whole. 0 or -ENOMEM; after an error sp_message_fini() is
 * not needed, but harmless.
 */
int sp_request_make(const struct sp_request *r, struct sp_encoded *profile, struct sp_message *out);
void sp_message_fini(struct sp_message *m);

/*
 * Makes the encoded profile the message's whole; the message was made from it. If there is no
 * memory, the message has no whole, so it cannot be cut.
 */
void sp_message_set_whole(struct sp_message *m, enum sp_protocol protocol,
			  struct sp_encoded *encoded);

/*
 * Cuts the records first to end - 1 out of the message's whole profile: their bytes, number and
 * samples. 0, -ENOENT if it has no whole, -ENOMEM, or -EINVAL. Call sp_encoded_fini() after either.
 */
int sp_message_cut(const struct sp_message *m, uint32_t first, uint32_t end,
		   struct sp_encoded *out);
/* Says that m has those records, of the whole profile of the message `of`. */
void sp_message_set_part(struct sp_message *m, const struct sp_message *of, uint32_t first,
			 uint32_t end, uint64_t samples);

/*
 * Makes n - 1 copies of the first message, which share one body. Each needs sp_message_fini(). 0 or
 * -ENOMEM.
 */
int sp_message_share(struct sp_message *m, unsigned n);

/*
 * Makes the query of POST /ingest, "?name=...", which has the labels of the series. The caller
 * frees it. 0 or -ENOMEM.
 */
int sp_ingest_query(const struct sp_request *r, char **out);

#endif
