/* SPDX-License-Identifier: Apache-2.0 */
/* The state of the OpenSSL that libcurl uses; nothing is done if that uses another library. */
#ifndef SP_OPENSSL_H
#define SP_OPENSSL_H

#include <stdbool.h>

/* OpenSSL registers its exit handler, if it has not yet. */
void sp_openssl_settle(void);

/* Its exit handler has run: libcurl must not be started any more. */
bool sp_openssl_ended(void);

#endif
