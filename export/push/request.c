/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One profile as it goes to the server: the labels of its series, and the message in each protocol.
 * A server refuses every profile with a bad label, so labels are checked here, once. Context: the
 * exporter.
 */
#define _GNU_SOURCE
#include "export/push/request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/profile/cut.h"
#include "export/profile/gzip.h"
#include "export/profile/otlp.h"
#include "export/profile/root_values.h"
#include "export/util/containers.h"
#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

#define SP_LABEL_VALUE_MAX 2048U

static int add(struct sp_series *s, const char *name, const char *value, size_t len)
{
	size_t name_len = strlen(name);
	char *at = s->text + s->used;
	size_t n;

	/*
	 * cap is large enough for SP_SERIES_MAX labels, even if cleaning makes every value as long
	 * as possible.
	 */
	if (s->n == SP_SERIES_MAX || s->cap - s->used < name_len + SP_LABEL_VALUE_MAX + 2)
		return -E2BIG;
	memcpy(at, name, name_len + 1);
	n = sp_text_clean(at + name_len + 1, SP_LABEL_VALUE_MAX, value, len);
	at[name_len + 1 + n] = '\0';
	s->label[s->n++] = (struct sp_label){at, at + name_len + 1};
	s->used += name_len + n + 2;
	return 0;
}

static const char *refusal(const struct sp_series *s, const char *name)
{
	const char *reason = sp_label_refusal(name);

	if (reason != NULL)
		return reason;
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->label[i].name, name) == 0)
			return "the name is already taken";
	return s->n == SP_SERIES_MAX ? "there are too many labels" : NULL;
}

/*
 * Whether a label of that name may exist, so that it can be left out: of the series, of samples, or
 * made from an attribute.
 */
static bool may_be_left_out(const struct sp_config *config, const char *name)
{
	static const char *const names[] = {"pid",
					    "hostname",
					    "process_pid",
					    "host_name",
					    "service_namespace",
#define SP_NAME_(name) #name,
					    SP_FOR_EACH_SAMPLE_LABEL(SP_NAME_)
#undef SP_NAME_
	};
	const char *list = config->span_labels;
	char label[SP_LABEL_NAME_MAX];
	const char *key;
	size_t len;

	for (size_t i = 0; i < SP_ARRAY_LEN(names); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	for (size_t i = 0; config->resource_label[i].key != NULL; i++)
		if (sp_label_is(config->resource_label[i].key, name))
			return true;
	if (config->span_latency && strcmp(name, SP_LATENCY_LABEL) == 0)
		return true;
	while (list != NULL && sp_text_next_item(&list, &key, &len)) {
		(void)sp_label_name(label, key, len);
		if (strcmp(label, name) == 0)
			return true;
	}
	return false;
}

static void add_pair(struct sp_series *s, const struct sp_config *config,
		     const struct sp_text_pair *p, sp_series_refused refused, void *arg)
{
	char name[SP_LABEL_NAME_MAX];
	const char *reason;

	if (sp_label_name(name, p->key, p->key_len) == 0)
		reason = "it has no name";
	else if (p->value != NULL && p->value_len == 0 && may_be_left_out(config, name))
		return;
	else if (p->value_len == 0)
		reason = "it has no value";
	else
		reason = refusal(s, name);
	if (reason == NULL && add(s, name, p->value, p->value_len) != 0)
		reason = "there are too many labels";
	if (reason != NULL)
		refused(arg, p->key, p->key_len, reason);
}

/*
 * Adds a label that the user did not name. If there are too many labels, these are the first to be
 * left out.
 */
static void add_spare(struct sp_series *s, const struct sp_config *config,
		      const struct sp_config_attribute *a, sp_series_refused refused, void *arg)
{
	const char *key = a->key, *value = a->value;
	char name[SP_LABEL_NAME_MAX];

	if (sp_label_name(name, key, strlen(key)) == 0 || value == NULL || value[0] == '\0' ||
	    sp_label_is_left_out(config->labels, name))
		return;
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->label[i].name, name) == 0)
			return;
	if (refusal(s, name) != NULL || add(s, name, value, strlen(value)) != 0)
		refused(arg, key, strlen(key), "there are too many labels");
}

static void add_host(struct sp_series *s, const struct sp_config *config, sp_series_refused refused,
		     void *arg)
{
	char host[256] = "";
	const struct sp_config_attribute a = {"hostname", host};

	/* A name that was cut may have no terminator. */
	if (gethostname(host, sizeof(host) - 1) == 0)
		add_spare(s, config, &a, refused, arg);
}

