# SPDX-License-Identifier: Apache-2.0
"""Whether the stacks in a folder of profiles reach the beginning of their thread.

  count FOLDER PROGRAM          prints the number of samples of processes with the name PROGRAM (a
                                regular expression for the whole name)
  enough FOLDER PROGRAM N       exit 0 if there are N, and enough of them without generated code to
                                prove something, or N
  judge FOLDER PROGRAM NAME VERSION N
                                prints a row of the table, then each kind of stack that does not reach
                                its thread's beginning; exit 0 if, of those without generated code,
                                at least 99.9 % do with 95 % confidence; if N are too few to prove
                                anything, exit 0 if all do
  waits FOLDER PROGRAM NAME VERSION -  the same row for profiles of waits; exit 0 if there are some
  plausible FOLDER PROGRAM MIN  for short runs: exit 0 unless it is next to impossible that 99.9 % of
                                them do; there have to be MIN of them

A profile is a pprof profile; only its needed fields are read.
"""
import collections
import glob
import gzip
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "common"))
from pb import fields, packed

ROOTED_MIN = 0.999
# That many, all rooted, show 99.9 % with 95 % confidence.
PROVING = 2995
SHOWN = 12


def read_profile(path):
    """Yields (names of the frames, leaf first, samples), and returns the comments."""
    with gzip.open(path) as file:
        parts = collections.defaultdict(list)
        for number, value in fields(file.read()):
            parts[number].append(value)
    text = [s.decode(errors="replace") for s in parts[6]]
    functions = {}
    for function in parts[5]:
        f = dict(fields(function))
        functions[f[1]] = text[f.get(2, 0)]
    locations = {}
    for location in parts[4]:
        lines = [dict(fields(v)) for n, v in fields(location) if n == 4]
        locations[dict(fields(location))[1]] = [functions[line[1]] for line in lines]
    stacks = []
    for sample in parts[2]:
        ids, values = [], []
        for number, value in fields(sample):
            if number == 1:
                ids += packed(value)
            elif number == 2:
                values += packed(value)
        stacks.append(([name for i in ids for name in locations[i]], values[0]))
    return stacks, [text[i] for value in parts[13] for i in packed(value)]


def profiles(folder, program, suffix=""):
    wanted = re.compile(r"spanprof-unknown_service_(%s)-\d+-[^-]+-[^-]+-\d+%s\.pb\.gz" % (program, suffix))
    return [path for path in sorted(glob.glob(folder + "/*.pb.gz"))
            if wanted.fullmatch(os.path.basename(path))]


def samples(folder, program):
    for path in profiles(folder, program):
        for stack, n in read_profile(path)[0]:
            # CPU time without samples has no stack either.
            if "[unsampled cpu]" not in stack:
                yield stack, n


def is_generated(frame):
    """Code that a program generated while it ran, which may be gone since, or that its own compiler put into it
    (V8)."""
    return frame in ("[anon]", "[unknown]") or frame.startswith("Builtins_")


def unrooted_end(stack):
    """The outermost frames of a stack that does not reach the beginning; None if it does."""
    if stack[-1] in ("[incomplete]", "[truncated]", "(other)", "[unknown]"):
        return " < ".join(stack[-4:])
    return None


def binomial_tail(k, n, p):
    """The probability of at most k of n."""
    term = total = (1 - p) ** n
    for i in range(1, k + 1):
        term *= (n - i + 1) / i * p / (1 - p)
        total += term
    return total


def rooted_at_least(unrooted, n):
    """The lower end of the one-sided 95 % interval of Clopper and Pearson."""
    low, high = 0.0, 1.0
    if n == 0 or unrooted == n:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        if binomial_tail(unrooted, n, middle) > 0.05:
            low = middle
        else:
            high = middle
    return 1 - high


def lost(folder, program):
    """Samples without a stack, by reason. Each profile has the losses of its process so far."""
    most = collections.Counter()
    for path in profiles(folder, program):
        process = os.path.basename(path).rsplit("-", 3)[1]
        for comment in read_profile(path)[1]:
            match = re.fullmatch(r"(dropped_\w+|signal_taken_by_host|threads_unarmed)=(\d+)", comment)
            if match:
                key = match[1], process
                most[key] = max(most[key], int(match[2]))
    total = collections.Counter()
    for (reason, _), n in most.items():
        total[reason] += n
    return total


def count(folder, program):
    print(sum(n for _, n in samples(folder, program)))


def enough(folder, program, wanted):
    total = outer_ends(folder, program)[0]
    sys.exit(sum(total.values()) < int(wanted) or total[False] < min(int(wanted), PROVING))


def outer_ends(folder, program):
    """Two counters, for stacks without and with generated code: all stacks, and the ends of unrooted ones."""
    total = collections.Counter()
    ends = {True: collections.Counter(), False: collections.Counter()}
    for stack, n in samples(folder, program):
        generated = any(map(is_generated, stack))
        total[generated] += n
        end = unrooted_end(stack)
        if end is not None:
            ends[generated][end] += n
    return total, ends


def tell(name, total, ends):
    for generated, kind in ((False, "not rooted"), (True, "not rooted, through generated code")):
        for end, n in ends[generated].most_common(SHOWN):
            print("  %s: %d of %d %s, such as ... %s" % (name, n, total[generated], kind, end),
                  file=sys.stderr)


def judge(folder, program, name, version, wanted):
    total, ends = outer_ends(folder, program)
    plain, unrooted = total[False], sum(ends[False].values())
    bound = rooted_at_least(unrooted, plain)
    made = "%d | %d" % (total[True], sum(ends[True].values())) if total[True] else "– | –"
    print("| %s | %s | %d | %d | %.3f %% | %s |"
          % (name, version, plain, unrooted, int(100000 * bound) / 1000, made))
    tell(name, total, ends)
    for reason, n in lost(folder, program).items():
        print("  %s: %s %d" % (name, reason, n), file=sys.stderr)
    if bound < ROOTED_MIN and not (unrooted == 0 and int(wanted) < PROVING):
        sys.exit("%s: too many that are not rooted" % name)


def waits(folder, program, name, version, _):
    total, ends = collections.Counter(), {True: collections.Counter(), False: collections.Counter()}
    for path in profiles(folder, program, "-off_cpu"):
        for stack, n in read_profile(path)[0]:
            # A wait has no stack if the thread was not blocked, or could not be read then.
            if stack[0] == "[waiting for a CPU]":
                continue
            generated = any(map(is_generated, stack))
            total[generated] += n
            if unrooted_end(stack) is not None or stack[0].startswith("[blocked, no stack"):
                ends[generated][" < ".join(stack[-4:])] += n
    made = "%d | %d" % (total[True], sum(ends[True].values())) if total[True] else "– | –"
    print("| %s | %s | %d | %d | %s |"
          % (name, version, total[False], sum(ends[False].values()), made))
    tell(name, total, ends)
    if not total:
        sys.exit("%s: no waits" % name)


def plausible(folder, program, least):
    total, ends = outer_ends(folder, program)
    plain, unrooted = total[False], sum(ends[False].values())
    print("%s: %d samples, %d not rooted" % (program, plain, unrooted))
    tell(program, total, ends)
    if plain < int(least):
        sys.exit("%d samples, at least %s are needed" % (plain, least))
    if unrooted > 0 and 1 - binomial_tail(unrooted - 1, plain, 1 - ROOTED_MIN) < 1e-6:
        sys.exit("too many that are not rooted")


if __name__ == "__main__":
    {"count": count, "enough": enough, "judge": judge, "plausible": plausible,
     "waits": waits}[sys.argv[1]](*sys.argv[2:])
