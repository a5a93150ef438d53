/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with an alternate signal stack, on which none of its handlers runs while it works. Usage: alternate
 * unmapped|readonly|BYTES [handler|fault] A stack of BYTES is directly above an inaccessible page. With "handler" the
 * program has a handler for that stack, and a signal runs it there at the end; with "fault" a handler for SIGSEGV, as
 * every program in Rust has from its start.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define PAGE 4096U
#define ROOM (64U * PAGE)
#define WORK_MS 100

static volatile sig_atomic_t taken;

static void on_signal(int signo)
{
	taken = signo;
}

static void work(void *tracer)
{
	void *span = otelc_start_span(tracer, "work", OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(WORK_MS);
	otelc_end_span(span);
}

/* The lowest byte of the stack is the first one behind the page. */
static stack_t make_stack(const char *kind)
{
	char *base = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	stack_t stack = {.ss_sp = base + PAGE, .ss_size = strtoul(kind, NULL, 10)};

	HOST_CHECK(base != MAP_FAILED && mprotect(base, PAGE, PROT_NONE) == 0);
	if (stack.ss_size == 0)
		stack.ss_size = ROOM / 2;
	HOST_CHECK(sigaltstack(&stack, NULL) == 0);
	if (strcmp(kind, "unmapped") == 0)
		HOST_CHECK(munmap(base, ROOM) == 0);
	if (strcmp(kind, "readonly") == 0)
		HOST_CHECK(mprotect(base, ROOM, PROT_READ) == 0);
	return stack;
}

int main(int argc, char **argv)
{
	int handled = argc < 3 ? 0 : strcmp(argv[2], "fault") == 0 ? SIGSEGV : SIGUSR1;
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	/* Some programs read the old action into the memory of the new one. */
	struct sigaction *volatile same = &act;
	void *tracer;
	stack_t stack;
	stack_t now;

	HOST_CHECK(argc > 1);
	otelc_init_tracer_provider("alternate", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (handled != SIGSEGV)
		work(tracer);
	if (handled != 0)
		HOST_CHECK(sigaction(handled, &act, same) == 0);
	stack = make_stack(argv[1]);
	work(tracer);
	if (handled == SIGSEGV)
		work(tracer);
	HOST_CHECK(sigaltstack(NULL, &now) == 0);
	printf("the stack is %s\n",
	       now.ss_sp == stack.ss_sp && now.ss_size == stack.ss_size ? "as set" : "another");
	if (handled != 0) {
		HOST_CHECK(raise(handled) == 0);
		printf("%s\n", taken == handled ? "taken" : "not taken");
		HOST_CHECK(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL) == 0);
	}
	work(tracer);
	return 8;
}
