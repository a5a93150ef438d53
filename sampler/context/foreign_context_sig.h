/* SPDX-License-Identifier: Apache-2.0 */
/* What foreign_context.c writes and foreign_context_sig.c reads. */
#ifndef SP_FOREIGN_CONTEXT_SIG_H
#define SP_FOREIGN_CONTEXT_SIG_H

#include <stdatomic.h>

#include "sampler/context/foreign_context.h"

/* Written before sp_foreign_context_on. */
extern struct sp_foreign_context_setup sp_foreign_context_setup;
extern _Atomic int sp_foreign_context_root_key;

#endif
