/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the preloaded object's hidden names, and makes it take a sample. */
#define _GNU_SOURCE
#include "test/conformance/probe.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/sampling/handler.h"
#include "sampler/thread/thread.h"

#define OBJECT "/libspanprof.so"

static struct {
	bool known;
	const char *path; /* NULL = not preloaded */
	ElfW(Addr) base;
	size_t tls_module;
	const struct sp_handler_setup *setup;
	size_t own_offset; /* offset of sp_thread_own in the object's thread-local storage */
	const char *(*text)(uint32_t id, size_t *len);
	uint32_t (*open_spans)(void);
	int (*signal_number)(void);
} object;

static _Noreturn void give_up(const char *what)
{
	fprintf(stderr, "probe: %s: %s\n", object.path, what);
	_exit(97);
}

static int seen(struct dl_phdr_info *info, size_t size, void *unused)
{
	size_t len = strlen(info->dlpi_name);

	(void)size;
	(void)unused;
	if (len < strlen(OBJECT) || strcmp(info->dlpi_name + len - strlen(OBJECT), OBJECT) != 0)
		return 0;
	object.path = info->dlpi_name;
	object.base = info->dlpi_addr;
	object.tls_module = info->dlpi_tls_modid;
	return 1;
}

static const ElfW(Shdr) * symbol_table(const char *file)
{
	const ElfW(Ehdr) *header = (const void *)file;
	const ElfW(Shdr) *section = (const void *)(file + header->e_shoff);

	for (unsigned i = 0; i < header->e_shnum; i++) {
		if (section[i].sh_type == SHT_SYMTAB)
			return &section[i];
	}
	give_up("stripped");
}

/* A name that does not occur exactly once could be the wrong one. */
static ElfW(Addr) value_of(const char *file, const char *name)
{
	const ElfW(Ehdr) *header = (const void *)file;
	const ElfW(Shdr) *table = symbol_table(file);
	const ElfW(Shdr) *section = (const void *)(file + header->e_shoff);
	const ElfW(Sym) *symbol = (const void *)(file + table->sh_offset);
	const ElfW(Sym) *found = NULL;
	const char *names = file + section[table->sh_link].sh_offset;

	for (size_t i = 0; i < table->sh_size / sizeof(*symbol); i++) {
		if (symbol[i].st_shndx == SHN_UNDEF || strcmp(names + symbol[i].st_name, name) != 0)
			continue;
		if (found != NULL)
			give_up("a name is there twice");
		found = &symbol[i];
	}
	if (found == NULL)
		give_up(name);
	return found->st_value;
}

static void find(void)
{
	struct stat st;
	const char *file;
	int fd;

	object.known = true;
	if (dl_iterate_phdr(seen, NULL) == 0)
		return;
	fd = open(object.path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) != 0)
		give_up("cannot be read");
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		give_up("cannot be mapped");
	close(fd);
	object.own_offset = value_of(file, "sp_thread_own");
	object.setup = (const void *)(object.base + value_of(file, "sp_handler_setup"));
	object.text = (const char *(*)(uint32_t, size_t *))(object.base +
							    value_of(file, "sp_names_text"));
	object.open_spans =
		(uint32_t(*)(void))(object.base + value_of(file, "sp_span_table_count"));
	object.signal_number = (int (*)(void))(object.base + value_of(file, "sp_signals_number"));
	munmap((void *)(uintptr_t)file, (size_t)st.st_size);
}

bool probe_present(void)
{
	if (!object.known)
		find();
	return object.path != NULL;
}

static int own_storage(struct dl_phdr_info *info, size_t size, void *out)
{
	(void)size;
	if (info->dlpi_tls_modid != object.tls_module)
		return 0;
	*(char **)out = info->dlpi_tls_data;
	return 1;
}

/* The calling thread's block; NULL if the profiler does not know the thread. */
static struct sp_thread *own_thread(void)
{
	char *storage = NULL;

	if (dl_iterate_phdr(own_storage, &storage) == 0 || storage == NULL)
		give_up("no thread-local storage");
	return *(struct sp_thread **)(void *)(storage + object.own_offset);
}

/* The signal is like the kernel's when the thread's timer expires; it is delivered before the call returns. */
static void expire(const struct sp_thread *t)
{
	siginfo_t si;

	memset(&si, 0, sizeof(si));
	si.si_code = SI_TIMER;
	si.si_value.sival_ptr =
		(void *)((uintptr_t)object.setup->cookie << 32 | (uintptr_t)t->index);
	si.si_signo = object.signal_number();
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), si.si_signo, &si) != 0)
		give_up("the signal cannot be sent");
}

uint64_t probe_samples(unsigned count)
{
	struct sp_thread *t = own_thread();

	if (t == NULL)
		return 0;
	for (unsigned i = 0; i < count; i++)
		expire(t);
	return count * object.setup->period_ns;
}

void probe_sample(struct probe_label *out)
{
	struct sp_thread *t = probe_present() ? own_thread() : NULL;
	const volatile struct sp_sample *made;
	const struct sp_sample *s;
	const char *name;
	size_t len = 0;

	memset(out, 0, sizeof(*out));
	/* Such a thread has no stack of spans, so its samples have no label. */
	if (t == NULL)
		return;
	made = s = sp_thread_scratch(t);
	sp_thread_scratch(t)->weight = 0;
	expire(t);
	if (made->weight == 0)
		give_up("the handler took no sample");
	memcpy(out->span_id, &s->span_id, sizeof(out->span_id));
	memcpy(out->trace_id, s->trace_id, sizeof(out->trace_id));
	if (s->name_id == 0)
		return;
	name = object.text(s->name_id, &len);
	snprintf(out->name, sizeof(out->name), "%.*s", (int)len, name);
}

unsigned probe_open_spans(void)
{
	/* Before it is active the profiler has no table in which it could count. */
	if (!probe_present() || object.signal_number() == 0)
		return 0;
	return object.open_spans();
}