/*
 * Refuses the labels of samples that have the name of a series label: a server would show the
 * series label instead.
 */
static void look_at_span_labels(const struct sp_series *s, const char *keys,
				sp_series_refused refused, void *arg)
{
	char name[SP_SPAN_VALUES_MAX][SP_SPAN_KEY_BYTES + 2];
	const char *key;
	size_t len;

	if (keys == NULL)
		return;
	(void)sp_root_labels(keys, name, NULL, NULL);
	for (unsigned k = 0; k < SP_SPAN_VALUES_MAX && sp_text_next_item(&keys, &key, &len); k++)
		for (size_t i = 0; i < s->n; i++)
			if (sp_label_is(s->label[i].name, name[k]))
				refused(arg, key, len, "a label of the series has this name");
}

int sp_series_init(struct sp_series *s, const struct sp_config *config, uint32_t pid,
		   sp_series_refused refused, void *arg)
{
	const char *service = config->service_name;
	const char *ns = config->service_namespace;
	const char *list = config->labels;
	struct sp_text_pair pair;
	char number[16];

	memset(s, 0, sizeof(*s));
	if (service == NULL || service[0] == '\0')
		service = SP_CONFIG_UNKNOWN_SERVICE;
	s->cap = SP_SERIES_MAX * (size_t)(SP_LABEL_NAME_MAX + SP_LABEL_VALUE_MAX + 2);
	s->text = malloc(s->cap);
	if (s->text == NULL)
		return -ENOMEM;
	/* The server names the profile type after __name__ and the sample types. */
	(void)add(s, "__name__", "process_cpu", strlen("process_cpu"));
	(void)add(s, "pyroscope_spy", "spanprof", strlen("spanprof"));
	(void)add(s, "service_name", service, strlen(service));
	/* This label distinguishes a forked child from its parent. */
	(void)snprintf(number, sizeof(number), "%" PRIu32, pid);
	s->pid = SIZE_MAX;
	if (!sp_label_is_left_out(list, "pid")) {
		s->pid = s->n;
		(void)add(s, "pid", number, strlen(number));
	}
	if (ns != NULL && ns[0] != '\0' && !sp_label_is_left_out(list, "service_namespace"))
		(void)add(s, "service_namespace", ns, strlen(ns));
	while (list != NULL && sp_text_next_pair(&list, &pair))
		add_pair(s, config, &pair, refused, arg);
	add_host(s, config, refused, arg);
	for (size_t i = 0; config->resource_label[i].key != NULL; i++)
		add_spare(s, config, &config->resource_label[i], refused, arg);
	look_at_span_labels(s, config->span_labels, refused, arg);
	if (config->span_latency)
		look_at_span_labels(s, SP_LATENCY_LABEL, refused, arg);
	return 0;
}

/* Attributes of a resource, each key once. */
struct resource {
	struct sp_label *attribute;
	size_t n, cap;
	size_t fixed; /* this many at the beginning are never replaced */
	struct sp_pool text;
};

/*
 * Copies a text, cleaned and NUL-terminated, and decodes it before if it is encoded. NULL without
 * memory.
 */
static char *copy_text(struct resource *r, const char *text, size_t len, bool is_encoded,
		       size_t limit)
{
	char *raw = sp_pool_get(&r->text, len + 1);
	/* Each invalid byte becomes a character of three bytes. */
	size_t most = 3 * len < limit ? 3 * len : limit;
	char *clean = sp_pool_get(&r->text, most + 1);

	if (raw == NULL || clean == NULL)
		return NULL;
	if (is_encoded)
		len = sp_text_unescape(raw, text, len);
	else
		memcpy(raw, text, len);
	clean[sp_text_clean(clean, most, raw, len)] = '\0';
	return clean;
}

static bool is_reserved(const char *key)
{
	char name[SP_LABEL_NAME_MAX];

	(void)sp_label_name(name, key, strlen(key));
	return sp_label_refusal(name) != NULL;
}

