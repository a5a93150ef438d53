/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OpenSSL without its headers: it is libcurl's, and may not be there. Context: BG.
 */
#include "export/openssl.h"

#include <stddef.h>
#include <stdint.h>

/* Of the OpenSSL that libcurl uses; not there if that uses another library. */
extern int OPENSSL_init_crypto(uint64_t opts, const void *settings) __attribute__((weak));

/*
 * OpenSSL frees its locks in an exit handler, and libcurl's libssh2 takes one of them when it starts:
 * a process whose end began before us must not start libcurl any more. From then on this function
 * fails, whatever it is asked (OpenSSL 1.1.0 to 3.x).
 */
bool sp_openssl_ended(void)
{
	return OPENSSL_init_crypto != NULL && OPENSSL_init_crypto(0, NULL) == 0;
}

/*
 * A bit that is no option (openssl/crypto.h, 1.1.0 to 3.x: they end at 31). Asked for no bit at all the
 * function does nothing; asked for an option it would set that up, and be at work on what an exit
 * frees meanwhile.
 */
#define OPENSSL_NO_OPTION (UINT64_C(1) << 62)

void sp_openssl_settle(void)
{
	if (OPENSSL_init_crypto != NULL)
		(void)OPENSSL_init_crypto(OPENSSL_NO_OPTION, NULL);
}
