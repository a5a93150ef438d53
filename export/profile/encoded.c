/* SPDX-License-Identifier: Apache-2.0 */
/* Packs and frees encoded profiles (encoded.h). Context: the exporter. */
#include "export/profile/encoded.h"

#include <stdlib.h>

#include "export/profile/gzip.h"

int sp_encoded_pack(struct sp_encoded *e)
{
	return e->packed.data != NULL ? 0 : sp_gzip_pack(&e->bytes, &e->packed);
}

void sp_encoded_fini(struct sp_encoded *e)
{
	free(e->bytes.data);
	free(e->packed.data);
	free(e->counted);
}
