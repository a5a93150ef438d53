/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Code of the C runtime that runs when an object is loaded or the process ends: _init and _fini of
 * glibc's crti.o, and what gcc's crtbegin.o calls from there. Both are built without call frame
 * information, and most of it has no frame pointer either. Context: SIG.
 */
#ifndef SP_CRT_CODE_SIG_H
#define SP_CRT_CODE_SIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/compiler.h"

/* None of these functions is longer. */
#define SP_CRT_CODE_BYTES 80U

/* Places on the stack, in bytes above sp. */
struct sp_crt_frame {
	unsigned return_at;
	bool fp_saved; /* otherwise the frame pointer still is the caller's */
	unsigned fp_at;
};

/*
 * The frame of the function whose next instruction is at code[0], of which `bytes` may be read.
 * False if that is not such code.
 */
SP_SIGSAFE bool sp_crt_frame(const uint8_t *code, size_t bytes, struct sp_crt_frame *frame);

#endif
