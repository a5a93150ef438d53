/* SPDX-License-Identifier: Apache-2.0 */
/* The call with the result's address in x8. Any context. */
#include "preload/sdk/otelcpp/adapter_otelcpp_call.h"

#ifdef __aarch64__

/* Leaves the link register as it is: fn returns to our caller. */
// clang-format off
__asm__(".text\n.balign 4\n.globl sp_otelcpp_call\n.hidden sp_otelcpp_call\n"
	".type sp_otelcpp_call, %function\n"
	"sp_otelcpp_call:\n.cfi_startproc\n"
	"mov x16, x0\nmov x8, x1\nmov x0, x2\nmov x1, x3\nmov x2, x4\nmov x3, x5\n"
	"mov x4, x6\nmov x5, x7\nbr x16\n"
	".cfi_endproc\n.size sp_otelcpp_call, .-sp_otelcpp_call\n");
// clang-format on

#endif
