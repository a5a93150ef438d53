/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing and queueing of faults; see faults.h. */
#include "test/pyroscope/faults.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DRIP_BYTES_MAX 4096U
#define DRIP_INTERVAL_MS_MAX 10000U
#define HUGE_BYTES_MAX UINT32_MAX

static const char *const names[] = {
	[PD_FAULT_NONE] = "none",
	[PD_FAULT_STATUS] = "status",
	[PD_FAULT_CLOSE_MID_RESPONSE] = "close_mid_response",
	[PD_FAULT_RESET] = "reset",
	[PD_FAULT_SLOW_DRIP] = "slow_drip",
	[PD_FAULT_BLACKHOLE] = "blackhole",
	[PD_FAULT_HUGE_BODY] = "huge_body",
	[PD_FAULT_GARBAGE] = "garbage",
	[PD_FAULT_REDIRECT] = "redirect",
	[PD_FAULT_BOMB] = "bomb",
	[PD_FAULT_RESET_EARLY] = "reset_early",
	[PD_FAULT_STORED_RESET] = "stored_reset",
	[PD_FAULT_REJECTED] = "rejected",
};

const char *pd_fault_name(enum pd_fault_kind kind)
{
	return names[kind];
}

static enum pd_fault_kind kind_of(const char *key)
{
	for (unsigned k = PD_FAULT_STATUS; k <= PD_FAULT_REJECTED; k++)
		if (strcmp(names[k], key) == 0)
			return (enum pd_fault_kind)k;
	return PD_FAULT_NONE;
}

static int bad(struct pd_error *e, const char *key, const char *value)
{
	return pd_error_set(e, PD_INVALID_ARGUMENT, "bad_fault", "bad fault: '%s' = '%s'", key,
			    value);
}

static bool number(const char *text, unsigned min, unsigned max, unsigned *out)
{
	char *end = NULL;
	unsigned long n = strtoul(text, &end, 10);

	if (text[0] < '0' || text[0] > '9' || *end != '\0' || n < min || n > max)
		return false;
	*out = (unsigned)n;
	return true;
}

static bool text_fits(const char *text, char *out, size_t size)
{
	if (text[0] == '\0' || strlen(text) >= size)
		return false;
	memcpy(out, text, strlen(text) + 1);
	return true;
}

static bool set_kind(struct pd_fault *f, enum pd_fault_kind kind, const char *value)
{
	/* Two kinds may be given together only for a redirect with a status. */
	if (kind == PD_FAULT_STATUS) {
		if (f->kind == PD_FAULT_NONE)
			f->kind = kind;
		return (f->kind == kind || f->kind == PD_FAULT_REDIRECT) &&
		       number(value, 200, 599, &f->status);
	}
	if (f->kind != PD_FAULT_NONE && !(f->kind == PD_FAULT_STATUS && kind == PD_FAULT_REDIRECT))
		return false;
	f->kind = kind;
	return kind != PD_FAULT_REDIRECT || text_fits(value, f->location, sizeof(f->location));
}

static int set_key(struct pd_fault *f, const char *key, const char *value, struct pd_error *e)
{
	enum pd_fault_kind kind = kind_of(key);
	unsigned bytes = 0;
	bool ok = false;

	if (kind != PD_FAULT_NONE) {
		ok = set_kind(f, kind, value);
	} else if (strcmp(key, "retry_after") == 0) {
		ok = number(value, 1, 86400, &f->retry_after);
	} else if (strcmp(key, "count") == 0) {
		ok = number(value, 0, 1000000, &f->count);
	} else if (strcmp(key, "interval_ms") == 0) {
		ok = number(value, 1, DRIP_INTERVAL_MS_MAX, &f->interval_ms);
	} else if (strcmp(key, "bytes") == 0) {
		ok = number(value, 1, HUGE_BYTES_MAX, &bytes);
		f->bytes = bytes;
	} else if (strcmp(key, "path") == 0) {
		ok = text_fits(value, f->path, sizeof(f->path));
	}
	return ok ? 0 : bad(e, key, value);
}

