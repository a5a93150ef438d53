/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbol look-up in the dynamic symbol tables of the loaded objects, by reading them. Unlike
 * dlsym(RTLD_NEXT) it also finds objects opened with RTLD_LOCAL, leaves the host's dlerror() alone
 * and never allocates. APP and BG; takes the loader's lock as any lazy binding does.
 */
#ifndef SP_ELF_WALK_H
#define SP_ELF_WALK_H

/*
 * The definition of name in the first object after ours in load order (what RTLD_NEXT means, and
 * whatever was opened since), default symbol version first. NULL if there is none. When together
 * is not NULL, an object counts only if it also defines each of those names (NULL-terminated).
 */
void *sp_elf_find(const char *name, const char *const *together);

/* Path of our own object as the loader knows it; may be relative. "" if unknown. */
const char *sp_elf_own_path(void);

#endif
