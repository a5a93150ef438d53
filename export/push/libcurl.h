/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, loaded at the first request. It needs thirty more libraries (TLS, Kerberos, LDAP, SSH),
 * and loading them takes four fifths of the start of a program that is linked with them. Most
 * processes end before anything is sent, and profiles that go into a folder need none of them.
 * Context: the exporter, one thread.
 */
#ifndef SP_LIBCURL_H
#define SP_LIBCURL_H

/*
 * Call this before the first of libcurl's functions, which libcurl.c defines under their own names.
 * NULL: libcurl is loaded and initialised, and stays so. Otherwise the reason; the next call tries
 * again.
 */
const char *sp_libcurl_load(void);

#endif
