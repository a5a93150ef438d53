# SPDX-License-Identifier: Apache-2.0
"""Which calls failed with EINTR, by the signal that did it. Usage: eintr.py TRACE, made by strace -f.

Prints how often these occurred:
  signals   of a timer of the profiler: SI_TIMER
  ours      failed calls because of one of them, although the kernel restarts such calls
  waits     the same for select(), poll() and similar calls, which are never restarted. strace itself
            causes these: when a thread stops for strace on its way into a call, the kernel runs the work that
            it had put off until the way out (ptrace_notify() in kernel/signal.c), including CPU timers
  others    failed calls because of another signal
The kernel reports calls that it may restart as ERESTART...; the program sees EINTR if the
handler's return, rt_sigreturn, says so.

Signals of one thread come before those of the process: where one of ours and another are delivered
together, ours is first, but the other one would have interrupted the call without us.
"""
import collections
import re
import sys

CALL = re.compile(r"(\w+)\(")
RESUMED = re.compile(r"<\.\.\. (\w+) resumed>")
INTERRUPTED = re.compile(r"= (-1 EINTR|\? ERESTART)")
STARTED_AGAIN = re.compile(r"= \? (ERESTARTSYS|ERESTARTNOINTR)")
TIMER = re.compile(r"--- SIG\w+ \{si_signo=\w+, si_code=SI_TIMER")


def interruptions(lines):
    """Yields "signal" for each of ours, and (whether it was ours, the call) for each EINTR."""
    call = {}  # per thread: the last interrupted call, if nothing followed it
    handlers = collections.defaultdict(list)  # per thread: (ours, call) of running handlers
    together = {}  # per thread: the handlers that started since its last call
    for line in lines:
        tid, _, text = line.partition(" ")
        text = text.lstrip()
        if text.startswith("--- SIG"):
            ours = TIMER.match(text) is not None
            if ours:
                yield "signal"
            handler = [ours, call.pop(tid, None)]
            handlers[tid].append(handler)
            together.setdefault(tid, []).append(handler)
            if not all(one[0] for one in together[tid]):
                for one in together[tid]:
                    one[0] = False
            continue
        if text.startswith("+++"):
            continue
        match = RESUMED.match(text) or CALL.match(text)
        if match is None:
            continue
        name = match[1]
        together.pop(tid, None)
        if name == "rt_sigreturn":
            if "<unfinished" in text or not handlers[tid]:
                continue
            ours, interrupted = handlers[tid].pop()
            if "= -1 EINTR" in text and interrupted is not None:
                yield ours, interrupted
            continue
        call[tid] = None
        if INTERRUPTED.search(text):
            call[tid] = name, STARTED_AGAIN.search(text) is not None


def main(path):
    total = collections.Counter()
    calls = collections.Counter()
    with open(path, encoding="utf-8", errors="replace") as file:
        for event in interruptions(file):
            if event == "signal":
                total["signals"] += 1
            else:
                ours, (call, started_again) = event
                key = "others" if not ours else "ours" if started_again else "waits"
                total[key] += 1
                calls[key, call] += 1
    for key in "signals", "ours", "waits", "others":
        print(key, total[key])
    for (key, call), n in sorted(calls.items()):
        print("#", key, call, n)


if __name__ == "__main__":
    main(sys.argv[1])
