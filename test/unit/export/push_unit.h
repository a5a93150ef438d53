/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue with a clock and a server that the test turns by hand. A message is its name and one byte
 * per record; each record is a sample.
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
	uint64_t interval_ms;       /* of the uploads, before push_start() */
	uint32_t types;             /* of profiles, before push_start() */
	uint64_t dice;              /* what random() says */
	uint64_t dice_step;         /* added each time */
	struct sp_reply answer[32]; /* in turn; the last one repeats */
	unsigned answers;
	char sent[4096]; /* the name of each request, in order */
	unsigned posts;
	uint32_t timeout_seen;
	uint64_t post_takes_ns; /* one after the other */
	uint64_t answer_ns;     /* after that each is answered, however many there are */
	uint32_t rests;
	uint64_t open_until; /* the transport's connections; 0 = none is */
	struct transfer {
		struct sp_message message;
		const uint8_t *body; /* NULL = none is in this slot */
		char name;
		unsigned number; /* of the request */
		uint64_t begun;
	} transfer[SP_TRANSFERS];
	unsigned under_way;
	unsigned most_under_way;
	bool hangs;    /* no answer comes yet */
	bool all_sent; /* of a request that is stopped */
	/* Answers instead of the above, if set. */
	void (*server)(const struct sp_message *message, struct sp_reply *reply);
	unsigned encoded; /* again */
	uint32_t nothing; /* the first so many records of each profile are left out of it */
	bool is_gone;     /* what profiles are encoded from */
};

extern struct push_unit u;

void push_start(uint32_t capacity, uint32_t max_tries);
void push_finish(void);

/* All of a flush: runs when something is due until nothing more can come of it. */
void push_flush(bool is_awaited, uint32_t ms);

/* The next answer. */
void push_status(int code);
void push_unreachable(void);
void push_no_answer(bool all_sent);
void push_answer(struct sp_reply *reply, int code, const char *words);

void push_put(char name, uint64_t samples); /* one record of so many samples */
void push_put_of(unsigned process, char name, uint64_t samples);
void push_put_records(char name, uint32_t records);
void push_put_type(enum sp_profile_type type);
void push_put_type_of(unsigned process, enum sp_profile_type type);
void push_put_until(char name, int64_t until_ns); /* by the clock that may be set */
void push_put_aged(char name, uint64_t age_s);

/* The intervals' end. */
void push_tell(void);
unsigned push_lines_with(const char *part);

#endif
