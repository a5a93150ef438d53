/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcrypto's kernels are generated assembly whose call frame information has features that compilers do not use: the
 * CFA by any register, through memory, and by expressions. The library is loaded by name, so that it need not be
 * installed for the build.
 */
#include "test/step/workloads.h"

#include <dlfcn.h>
#include <stddef.h>

typedef unsigned char *digest_fn(const unsigned char *data, size_t n, unsigned char *digest);

static void run_digests(void *lib)
{
	static const char *const names[] = {"MD5", "SHA1", "SHA256", "SHA512"};
	static unsigned char data[700];
	unsigned char digest[64];

	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		digest_fn *fn;

		*(void **)&fn = dlsym(lib, names[i]);
		if (fn != NULL)
			fn(data, sizeof(data), digest);
	}
}

static void run_ciphers(void *lib)
{
	static const char *const names[] = {"EVP_aes_256_gcm", "EVP_chacha20_poly1305",
					    "EVP_aes_128_cbc", "EVP_camellia_128_cbc"};
	static const unsigned char key[32];
	static unsigned char in[1200];
	static unsigned char out[1300];
	void *(*context_new)(void);
	void (*context_free)(void *context);
	int (*init)(void *context, const void *cipher, void *engine, const unsigned char *key,
		    const unsigned char *iv);
	int (*update)(void *context, unsigned char *out, int *out_n, const unsigned char *in,
		      int n);
	void *context;
	int n;

	*(void **)&context_new = dlsym(lib, "EVP_CIPHER_CTX_new");
	*(void **)&context_free = dlsym(lib, "EVP_CIPHER_CTX_free");
	*(void **)&init = dlsym(lib, "EVP_EncryptInit_ex");
	*(void **)&update = dlsym(lib, "EVP_EncryptUpdate");
	if (!context_new || !context_free || !init || !update)
		return;
	context = context_new();
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const void *(*cipher)(void);

		*(void **)&cipher = dlsym(lib, names[i]);
		if (cipher != NULL && init(context, cipher(), NULL, key, key) == 1)
			update(context, out, &n, in, sizeof(in));
	}
	context_free(context);
}

/* Stays loaded, so that the warm-up counts. */
static void *open_crypto(void)
{
	static void *lib;

	if (lib == NULL)
		lib = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL);
	return lib;
}

void workload_crypto(void)
{
	void *lib = open_crypto();

	if (lib == NULL)
		return;
	run_digests(lib);
	run_ciphers(lib);
}

static void sign(void *lib, void *key)
{
	static const unsigned char data[32];
	static unsigned char signature[512];
	size_t n = sizeof(signature);
	void *(*context_new)(void);
	void (*context_free)(void *context);
	int (*init)(void *context, void **pkey_context, const void *digest, void *engine,
		    void *key);
	int (*run)(void *context, unsigned char *signature, size_t *n, const unsigned char *data,
		   size_t data_n);
	const void *(*sha256)(void);
	void *context;

	*(void **)&context_new = dlsym(lib, "EVP_MD_CTX_new");
	*(void **)&context_free = dlsym(lib, "EVP_MD_CTX_free");
	*(void **)&init = dlsym(lib, "EVP_DigestSignInit");
	*(void **)&run = dlsym(lib, "EVP_DigestSign");
	*(void **)&sha256 = dlsym(lib, "EVP_sha256");
	if (!context_new || !context_free || !init || !run || !sha256)
		return;
	context = context_new();
	if (init(context, NULL, sha256(), NULL, key) == 1)
		run(context, signature, &n, data, sizeof(data));
	context_free(context);
}

void workload_rsa(void)
{
	static void *key;
	void *lib = open_crypto();
	void *(*keygen)(void *context, const char *properties, const char *type, size_t bits);

	if (lib == NULL)
		return;
	*(void **)&keygen = dlsym(lib, "EVP_PKEY_Q_keygen");
	if (keygen != NULL && key == NULL)
		key = keygen(NULL, NULL, "RSA", 2048);
	if (key != NULL)
		sign(lib, key);
}

void workload_p256(void)
{
	static void *key;
	void *lib = open_crypto();
	void *(*keygen)(void *context, const char *properties, const char *type, const char *curve);

	if (lib == NULL)
		return;
	*(void **)&keygen = dlsym(lib, "EVP_PKEY_Q_keygen");
	if (keygen != NULL && key == NULL)
		key = keygen(NULL, NULL, "EC", "P-256");
	if (key != NULL)
		sign(lib, key);
}
