/* SPDX-License-Identifier: Apache-2.0 */
/* Storage of the nesting guard. */
#include "preload/guard.h"

SP_TLS uintptr_t sp_guard_frame;
