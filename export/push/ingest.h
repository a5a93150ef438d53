/* SPDX-License-Identifier: Apache-2.0 */
/* The query of POST /ingest, which carries the series labels. */
#ifndef SP_INGEST_H
#define SP_INGEST_H

#include "export/push/request.h"

/* "?name=...", for the caller to free. 0 or -ENOMEM. */
int sp_ingest_query(const struct sp_request *r, char **out);

#endif
