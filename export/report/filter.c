/* SPDX-License-Identifier: Apache-2.0 */
/* Filters samples and their frames by names (filter.h). Context: the report tool. */
#include "export/report/filter.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"

/*
 * This bit of sp_report_memo.matches says that its other bits, one for each expression, are valid.
 */
#define SP_FILTER_KNOWN (1U << SP_FILTER_N)

const char *sp_filter_word(enum sp_filter_by by)
{
	static const char *const words[] = {"focus", "ignore", "hide"};

	return words[by];
}

int sp_filter_set(struct sp_filter *f, enum sp_filter_by by, const char *text,
		  char why[SP_FILTER_WHY])
{
	regex_t pattern;
	int err;

	if (text[0] == '\0') {
		(void)snprintf(why, SP_FILTER_WHY, "an empty expression matches everything");
		return -1;
	}
	err = regcomp(&pattern, text, REG_EXTENDED | REG_NOSUB);
	if (err != 0) {
		(void)regerror(err, &pattern, why, SP_FILTER_WHY);
		return -1;
	}
	if (f->text[by] != NULL)
		regfree(&f->pattern[by]);
	f->text[by] = text;
	f->pattern[by] = pattern;
	return 0;
}

void sp_filter_fini(struct sp_filter *f)
{
	for (size_t i = 0; i < SP_FILTER_N; i++)
		if (f->text[i] != NULL)
			regfree(&f->pattern[i]);
	memset(f, 0, sizeof(*f));
}

bool sp_filter_is_set(const struct sp_filter *f)
{
	for (size_t i = 0; i < SP_FILTER_N; i++)
		if (f->text[i] != NULL)
			return true;
	return false;
}

/*
 * Which expressions match the name. The result is remembered in the frame's memo, so each frame of
 * a profile is compared only once.
 */
static unsigned matches_of(const struct sp_filter *f, struct sp_filter_use *use,
			   const struct sp_report_frame *frame)
{
	char name[SP_REPORT_TEXT_MAX + 1];
	unsigned matches = frame->memo->matches;

	if (matches != 0)
		return matches;
	(void)sp_report_frame_text(frame, f->lines, name);
	matches = SP_FILTER_KNOWN;
	for (size_t i = 0; i < SP_FILTER_N; i++)
		if (f->text[i] != NULL && regexec(&f->pattern[i], name, 0, NULL, 0) == 0) {
			matches |= 1U << i;
			use->matched[i] = true;
		}
	frame->memo->matches = (uint8_t)matches;
	return matches;
}

bool sp_filter_sample(const struct sp_filter *f, struct sp_filter_use *use,
		      struct sp_report_sample *s, bool *nomem)
{
	bool is_focused = f->text[SP_FILTER_FOCUS] == NULL;
	bool is_ignored = false;
	size_t shown = 0;

	if (!sp_filter_is_set(f))
		return true;
	if (!SP_GROW(use->frame, use->cap, s->frames, SIZE_MAX)) {
		*nomem = true;
		return false;
	}
	for (size_t i = 0; i < s->frames; i++) {
		unsigned matches = matches_of(f, use, &s->frame[i]);

		is_focused = is_focused || (matches & 1U << SP_FILTER_FOCUS) != 0;
		is_ignored = is_ignored || (matches & 1U << SP_FILTER_IGNORE) != 0;
		if ((matches & 1U << SP_FILTER_HIDE) == 0)
			use->frame[shown++] = s->frame[i];
	}
	if (!is_focused || is_ignored || (shown == 0 && f->text[SP_FILTER_HIDE] != NULL))
		return false;
	s->frame = use->frame;
	s->frames = shown;
	return true;
}

void sp_filter_use_fini(struct sp_filter_use *use)
{
	free(use->frame);
	memset(use, 0, sizeof(*use));
}
