/* SPDX-License-Identifier: Apache-2.0 */
/* Where the message with an id is. Any writer may choose any ids. */
#ifndef SP_REPORT_ID_INDEX_H
#define SP_REPORT_ID_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_id_at {
	uint64_t id;
	size_t at;
};

struct sp_id_index {
	struct sp_id_at *row; /* NULL = the ids are 1, 2, 3 ..., as in nearly every file */
	size_t n;
};

/* Takes over rows with ascending at. False when two of them have the same id. */
bool sp_id_index_init(struct sp_id_index *x, struct sp_id_at *row, size_t n);
void sp_id_index_fini(struct sp_id_index *x);

/* Index of the message with this id, or SIZE_MAX. */
size_t sp_id_index_find(const struct sp_id_index *x, uint64_t id);

#endif
