/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl writes the secrets of every TLS connection into the file that SSLKEYLOGFILE names. A user
 * who set it for the host wants the host's secrets and not ours.
 */
#ifndef SP_KEYLOG_H
#define SP_KEYLOG_H

/* For CURLOPT_SSL_CTX_FUNCTION: removes the callback that libcurl has set. */
void sp_keylog_off(void *ssl_ctx, const void *in_libcurl);

#endif
