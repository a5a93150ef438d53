/* SPDX-License-Identifier: Apache-2.0 */
/* What each counter of a loss counts, in words that follow the number, and what can be done about it. */
#ifndef SP_LOSS_WORDS_H
#define SP_LOSS_WORDS_H

/* X(enum suffix of the counter, words, remedy or NULL) */
// clang-format off
#define SP_FOR_EACH_LOSS(X) \
	X(SPANS_AGED, "spans were open for longer than SPANPROF_MAX_SPAN_AGE, or for a minute while the table of " \
		      "open spans was full", NULL) \
	X(DROP_RING_FULL, "samples found the ring buffer full: the machine is very busy", NULL) \
	X(DROP_UNTOLD, "of these samples were in an object for whose name the ring buffer had no room", NULL) \
	X(DROP_REENTERED, "samples interrupted the signal handler itself", NULL) \
	X(DROP_STACK, "samples were not taken: the stack had too little room", NULL) \
	X(RING_DAMAGED, "records were damaged: something else writes to the shared memory", NULL) \
	X(RING_UNFINISHED, "samples were not finished when the program was killed", NULL) \
	X(SPAN_STACK_FULL, "labels or scopes were nested too deep", NULL) \
	X(SPAN_TABLE_FULL, "spans did not fit into the table of open spans", NULL) \
	X(SPAN_NO_THREAD, "spans started on threads that are not known", NULL) \
	X(NAMES_OTHER, "spans are called (other)", "raise SPANPROF_MAX_SPAN_NAMES") \
	X(THREAD_NAMES_OTHER, "samples are of threads called (other): too many different names", NULL) \
	X(WAIT_NAMES_OTHER, "waits are for (other): too many different files and addresses", NULL) \
	X(UNARMED_LIMIT, "threads had no timer: half of RLIMIT_SIGPENDING is in use", "raise that limit") \
	X(UNARMED_REFUSED, "threads had no timer: the kernel refused it", NULL) \
	X(UNARMED_STACK, "threads had no timer: their stack or their alternate signal stack is too small", NULL) \
	X(THREADS_NO_BLOCK, "times a thread was not sampled: there are too many threads", NULL) \
	X(SIGNAL_TAKEN, "times the program took the signal", "set SPANPROF_SIGNAL to another one") \
	X(SECCOMP_STOPPED, "times profiling stopped: the program installed a seccomp filter", NULL) \
	X(STACKS_OTHER, "samples are in (other): too many different stacks in one interval", NULL) \
	X(SPANS_OTHER, "samples have no label: too many spans in one interval", NULL) \
	X(BATCH_QUEUE_FULL, "profiles did not fit into the queue while the server was away", NULL) \
	X(BATCH_TOO_OLD, "profiles became too old for the server", NULL) \
	X(BATCH_REJECTED, "profiles were refused by the server", NULL) \
	X(BATCH_UNANSWERED, "profiles were sent, but no answer came: the server may have them", NULL) \
	X(BATCH_UNSENT, "profiles could not be sent before the end of the process", NULL) \
	X(SAMPLES_UNSENT, "samples were in lost profiles, or in none yet when the exporter or the process ended", NULL) \
	X(WAITS_UNSENT, "waits were in lost profiles, or in none yet when the exporter or the process ended", NULL) \
	X(FILE_FAILED, "profiles could not be written into SPANPROF_OUTPUT_DIR", NULL) \
	X(EXPORT_NOMEM, "times there was no memory for a profile", NULL)
// clang-format on

#endif
