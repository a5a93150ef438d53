/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the ends of a thread's stack. pthread_getattr_np() allocates and reads /proc, which a
 * signal handler must not do. But glibc puts a thread's control block above its frames, and the
 * kernel puts the program's file name above those of the initial thread, so the upper end needs no
 * look-up. To find the lower end we ask the kernel, page by page, whether the memory can be read.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/stack_bounds_sig.h"

#include <stdatomic.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/readable_sig.h"
#include "sampler/base/seccomp.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* 0 until sp_stack_init(); written before the first timer exists. */
static uintptr_t initial_stack_end;

/*
 * The thread pointer of the initial thread, by which we recognise that thread: its control block is
 * not on its stack. 0 until the thread was seen, at activation or in its own handler.
 */
static _Atomic uintptr_t initial_thread_pointer;

/*
 * Whether this is the initial thread. Once that thread was seen, this costs no system call. A
 * forked child inherits the parent's answer, although its only thread may be another thread of the
 * parent.
 */
static bool on_initial_thread(void)
{
	uintptr_t known = atomic_load_explicit(&initial_thread_pointer, memory_order_relaxed);
	uintptr_t tp = sp_arch_thread_pointer();

	if (known != 0)
		return tp == known;
	/*
	 * Below a seccomp filter the kernel cannot be asked. We then assume the initial thread, so
	 * that the thread pointer is not taken for a stack's end.
	 */
	if (sp_seccomp_is_on())
		return true;
	if (sp_arch_syscall(SYS_gettid, 0, 0, 0, 0) != sp_arch_syscall(SYS_getpid, 0, 0, 0, 0))
		return false;
	atomic_store_explicit(&initial_thread_pointer, tp, memory_order_relaxed);
	return true;
}

void sp_stack_init(void)
{
	uintptr_t top = getauxval(AT_EXECFN);

	if (top == 0)
		top = getauxval(AT_RANDOM);
	(void)on_initial_thread();
	initial_stack_end = (top + SP_STACK_PAGE - 1) & ~(uintptr_t)(SP_STACK_PAGE - 1);
}

static uintptr_t page_of(uintptr_t addr)
{
	return addr & ~(uintptr_t)(SP_STACK_PAGE - 1);
}

static bool plausible(uintptr_t sp, uintptr_t end)
{
	return sp < end && end - sp <= SP_STACK_PLAUSIBLE;
}

/*
 * The end of the stack that sp is on, or 0. The kernel reserves at least 128 MiB below the initial
 * stack's end (mmap_base, linux 6.1), so an sp near the end is on that stack, even in a forked
 * child whose initial thread runs on the stack of a thread of the parent.
 */
static uintptr_t stack_end(uintptr_t sp)
{
	uintptr_t tp = sp_arch_thread_pointer();

	if (plausible(sp, initial_stack_end))
		return initial_stack_end;
	return plausible(sp, tp) && !on_initial_thread() ? tp : 0;
}

static bool probe_page(uintptr_t page, unsigned *budget)
{
	if (*budget == 0)
		return false;
	(*budget)--;
	return sp_readable(page);
}

/*
 * Extends the proven part [*lo, end) downwards to the page of sp. So a stack too deep for the
 * budget of one walk is proven after a few walks. False at an unreadable page: memory below that
 * page does not belong to this stack.
 */
static bool prove_down(struct sp_stack_view *view, uintptr_t *lo, uintptr_t sp)
{
	while (*lo > page_of(sp) && view->proofs_left > 0) {
		uintptr_t page = page_of(*lo - 1);

		if (!probe_page(page, &view->proofs_left))
			return false;
		*lo = page;
	}
	return true;
}

void sp_stack_begin(struct sp_stack_view *view)
{
	*view = (struct sp_stack_view){
		.probes_left = SP_STACK_PROBES,
		.proofs_left = SP_STACK_PROOFS,
		.code_probes_left = SP_STACK_CODE_PROBES,
	};
}

