/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Common part of the bench hosts: worker threads that run a round whenever the driver asks for one. It does not know
 * the profiler.
 */
#ifndef SP_BENCH_LOOP_H
#define SP_BENCH_LOOP_H

#ifdef __cplusplus
extern "C" {
#endif

struct loop {
	void (*pairs)(long n); /* starts and ends n spans, one after the other */
	void (*open)(long n);  /* starts n spans that stay open; on a separate thread */
	void (*settle)(void);  /* after each round, not measured; NULL = nothing to do */
};

/*
 * main() of a host: HOST threads pairs open. For every line on stdin all threads run one round; one line on stdout
 * has the CPU time per pair by their own clocks, in nanoseconds.
 */
int loop_main(int argc, char **argv, const struct loop *loop);

#ifdef __cplusplus
}
#endif

#endif