/* A later attribute replaces an earlier one with the same key. */
static int put_pair(struct resource *r, const struct sp_text_pair *p, bool is_encoded)
{
	char *key = copy_text(r, p->key, p->key_len, is_encoded, SP_LABEL_NAME_MAX);
	char *value = copy_text(r, p->value, p->value_len, is_encoded, SP_LABEL_VALUE_MAX);
	size_t i = 0;

	if (key == NULL || value == NULL)
		return -ENOMEM;
	if (key[0] == '\0' || value[0] == '\0')
		return 0;
	while (i < r->n && !sp_label_is(r->attribute[i].name, key))
		i++;
	if (i < r->fixed || (r->fixed != 0 && is_reserved(key)))
		return 0;
	if (i == r->n && !SP_GROW(r->attribute, r->cap, ++r->n, SIZE_MAX))
		return -ENOMEM;
	r->attribute[i] = (struct sp_label){key, value};
	return 0;
}

static int put_own(struct resource *r, const char *key, const char *value)
{
	const struct sp_text_pair p = {
		.key = key, .key_len = strlen(key), .value = value, .value_len = strlen(value)};

	return put_pair(r, &p, false);
}

static int put_list(struct resource *r, const char *list, bool is_encoded)
{
	struct sp_text_pair p;
	int err = 0;

	while (err == 0 && list != NULL && sp_text_next_pair(&list, &p))
		if (p.value != NULL)
			err = put_pair(r, &p, is_encoded);
	return err;
}

/* Removes the attributes that the user leaves out. The first one, the service, stays. */
static void leave_out(struct resource *r, const char *list)
{
	size_t kept = 1;

	for (size_t i = 1; i < r->n; i++)
		if (!sp_label_is_left_out(list, r->attribute[i].name))
			r->attribute[kept++] = r->attribute[i];
	r->n = kept;
}

int sp_resource_make(const struct sp_config *config, uint32_t pid, const char *version,
		     struct sp_bytes *out)
{
	const char *service = config->service_name;
	struct resource r = {0};
	char number[16];
	char host[256] = "";
	int err;

	(void)snprintf(number, sizeof(number), "%" PRIu32, pid);
	if (service == NULL || service[0] == '\0')
		service = SP_CONFIG_UNKNOWN_SERVICE;
	err = put_own(&r, "service.name", service);
	if (err == 0 && pid != 0)
		err = put_own(&r, "process.pid", number);
	if (err == 0)
		err = put_own(&r, "telemetry.distro.name", "spanprof");
	if (err == 0)
		err = put_own(&r, "telemetry.distro.version", version);
	r.fixed = r.n;
	/* A name that was cut may have no terminator. */
	if (err == 0 && gethostname(host, sizeof(host) - 1) == 0)
		err = put_own(&r, "host.name", host);
	if (err == 0)
		err = put_list(&r, config->resource_attributes, true);
	if (err == 0)
		err = put_list(&r, config->labels, false);
	if (err == 0)
		leave_out(&r, config->labels);
	if (err == 0)
		err = sp_otlp_resource(r.attribute, r.n, out);
	free(r.attribute);
	sp_pool_fini(&r.text);
	return err;
}

bool sp_series_has_pid(const struct sp_series *s)
{
	return s->pid < s->n;
}

void sp_series_remove_pid(struct sp_series *s)
{
	if (!sp_series_has_pid(s))
		return;
	s->n--;
	memmove(&s->label[s->pid], &s->label[s->pid + 1], (s->n - s->pid) * sizeof(s->label[0]));
	s->pid = SIZE_MAX;
}

void sp_series_fini(struct sp_series *s)
{
	free(s->text);
	memset(s, 0, sizeof(*s));
}

/*
 * Makes the query of the older endpoint, /ingest. Its parameter "name" is "app{label=value,...}"
 * without any escaping (Pyroscope api/model/labelset/labelset.go): the application may contain
 * letters, digits and _.-/ only, and a comma or brace in a value would end it, so these become
 * underscores. The full service name is in the label service_name, which the server prefers.
 */
static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.';
}

static void put_encoded(FILE *f, char c)
{
	char text[3];

	(void)fwrite(text, 1, sp_text_percent(text, c), f);
}

static const char *service_of(const struct sp_series *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->label[i].name, "service_name") == 0)
			return s->label[i].value;
	return SP_CONFIG_UNKNOWN_SERVICE;
}

/*
 * The server trims white space at both ends, and silently drops an empty value, so such a value
 * begins with an underscore instead.
 */
