/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spanprof.h: how a program labels the CPU samples that libspanprof.so takes of it.
 *
 * Programs with OpenTelemetry spans do not need this header. It is for work that has no span. Give
 * such work a profile id, and write the same id to your log line, metric exemplar or job record.
 * Then ask Pyroscope for exactly that work (span selector, or the label span_id).
 *
 *	spanprof_label_push("00f067aa0ba902b7", "nightly report");
 *	make_report();
 *	spanprof_label_pop();
 *
 * Copy this file or include it; there is nothing to link with. The loader binds the calls if
 * libspanprof.so is preloaded. Without libspanprof.so every call is one load and one branch. C99 or
 * C++11, gcc or clang, any kind of object: executable, library, plugin, and static programs, which
 * are never profiled and may call too.
 *
 * profile_id  16 hexadecimal digits, NUL-terminated, neither all 0 nor all f: unique to this piece
 *             of work, for example a random number.
 * name        the name of the work, UTF-8, at most 2048 bytes are kept; NULL is shown as "(unnamed)".
 *             Give kinds of work a name, not single pieces: after SPANPROF_MAX_SPAN_NAMES different
 *             names, new ones are shown as "(other)".
 * The call copies both strings.
 *
 * A label holds for the calling thread alone, until its pop. It does not follow work to another
 * thread or coroutine: push the same id there too; any number of threads may have it. A thread must
 * pop its labels in reverse order, one pop for each push, even for a push that failed. A pop
 * without a push does nothing, and a label without a pop ends with its thread.
 *
 * Labels and spans may be nested either way. A sample belongs to the innermost label or span. If a
 * label is innermost, the sample carries the id of the label. If a span is innermost, the sample is
 * labelled as without labels: with SPANPROF_SPAN_ID_SCOPE=root, the default, it carries the id of
 * the span's local root. A label is never a span's root or parent. The trace_id of a label is that
 * of the span around it, if there is one.
 *
 * spanprof_label_push() returns 0 when samples are being labelled, otherwise
 *   ENOSYS  libspanprof.so is not loaded, switched off, or not sampling (yet)
 *   EINVAL  profile_id is not 16 such digits
 *   ENOSPC  more than 32 nested labels, too many open spans on this thread, or too many threads
 * The program may ignore these errors. errno does not change. The first push starts the profiler,
 * as the first span does. Not for signal handlers.
 */
#ifndef SPANPROF_H
#define SPANPROF_H

#include <errno.h>
#include <stddef.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* Do not call these directly: both are NULL unless libspanprof.so is preloaded. */
int spanprof_v1_label_push(const char *profile_id, const char *name) __attribute__((__weak__));
void spanprof_v1_label_pop(void) __attribute__((__weak__));

/*
 * Reads the address from the global offset table, which the loader fills in. In executables that
 * are not position-independent a compiler lets the linker decide instead, and the linker resolves a
 * weak symbol that it does not find to NULL.
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

/*
 * A label until the end of the block, also after a return or an exception. C and C++; at most one on
 * a line.
 */
#define SPANPROF_LABEL(profile_id, name)                                                           \
	__attribute__((__cleanup__(spanprof_label_leave_), __unused__)) const int SPANPROF_JOIN_(  \
		spanprof_label_at_, __LINE__) = spanprof_label_push(profile_id, name)

#endif
