/* SPDX-License-Identifier: Apache-2.0 */
/* The thread-local word of the reentrancy guard. */
#include "preload/lifecycle/reentrancy_guard.h"

SP_TLS uintptr_t sp_reentrancy_guard_frame;
