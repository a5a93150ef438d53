/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcurl, loaded at the first request. With it come thirty more libraries (TLS, Kerberos, LDAP, SSH),
 * whose loading takes four fifths of the time in which a program that is linked with them starts; most
 * processes end before anything is to be sent, and what goes into a folder needs none of them. Context: the
 * exporter, one thread.
 */
#ifndef SP_LIBCURL_H
#define SP_LIBCURL_H

/*
 * To be called before the first of libcurl's functions, which are defined in libcurl.c under their own
 * names. NULL: it is there and initialised, and stays; else why not, and the next call tries again.
 */
const char *sp_libcurl_load(void);

/* An address in libcurl; NULL as long as it is not loaded. */
const void *sp_libcurl_address(void);

#endif
