# SPDX-License-Identifier: Apache-2.0
"""For allocs.sh: usage allocs.py PROGRAM. Times and counts are in PROGRAM.cpu, PROGRAM.few and PROGRAM.many."""

import statistics
import sys

# The same with its profile switched off; for heaptrack, the program without it.
OFF = {"spanprof": "spanprof, no allocations", "gperftools": "tcmalloc", "jemalloc's profile": "jemalloc"}


def read(path):
    """The times of each way, round by round."""
    found = {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            way, figure = line.rstrip("\n").split("|")
            found.setdefault(way, []).append(float(figure))
    return found


def middle(figures):
    """An interval for the median of very many rounds. With seven rounds it is right in seven of eight cases."""
    figures = sorted(figures)
    out = len(figures) // 7
    return figures[out], figures[-1 - out]


def main(path):
    times = read(path + ".cpu")
    few, many = read(path + ".few"), read(path + ".many")
    counts = {way: many[way][0] - few[way][0] for way in many}

    def more(way, base):
        """For each round, in per cent."""
        return [100 * (took / other - 1) for took, other in zip(times[way], times[base])]

    own = {way: more(way, OFF.get(way, "without")) for way in times}
    with open(path, "w", encoding="utf-8") as table:
        for way, seconds in times.items():
            figures = ["", "", ""]
            if way in counts:
                figures = [f"{counts[way]:.0f}"] + [f"{100 * (counts[way] / counts[base] - 1):+.2f}"
                                                    for base in (OFF.get(way, "without"), "without")]
            print(way, f"{statistics.median(seconds):.2f}", f"{statistics.median(own[way]):+.1f}",
                  f"{statistics.median(more(way, 'without')):+.1f}", *figures, sep="|", file=table)
    with open(path + ".rounds", "w", encoding="utf-8") as table:
        for way, figures in own.items():
            low, high = middle([ours - other for ours, other in zip(own["spanprof"], figures)])
            print(way, f"{low:.1f}", f"{high:.1f}", sep="|", file=table)


if __name__ == "__main__":
    main(sys.argv[1])
