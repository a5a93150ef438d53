/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue with a clock and a server that the test controls. A message is its name and one byte per record; each
 * record is a sample. A request with several profiles is their messages in a row.
 */
#ifndef SP_PUSH_UNIT_H
#define SP_PUSH_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core_double.h"
#include "export/push/push.h"

struct push_unit {
	struct sp_push *push;
	struct sp_origin origin;
	struct sp_origin other[32];
	uint64_t now;
	uint64_t interval_ms;       /* upload interval, set before push_start() */
	uint32_t types;             /* number of types, set before push_start() */
	uint64_t dice;              /* the result of random() */
	uint64_t dice_step;         /* added to it each time */
	struct sp_reply answer[32]; /* one after the other; the last one repeats */
	unsigned answers;
	char sent[4096]; /* the name of each request's first profile, in order; '0' = an empty
                         * push */
	unsigned posts;
	uint32_t timeout_seen;
	uint64_t post_takes_ns; /* time of a request, if requests run one after the other */
	uint64_t answer_ns;     /* time until a request is answered, however many run */
	bool joins;             /* several profiles in a request; set before push_start() */
	uint32_t most_joined;   /* the most profiles in one request */
	struct transfer {
		struct sp_message message;
		const uint8_t *body; /* NULL = the slot is free */
		char name;
		unsigned number; /* of the request */
		uint64_t begun;
	} transfer[SP_TRANSFERS];
	unsigned under_way;
	unsigned most_under_way;
	bool hangs;    /* no answer comes yet */
	bool all_sent; /* a request that is stopped was sent completely */
	/* Gives the answers if it is set. */
	void (*server)(const struct sp_message *message, struct sp_reply *reply);
	size_t plain;   /* size of each profile in bytes */
	unsigned cuts;  /* parts that were cut */
	bool no_memory; /* there is no memory for a part */
};

extern struct push_unit u;

void push_start(uint32_t capacity, uint32_t max_tries);
void push_finish(void);

/* A whole flush: runs whenever something is due, until nothing more can happen. */
void push_flush(bool is_awaited, uint32_t ms);

/* The next answer. */
void push_status(int code);
void push_unreachable(void);
void push_no_answer(bool all_sent);
void push_answer(struct sp_reply *reply, int code, const char *words);

void push_put(char name, uint64_t samples); /* one record of that many samples */
void push_put_of(unsigned process, char name, uint64_t samples);
void push_put_records(char name, uint32_t records);
void push_put_type(enum sp_profile_type type);
void push_put_type_of(unsigned process, enum sp_profile_type type);
void push_put_until(char name, int64_t until_ns); /* by the clock that the system may set */
void push_put_aged(char name, uint64_t age_s);

/* Ends the interval: losses are reported. */
void push_tell(void);
unsigned push_lines_with(const char *part);

#endif
