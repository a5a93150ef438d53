# SPDX-License-Identifier: Apache-2.0
"""Many kinds of Python's work in C, for about a second. The argument is the round."""
import ast
import bz2
import collections
import ctypes
import decimal
import difflib
import hashlib
import heapq
import io
import json
import lzma
import pickle
import random
import re
import sqlite3
import sys
import threading
import zlib

chance = random.Random(int(sys.argv[1]))
digest = hashlib.sha256()


def tell(value):
    digest.update(repr(value).encode())


def words(n):
    return ["".join(chance.choices("abcdefgh", k=chance.randrange(1, 9))) for _ in range(n)]


def deep(n):
    return 1 + deep(n - 1) if n else sum(i * i for i in range(50))


def raises(n):
    try:
        if n:
            return raises(n - 1)
        raise ValueError(words(1))
    except ValueError as error:
        return str(error)


def threads():
    parts = []
    lock = threading.Lock()

    def work(text):
        for _ in range(5):
            packed = zlib.compress(text)
            with lock:
                parts.append(hashlib.sha512(packed).hexdigest())

    all_of_them = [threading.Thread(target=work, args=(b" ".join(w.encode() for w in words(20000)),))
                   for _ in range(4)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()
    tell(sorted(parts))


def c_calls_back():
    libc = ctypes.CDLL(None)
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 3000)(*[chance.randrange(10**6) for _ in range(3000)])
    libc.qsort(numbers, len(numbers), ctypes.sizeof(ctypes.c_int),
               compare(lambda a, b: a[0] - b[0]))
    tell(list(numbers))


def database():
    base = sqlite3.connect(":memory:")
    base.execute("create table t(a text, b integer)")
    base.executemany("insert into t values (?, ?)", ((w, len(w)) for w in words(20000)))
    base.create_function("twist", 1, lambda text: text[::-1])
    tell(base.execute("select b, count(distinct twist(a)) from t group by b order by b").fetchall())


def texts():
    text = " ".join(words(30000))
    tell(len(re.findall(r"(?:a|b)+c?(\w)\s\1", text)))
    tell(re.sub(r"\b(\w)(\w*)", lambda m: m.group(2) + m.group(1), text)[:200])
    tell(collections.Counter(text.split()).most_common(5))
    lines = text.split()[:300]
    tell(len(list(difflib.unified_diff(lines, sorted(lines)))))
    for pack in zlib.compress, bz2.compress, lambda b: lzma.compress(b, preset=1):
        tell(len(pack(text.encode())))


def objects():
    tree = {w: [i, {"x": w}, (i, None)] for i, w in enumerate(words(20000))}
    tell(len(pickle.loads(pickle.dumps(tree))))
    tell(len(json.loads(json.dumps(tree, indent=1))))
    heap = []
    for word in tree:
        heapq.heappush(heap, word)
    tell([heapq.heappop(heap) for _ in range(len(heap))][-1])
    with open(ast.__file__, encoding="utf-8") as file:
        source = file.read()
    tell(len(ast.dump(ast.parse(source))))
    exec(compile(source, "again", "exec"), {"__name__": "again"})
    decimal.getcontext().prec = 400
    tell(sum(decimal.Decimal(i).sqrt() for i in range(300)))
    tell(pow(chance.getrandbits(3000), chance.getrandbits(1000), (1 << 3001) - 1))
    out = io.StringIO()
    for word in list(tree)[:20000]:
        print("%-10s|%5.2f|%r" % (word, len(word) / 7, word), file=out)
    tell(out.getvalue()[-30:])


tell([deep(400) for _ in range(40)])
tell([raises(i % 90) for i in range(2000)])
threads()
c_calls_back()
database()
texts()
objects()
print(digest.hexdigest())
