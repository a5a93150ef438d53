/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl writes the secrets of every TLS connection into the file that SSLKEYLOGFILE names. Whoever
 * set it for the host asked for the host's secrets and not for ours.
 */
#ifndef SP_KEYLOG_H
#define SP_KEYLOG_H

/* For CURLOPT_SSL_CTX_FUNCTION: takes back what libcurl told the SSL_CTX about it. */
void sp_keylog_off(void *ssl_ctx, const void *in_libcurl);

#endif