static void anchor_window(struct sp_stack_view *view, uintptr_t sp)
{
	uintptr_t base = page_of(sp);

	view->ceiling = base > UINTPTR_MAX - SP_STACK_WINDOW ? UINTPTR_MAX : base + SP_STACK_WINDOW;
	view->lo = view->ceiling;
}

bool sp_stack_anchor(struct sp_stack_view *view, struct sp_stack_bounds *bounds, uintptr_t sp)
{
	uintptr_t end;

	view->floor = sp > SP_ARCH_RED_ZONE ? sp - SP_ARCH_RED_ZONE : 0;
	view->probed_lo = 0;
	view->probed_hi = 0;
	if (bounds->lo <= sp && sp < bounds->hi) {
		view->lo = bounds->lo;
		view->ceiling = bounds->hi;
		return true;
	}
	end = stack_end(sp);
	if (end == 0) {
		anchor_window(view, sp);
		return false;
	}
	if (bounds->hi != end) {
		bounds->lo = end;
		bounds->hi = end;
	}
	if (!prove_down(view, &bounds->lo, sp)) {
		anchor_window(view, sp);
		return false;
	}
	view->lo = bounds->lo;
	view->ceiling = end;
	return true;
}

bool sp_stack_probe(struct sp_stack_view *view, uintptr_t addr, unsigned bytes)
{
	uintptr_t first = page_of(addr);
	uintptr_t last = page_of(addr + bytes - 1);

	return last >= first && probe_page(first, &view->probes_left) &&
	       (last == first || probe_page(last, &view->probes_left));
}

static bool is_code_readable(struct sp_stack_view *view, uintptr_t page)
{
	uintptr_t *known = &view->code_page[page / SP_STACK_PAGE % SP_STACK_CODE_PAGES];

	if (page == 0 || (*known != page && !probe_page(page, &view->code_probes_left)))
		return false;
	*known = page;
	return true;
}

bool sp_stack_is_behind_call(struct sp_stack_view *view, uintptr_t pc)
{
	uintptr_t page = page_of(pc - 1);
	unsigned before = SP_ARCH_CALL_BYTES;

	if (pc <= SP_ARCH_CALL_BYTES || !is_code_readable(view, page))
		return false;
	/* The code may begin with this page. */
	if (pc - page < before && !is_code_readable(view, page - SP_STACK_PAGE))
		before = (unsigned)(pc - page);
	return sp_arch_is_behind_call((const uint8_t *)pc, before);
}

/* Makes [addr, addr + bytes) part of the probed pages. */
static bool reach(struct sp_stack_view *view, uintptr_t addr, unsigned bytes)
{
	uintptr_t first = page_of(addr);
	uintptr_t next = page_of(addr + bytes - 1) + SP_STACK_PAGE;

	if (view->probed_lo <= addr && addr + bytes <= view->probed_hi)
		return true;
	if (view->probed_lo <= addr && addr < view->probed_hi)
		first = view->probed_hi;
	for (uintptr_t page = first; page != next; page += SP_STACK_PAGE) {
		if (!probe_page(page, &view->probes_left))
			return false;
	}
	if (first != view->probed_hi)
		view->probed_lo = first;
	view->probed_hi = next;
	return true;
}

SP_RAW static uintptr_t load(uintptr_t addr, unsigned bytes)
{
	const uint8_t *p = (const uint8_t *)addr;
	uintptr_t v = 0;

	if (bytes == sizeof(v) && addr % sizeof(v) == 0)
		return *(const volatile uintptr_t *)addr;
	for (unsigned i = 0; i < bytes; i++)
		v |= (uintptr_t)p[i] << (8 * i);
	return v;
}

bool sp_stack_read(struct sp_stack_view *view, uintptr_t addr, unsigned bytes, uintptr_t *value)
{
	if (addr < view->floor || addr >= view->ceiling || view->ceiling - addr < bytes)
		return false;
	if (addr < view->lo && !reach(view, addr, bytes))
		return false;
	*value = load(addr, bytes);
	return true;
}
