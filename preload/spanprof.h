/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof.h: labels of a program's own on the CPU samples that libspanprof.so takes.
 *
 * Programs with OpenTelemetry spans do not need this. It is for work that has no span: give it a
 * profile id, keep the same id beside your log line, metric exemplar or job record, and later ask
 * Pyroscope for exactly that work (span selector, or the label span_id).
 *
 *	spanprof_label_push("00f067aa0ba902b7", "nightly report");
 *	make_report();
 *	spanprof_label_pop();
 *
 * Copy this file or include it; there is nothing to link with. libspanprof.so is found at run time,
 * when it is preloaded. Without it every call is one load and one branch. C99 or C++11, gcc or
 * clang, any kind of object: executable, library, plugin, also static (never profiled, always free).
 *
 * profile_id  16 hexadecimal digits, NUL-terminated, neither all 0 nor all f: unique to this piece
 *             of work, as a random number is.
 * name        what it is called, UTF-8, at most 2048 bytes are kept; NULL is shown as "(unnamed)".
 *             Names are for kinds of work, not for single pieces: past SPANPROF_MAX_SPAN_NAMES
 *             different ones, new ones are shown as "(other)".
 * Both are read during the call only and stay the caller's.
 *
 * A label holds for the calling thread alone, until its pop. It does not follow work to another
 * thread or coroutine: push it there too, the same id may be active on many threads. A thread must
 * pop what it pushed, in reverse order; every push needs its pop, whatever it returned. A pop without
 * push does nothing, labels that are never popped end with their thread.
 *
 * Labels and spans may be nested either way. A sample belongs to the innermost of all of them. With
 * SPANPROF_SPAN_ID_SCOPE=root, the default, it carries a label's own id if that is a label, and if it
 * is a span the id of the span's local root, as without labels: a label is never a span's root or
 * parent. trace_id is that of the span around the label, if there is one.
 *
 * spanprof_label_push() returns 0 when samples are being labelled, otherwise
 *   ENOSYS  libspanprof.so is not there, switched off, or not sampling (yet)
 *   EINVAL  profile_id is not what it must be
 *   ENOSPC  more than 32 labels in each other, too many open spans on this thread, or too many
 *           threads
 * Nothing needs to be done about it. errno is left alone. The first push starts the profiler, as the
 * first span does. Not for signal handlers.
 */
#ifndef SPANPROF_H
#define SPANPROF_H

#include <errno.h>
#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Where they lead is for the loader to say: do not call them, they may be NULL. */
int spanprof_v1_label_push(const char *profile_id, const char *name) __attribute__((__weak__));
void spanprof_v1_label_pop(void) __attribute__((__weak__));

/*
 * Asked of the global offset table, which the loader fills in. Compilers of executables that are not
 * position-independent would leave it to the linker, and that takes a weak name for absent.
 */
#if defined(__x86_64__)
#define SPANPROF_FIND_(symbol, where)                                                              \
	__asm__(".weak " #symbol "\n\tmovq " #symbol "@GOTPCREL(%%rip), %0" : "=r"(where))
#elif defined(__aarch64__)
#define SPANPROF_FIND_(symbol, where)                                                              \
	__asm__(".weak " #symbol "\n\tadrp %0, :got:" #symbol                                      \
		"\n\tldr %0, [%0, :got_lo12:" #symbol "]"                                          \
		: "=r"(where))
#else
#define SPANPROF_FIND_(symbol, where) ((where) = &(symbol))
#endif

static inline int spanprof_label_push(const char *profile_id, const char *name)
{
	int (*push)(const char *, const char *);

	SPANPROF_FIND_(spanprof_v1_label_push, push);
	return push ? push(profile_id, name) : ENOSYS;
}

static inline void spanprof_label_pop(void)
{
	void (*pop)(void);

	SPANPROF_FIND_(spanprof_v1_label_pop, pop);
	if (pop)
		pop();
}

static inline void spanprof_label_leave_(const int *unused)
{
	(void)unused;
	spanprof_label_pop();
}

#if defined(__cplusplus)
}

namespace spanprof
{

/* { spanprof::Label label("00f067aa0ba902b7", "report"); ... } */
class Label
{
      public:
	explicit Label(const char *profile_id, const char *name = nullptr)
		: status_(spanprof_label_push(profile_id, name))
	{
	}
	~Label()
	{
		spanprof_label_pop();
	}
	Label(const Label &) = delete;
	Label &operator=(const Label &) = delete;

	/* What spanprof_label_push() returned. */
	int status() const
	{
		return status_;
	}

      private:
	int status_;
};

} /* namespace spanprof */
#endif

#define SPANPROF_JOIN2_(a, b) a##b
#define SPANPROF_JOIN_(a, b) SPANPROF_JOIN2_(a, b)

/* A label for the rest of the block, however that is left. C and C++; at most one on a line. */
#define SPANPROF_LABEL(profile_id, name)                                                           \
	__attribute__((__cleanup__(spanprof_label_leave_), __unused__)) const int SPANPROF_JOIN_(  \
		spanprof_label_at_, __LINE__) = spanprof_label_push(profile_id, name)

#endif
