/* SPDX-License-Identifier: Apache-2.0 */
/* Help with mistyped variables. Activation only. */
#ifndef SP_CONFIG_UNKNOWN_H
#define SP_CONFIG_UNKNOWN_H

/* One warning per SPANPROF_ name that is in no table, with the name it was probably meant to be. */
void sp_config_unknown_tell(void);

/* The known name meant by an unknown one, or NULL when none is close. */
const char *sp_config_unknown_meant(const char *name);

#endif