static void put_label(FILE *f, const struct sp_label *l, bool first)
{
	const char *c = l->value;

	put_encoded(f, first ? '{' : ',');
	(void)fprintf(f, "%s%%3D", l->name);
	if (*c != '\0' && (unsigned char)*c <= ' ') {
		put_encoded(f, '_');
		c++;
	}
	for (; *c != '\0'; c++)
		put_encoded(f, *c == ',' || *c == '}' ? '_' : *c);
}

static void put_name(FILE *f, const struct sp_series *s)
{
	bool first = true;

	for (const char *c = service_of(s); *c != '\0'; c++)
		(void)fputc(is_plain(*c) || *c == '/' ? *c : '_', f);
	for (size_t i = 0; i < s->n; i++) {
		/* The server makes these two labels from the sample types and spyName. */
		if (strcmp(s->label[i].name, "__name__") == 0 ||
		    strcmp(s->label[i].name, "pyroscope_spy") == 0)
			continue;
		put_label(f, &s->label[i], first);
		first = false;
	}
	put_encoded(f, '}');
}

int sp_ingest_query(const struct sp_request *r, char **out)
{
	size_t len = 0;
	FILE *f = open_memstream(out, &len);
	bool bad;

	if (f == NULL)
		return -ENOMEM;
	(void)fputs("?name=", f);
	put_name(f, r->series);
	/* Whole seconds: every version of the server reads ten digits as seconds. */
	(void)fprintf(f,
		      "&format=pprof&spyName=spanprof&sampleRate=%" PRIu32
		      "&units=samples&aggregationType=sum&from=%" PRId64 "&until=%" PRId64,
		      r->rate_hz, r->from_ns / (int64_t)SP_NS_PER_S,
		      r->until_ns / (int64_t)SP_NS_PER_S);
	bad = ferror(f) != 0;
	if (fclose(f) != 0 || bad) {
		free(*out);
		*out = NULL;
		return -ENOMEM;
	}
	return 0;
}

/*
 * The profile stays plain inside the compressed request: compressing twice gains nothing. Head and
 * profile are compressed separately, so an already compressed profile is used unchanged.
 */
static int make_push(const struct sp_request *r, struct sp_encoded *profile, struct sp_message *out)
{
	struct sp_label label[SP_SERIES_MAX];
	struct sp_bytes head, packed = {NULL, 0};
	const struct sp_bytes *part[] = {&packed, &profile->packed};
	int err;

	memcpy(label, r->series->label, sizeof(label));
	for (size_t i = 0; i < r->series->n; i++)
		if (strcmp(label[i].name, "__name__") == 0)
			label[i].value = sp_profile_type_row(r->type)->names.series;
	err = sp_pprof_request_head(label, r->series->n, r->id, profile->bytes.len, &head);
	if (err == 0)
		err = sp_encoded_pack(profile);
	if (err == 0)
		err = sp_gzip_pack(&head, &packed);
	if (err == 0)
		err = sp_gzip_join(part, SP_ARRAY_LEN(part), &out->body);
	out->plain = head.len + profile->bytes.len;
	free(head.data);
	free(packed.data);
	return err;
}

static int copy_bytes(const struct sp_bytes *from, struct sp_bytes *to)
{
	to->data = malloc(from->len + 1);
	if (to->data == NULL)
		return -ENOMEM;
	memcpy(to->data, from->data, from->len);
	to->len = from->len;
	return 0;
}

static int make_otlp(const struct sp_request *r, const struct sp_bytes *pprof,
		     struct sp_message *out)
{
	struct sp_bytes converted;
	int err = sp_otlp_make(pprof, r->type, r->resource, &converted);

	if (err != 0)
		return err;
	out->plain = converted.len;
	if (r->compression == SP_COMPRESSION_GZIP) {
		err = sp_gzip_pack(&converted, &out->body);
		free(converted.data);
	} else {
		out->body = converted;
	}
	return err;
}

int sp_request_make(const struct sp_request *r, struct sp_encoded *profile, struct sp_message *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	out->type = r->type;
	out->from_ns = r->from_ns;
	out->until_ns = r->until_ns;
	out->plain = profile->bytes.len;
	if (r->protocol == SP_PROTOCOL_PUSH)
		return make_push(r, profile, out);
	if (r->protocol == SP_PROTOCOL_OTLP)
		return make_otlp(r, &profile->bytes, out);
	err = sp_ingest_query(r, &out->query);
	if (err == 0)
		err = sp_encoded_pack(profile);
	if (err == 0)
		err = copy_bytes(&profile->packed, &out->body);
	if (err != 0)
		sp_message_fini(out);
	return err;
}