static int add(struct pd_faults *faults, struct pd_fault *f, struct pd_error *e)
{
	if (f->kind == PD_FAULT_NONE)
		return bad(e, "kind", "missing");
	if (faults->len == PD_FAULTS_MAX)
		return bad(e, "count", "too many faults are waiting");
	if (f->kind == PD_FAULT_SLOW_DRIP && f->bytes > DRIP_BYTES_MAX)
		return bad(e, "bytes", "too many to drip");
	if (f->kind == PD_FAULT_REDIRECT && f->status == 0)
		f->status = 302;
	if (f->interval_ms == 0)
		f->interval_ms = 100;
	if (f->bytes == 0)
		f->bytes = f->kind == PD_FAULT_HUGE_BODY ? 64U << 20 : 32;
	faults->at[faults->len++] = *f;
	return 0;
}

int pd_faults_add_spec(struct pd_faults *f, const char *spec, struct pd_error *e)
{
	struct pd_fault fault = {.count = 1};
	char *copy = strdup(spec);
	char *rest = copy;
	char *pair = NULL;
	int rc = 0;

	while (rc == 0 && (pair = strsep(&rest, ",")) != NULL) {
		char *value = strchr(pair, '=');

		if (value != NULL)
			*value++ = '\0';
		rc = set_key(&fault, pair, value != NULL ? value : "", e);
	}
	free(copy);
	return rc == 0 ? add(f, &fault, e) : rc;
}

static int add_object(struct pd_faults *f, json_t *j, struct pd_error *e)
{
	struct pd_fault fault = {.count = 1};
	const char *key = NULL;
	json_t *value = NULL;
	int rc = 0;

	if (!json_is_object(j))
		return bad(e, "body", "not an object");
	json_object_foreach(j, key, value)
	{
		char digits[32];
		const char *text = json_is_string(value) ? json_string_value(value) : "";

		if (json_is_integer(value)) {
			snprintf(digits, sizeof(digits), "%lld",
				 (long long)json_integer_value(value));
			text = digits;
		}
		rc = set_key(&fault, key, text, e);
		if (rc != 0)
			break;
	}
	return rc == 0 ? add(f, &fault, e) : rc;
}

int pd_faults_add_json(struct pd_faults *f, json_t *j, struct pd_error *e)
{
	size_t before = f->len;

	if (!json_is_array(j))
		return add_object(f, j, e);
	for (size_t i = 0; i < json_array_size(j); i++)
		if (add_object(f, json_array_get(j, i), e) != 0) {
			f->len = before;
			return -1;
		}
	return 0;
}

static bool is_push_path(const char *path)
{
	return strcmp(path, "/push.v1.PusherService/Push") == 0 || strcmp(path, "/ingest") == 0 ||
	       strcmp(path, "/pyroscope/ingest") == 0 ||
	       strcmp(path, "/v1development/profiles") == 0;
}

/* The oldest fault for this path; NULL = none. */
static struct pd_fault *oldest(struct pd_faults *f, const char *path)
{
	for (size_t i = 0; i < f->len; i++) {
		struct pd_fault *fault = &f->at[i];

		if (fault->path[0] != '\0' ? strcmp(fault->path, path) == 0 : is_push_path(path))
			return fault;
	}
	return NULL;
}

bool pd_faults_take(struct pd_faults *f, const char *path, struct pd_fault *out)
{
	struct pd_fault *fault = oldest(f, path);

	if (fault == NULL)
		return false;
	*out = *fault;
	f->served++;
	/* A fault whose last request this is leaves the queue; one with count 0 stays. */
	if (fault->count == 1) {
		memmove(fault, fault + 1, (size_t)(f->at + f->len - fault - 1) * sizeof(*fault));
		f->len--;
	} else if (fault->count > 1) {
		fault->count--;
	}
	return true;
}

bool pd_faults_early(struct pd_faults *f, const char *path)
{
	const struct pd_fault *fault = oldest(f, path);

	return fault != NULL && fault->kind == PD_FAULT_RESET_EARLY;
}

void pd_faults_fini(struct pd_faults *f)
{
	f->len = 0;
	f->releases++;
}
