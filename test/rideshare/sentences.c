/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sentences of sentences.h: "578 ms, 545 ms more than the median of OrderVehicle /scooter: 302
 * ms waiting for a socket (recvfrom) in ask_the_bank, 243 ms waiting for a lock held by
 * OrderVehicle /scooter in ask_the_bank".
 */
#define _GNU_SOURCE
#include "test/rideshare/sentences.h"

#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/rideshare/input.h"

/*
 * A look at waits comes every 20 ms, and a wait has two ends. On a busy machine looks come late, by
 * up to a share of the order.
 */
#define WAIT_MS 40.0
#define WAIT_PART 0.2
/*
 * The server's clock is read next to the begin and the end of the span. A sentence has three
 * digits.
 */
#define DURATION_MS 10.0
#define DURATION_PART 0.02
/* How many standard errors chance may move a share of looks. */
#define ERRORS 3.0

/* One sentence, and what the server measured for its order, in milliseconds. */
struct order {
	const json_t *request;
	const json_t *span;
	double whole, cpu, ledger, bank;
};

struct figure {
	const char *what; /* the words behind it */
	int length;       /* of these */
	int is_a_part;    /* of the truth */
	double said, truth, most;
};

static double ms_of(const json_t *span, const char *key)
{
	return input_nested(span, "attributes", key) / 1e6;
}

/* "412 ms": the time, and what follows it. NULL: there is no time. */
static const char *read_time(const char *text, double *ms)
{
	static const struct {
		const char *unit;
		double ms;
	} units[] = {{" us", 1e-3}, {" ms", 1}, {" s", 1e3}};
	char *end;
	double n;

	if (strncmp(text, "about ", strlen("about ")) == 0)
		text += strlen("about ");
	n = strtod(text, &end);
	for (size_t i = 0; end != text && i < sizeof(units) / sizeof(units[0]); i++) {
		size_t len = strlen(units[i].unit);

		if (strncmp(end, units[i].unit, len) == 0 && strchr(" ,", end[len]) != NULL) {
			*ms = n * units[i].ms;
			return end + len;
		}
	}
	return NULL;
}

static int begins(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/*
 * How far chance may move the part of the waits that such looks find: the share of a binomial
 * distribution.
 */
static double chance_ms(const struct order *o, double part)
{
	double waits = o->ledger + o->bank;
	double share = waits > 0 ? part / waits : 0;
	double looks = 0;
	const json_t *wait;
	size_t i;

	json_array_foreach(json_object_get(o->request, "waits"), i, wait)
	{
		looks += input_number(wait, "samples");
	}
	return looks > 0 && share < 1 ? ERRORS * waits * sqrt(share * (1 - share) / looks) : 0;
}

/* What the server measured of it. */
static void compare_with(const struct order *o, struct figure *f)
{
	f->most = fmax(WAIT_MS, o->whole * WAIT_PART);
	if (begins(f->what, "waiting for a lock")) {
		f->truth = o->ledger;
		f->most += chance_ms(o, o->ledger);
	} else if (begins(f->what, "waiting for a socket")) {
		f->truth = o->bank;
		f->most += chance_ms(o, o->bank);
	} else if (begins(f->what, "waiting for a CPU")) {
		f->truth = o->whole - o->cpu - o->ledger - o->bank;
	} else if (begins(f->what, "off the CPU")) {
		f->truth = o->whole - o->cpu;
	} else if (begins(f->what, "on a CPU")) {
		f->truth = o->cpu;
	} else if (begins(f->what, "in ")) {
		/* One function. */
		f->is_a_part = 1;
		f->truth = o->cpu;
	}
}

static void take(const struct figure *f, struct sentences_result *out)
{
	double off = f->is_a_part ? fmax(0, f->said - f->truth) : fabs(f->said - f->truth);

	printf("     %-66.*s %7.1f ms %9.1f ms\n", f->length, f->what, f->said, f->truth);
	out->figures++;
	out->wrong += off > f->most;
	if (out->most_ms <= 0 || off / f->most > out->off_ms / out->most_ms) {
		out->off_ms = off;
		out->most_ms = f->most;
	}
}

static int is_wrong_holder(const struct order *o, const char *what)
{
	static const char held[] = "waiting for a lock held by ";
	const char *truth =
		input_text(json_object_get(o->span, "attributes"), "ride.ledger_holder");

	return begins(what, held) && (truth[0] == '\0' || !begins(what + strlen(held), truth));
}

/* The causes behind the colon. Returns how many there are. */
static unsigned take_causes(const struct order *o, const char *sentence,
			    struct sentences_result *out)
{
	const char *at = strstr(sentence, ": ");
	unsigned causes = 0;

	while (at != NULL) {
		struct figure f = {.truth = 0};

		f.what = read_time(at + 2, &f.said);
		if (f.what == NULL || *f.what != ' ')
			break;
		f.what++;
		at = strstr(f.what, ", ");
		f.length = at != NULL ? (int)(at - f.what) : (int)strcspn(f.what, ";\n");
		compare_with(o, &f);
		take(&f, out);
		out->wrong_holders += is_wrong_holder(o, f.what) != 0;
		causes++;
	}
	return causes;
}

static void take_sentence(const struct order *o, const char *sentence, struct sentences_result *out)
{
	struct figure f = {.what = "from its begin to its end", .length = 66, .truth = o->whole};

	f.most = fmax(DURATION_MS, o->whole * DURATION_PART);
	if (o->span == NULL || o->whole <= 0 || read_time(sentence, &f.said) == NULL) {
		out->missing++;
		return;
	}
	take(&f, out);
	out->missing += take_causes(o, sentence, out) == 0;
}

static struct order order_of(const json_t *request, const json_t *spans)
{
	struct order o = {.request = request};

	o.span = json_object_get(spans, input_text(request, "span_id"));
	o.whole = ms_of(o.span, "ride.order_ns");
	o.cpu = ms_of(o.span, "ride.cpu_ns");
	o.ledger = ms_of(o.span, "ride.ledger_ns");
	o.bank = ms_of(o.span, "ride.bank_ns");
	return o;
}

void sentences_print(const json_t *slowest, const json_t *spans, const char *printed,
		     struct sentences_result *out)
{
	FILE *file = fopen(printed, "re");
	char *line = NULL;
	size_t size = 0;

	*out = (struct sentences_result){.sentences = 0};
	if (file == NULL)
		err(1, "%s", printed);
	printf("\n     %-66s %10s %12s\n", "", "says", "server");
	while (getline(&line, &size, file) > 0) {
		const json_t *request =
			json_array_get(json_object_get(slowest, "requests"), out->sentences);
		const char *sentence = input_text(request, "sentence");
		char *end;

		/* "1. 578 ms, ..." */
		if (strtoul(line, &end, 10) != out->sentences + 1U || !begins(end, ". "))
			continue;
		end[strcspn(end, "\n")] = '\0';
		if (request == NULL || strcmp(end + 2, sentence) != 0)
			continue;
		out->sentences++;
		printf("  %u. %s\n", out->sentences, input_text(request, "span_name"));
		struct order o = order_of(request, spans);

		take_sentence(&o, end + 2, out);
	}
	free(line);
	fclose(file);
}
