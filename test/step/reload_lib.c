/* SPDX-License-Identifier: Apache-2.0 */
/* The library of reload.c; built twice with different RELOAD_BYTES on its stack. */
__attribute__((visibility("default"))) void reload_call(void (*fn)(void));

void reload_call(void (*fn)(void))
{
	volatile char space[RELOAD_BYTES];

	space[0] = 1;
	fn();
	space[1] = space[0];
}