/*
 * A whole profile. The body of its first message contains it in pprof, so no second copy is needed.
 * In OTLP the body has another format, so a copy in pprof is kept.
 */
struct sp_whole {
	unsigned holders;
	enum sp_protocol protocol;
	struct sp_message first; /* with the whole profile; its member `whole` is not used */
	struct sp_bytes pprof;   /* only in OTLP; packed with gzip */
	size_t plain;            /* bytes of pprof, or of the first body, before compression */
	uint32_t *counted;       /* the number of samples of each record */
};

static int share(struct sp_message *m, uint32_t more)
{
	if (m->holders == NULL) {
		m->holders = malloc(sizeof(*m->holders));
		if (m->holders == NULL)
			return -ENOMEM;
		*m->holders = 1;
	}
	*m->holders += more;
	return 0;
}

int sp_message_share(struct sp_message *m, unsigned n)
{
	if (share(m, n - 1) != 0)
		return -ENOMEM;
	for (unsigned i = 1; i < n; i++) {
		m[i] = *m;
		if (m->whole != NULL)
			m->whole->holders++;
	}
	return 0;
}

/* Frees the message except its whole. */
static void free_message(struct sp_message *m)
{
	if (m->holders != NULL && --*m->holders != 0)
		return;
	free(m->body.data);
	free(m->query);
	free(m->holders);
}

static void release(struct sp_whole *w)
{
	if (w == NULL || --w->holders != 0)
		return;
	free_message(&w->first);
	free(w->pprof.data);
	free(w->counted);
	free(w);
}

void sp_message_fini(struct sp_message *m)
{
	free_message(m);
	release(m->whole);
	memset(m, 0, sizeof(*m));
}

void sp_message_set_whole(struct sp_message *m, enum sp_protocol protocol,
			  struct sp_encoded *encoded)
{
	size_t bytes = encoded->records * sizeof(*encoded->counted);
	struct sp_whole *w = calloc(1, sizeof(*w));
	int err = w != NULL ? 0 : -ENOMEM;

	m->samples = encoded->samples;
	m->first = 0;
	m->end = encoded->records;
	if (w == NULL)
		return;
	*w = (struct sp_whole){.holders = 1, .protocol = protocol, .plain = m->plain};
	w->counted = malloc(bytes + 1);
	if (w->counted == NULL)
		err = -ENOMEM;
	else if (bytes != 0)
		memcpy(w->counted, encoded->counted, bytes);
	if (err == 0 && protocol == SP_PROTOCOL_OTLP) {
		w->plain = encoded->bytes.len;
		err = sp_encoded_pack(encoded);
		if (err == 0)
			err = copy_bytes(&encoded->packed, &w->pprof);
	} else if (err == 0) {
		err = share(m, 1);
		if (err == 0)
			w->first = *m;
	}
	if (err == 0)
		m->whole = w;
	else
		release(w);
}

static int unpack_whole(const struct sp_whole *w, struct sp_bytes *pprof)
{
	const struct sp_bytes *packed =
		w->protocol == SP_PROTOCOL_OTLP ? &w->pprof : &w->first.body;
	struct sp_bytes plain;
	int err = sp_gzip_unpack(packed->data, packed->len, w->plain, &plain);

	if (err != 0)
		return err;
	if (w->protocol != SP_PROTOCOL_PUSH) {
		*pprof = plain;
		return 0;
	}
	err = sp_pprof_of_request(&plain, pprof);
	free(plain.data);
	return err;
}

int sp_message_cut(const struct sp_message *m, uint32_t first, uint32_t end, struct sp_encoded *out)
{
	struct sp_bytes all;
	int err = m->whole != NULL ? unpack_whole(m->whole, &all) : -ENOENT;

	*out = (struct sp_encoded){.records = end - first};
	if (err != 0)
		return err;
	err = sp_cut(&all, first, end, &out->bytes);
	free(all.data);
	for (uint32_t i = first; err == 0 && i < end; i++)
		out->samples += m->whole->counted[i];
	return err;
}

void sp_message_set_part(struct sp_message *m, const struct sp_message *of, uint32_t first,
			 uint32_t end, uint64_t samples)
{
	m->whole = of->whole;
	m->whole->holders++;
	m->first = first;
	m->end = end;
	m->samples = samples;
}
