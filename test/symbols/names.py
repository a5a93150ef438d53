#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the functions at random addresses, with inlined ones, files and lines, with gdb's answers.

names.py all COUNT FOLDER [--readme]: builds programs of several compilers in FOLDER, asks COUNT addresses in all, and
    prints a table; --readme writes it to test/symbols/README.md
names.py one PROGRAM COUNT [--shown FILE]: asks for one program; with --shown lookup reads FILE and gdb PROGRAM
names.py faults PROGRAM COUNT: puts faults into the answers, each of which must be noticed
Fails on a difference without a known reason, and if we name fewer than 99 of 100 functions that gdb names.
"""
import collections
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import rust_v0

HERE = os.path.dirname(os.path.abspath(__file__))
LOOKUP = os.environ.get("LOOKUP", "build/test/symbols/lookup")
README = os.path.join(HERE, "README.md")
NAMED_MIN = 0.99
NAME_MAX = 1024  # longer ones are cut

FAULTY = 60  # addresses of the Rust program into which faults are put

# Correct differences.
KNOWN = {
    "where": "gdb does not say in which function a lambda, a local class or an inlined procedure of Fortran is",
    "alias": "two symbols of one function",
    "part": "a part or copy that the compiler made has its own symbol; gdb names the whole",
    "arguments": "gcc leaves default arguments of templates out, and writes constants without their type",
    "start": "no symbol: gdb prints the debug information's name or none, we the object and the start of the function",
    "padding": "no function covers the address: gdb names the one before, or none",
    "file alone": "a call without a line: we have its file, gdb nothing",
    "rust": "gdb puts names of Rust together from modules; the symbol has the type and the trait, which we show",
    "cut": "a name of more than 1,024 bytes: its begin and its end are those of the symbol, a hash keeps it apart",
    "stub": "gdb knows no function in a stub of another object's",
}


def run(*command, stdin=None, check=True, **more):
    done = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", check=False, **more)
    if check and done.returncode != 0:
        sys.exit(f"names: {' '.join(command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


class Program:
    """A file, its code and its symbols; debug is the same file before it was stripped."""

    def __init__(self, path, debug=None, debug_root=None, symbols=None):
        self.path = path
        self.debug = debug or path
        self.debug_root = debug_root
        self.text = next((int(m[1], 16), int(m[2], 16)) for m in re.finditer(
            r"\] \.text +PROGBITS +([0-9a-f]+) [0-9a-f]+ ([0-9a-f]+)", run("readelf", "-SW", path)))
        self.names = collections.defaultdict(set)
        self.functions = []
        for file, *flags in ((self.debug,), (self.debug, "-D"), (symbols or self.debug,)):
            for line in run("nm", "-S", "--defined-only", *flags, file, check=False).splitlines():
                m = re.match(r"([0-9a-f]+) (?:([0-9a-f]+) )?[tTwWi] (\S+)", line)
                if m:
                    self.names[int(m[1], 16)].add(m[3].split("@")[0])
                if m and m[2] and int(m[2], 16):
                    self.functions.append((int(m[1], 16), int(m[2], 16)))

    def addresses(self, count):
        """Random, but the same in every run, in functions of known size."""
        start, size = self.text
        inside = sorted({f for f in self.functions if start <= f[0] < start + size})
        chooser = random.Random(20)
        picked = chooser.choices(inside, [s for _, s in inside], k=count)
        return [f + chooser.randrange(s) for f, s in picked]

    def is_alias(self, ours, theirs, address):
        for start, size in self.functions:
            if start <= address < start + size:
                names = self.names[start]
                if ours in names and (theirs in names or theirs in map(unmangled, names)):
                    return True
        return False


UNMANGLED = {}


def unmangled(symbol):
    if symbol not in UNMANGLED:
        UNMANGLED[symbol] = run("c++filt", "-p", symbol).strip()
    return UNMANGLED[symbol]


def ask_us(program, addresses):
    """Per address [(readable name, file, line, symbol)], innermost first."""
    answers = []
    root = ["--root", program.debug_root] if program.debug_root else []
    for line in run(LOOKUP, *root, program.path, stdin="".join(f"{a:x}\n" for a in addresses)).splitlines():
        if re.fullmatch(r"0x[0-9a-f]{16}", line):
            answers.append([])
        else:
            symbol, file, number, name = line.split("\t")
            answers[-1].append((name, file, int(number), symbol))
    return answers


def ask_gdb(program, addresses):
    """Per address [(name or None, file, line)], innermost first; a text if gdb has no answer."""
    with tempfile.TemporaryDirectory() as folder:
        asked, out = os.path.join(folder, "asked"), os.path.join(folder, "out")
        with open(asked, "w", encoding="ascii") as file:
            file.writelines(f"{a:x}\n" for a in addresses)
        root = ["-iex", f"set debug-file-directory {program.debug_root}"] if program.debug_root else []
        run("gdb", "-batch", "-nx", *root, "-ex", f"py addresses, out = {asked!r}, {out!r}",
            "-x", os.path.join(HERE, "gdb_stacks.py"), "--args", program.debug)
        if not os.path.exists(out):
            sys.exit(f"names: gdb said nothing of {program.debug}")
        with open(out, encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def without_arguments(name):
    name = re.sub(r"operator(<=>|<<=|>>=|->\*|->|<<|>>|<=|>=|<|>)", "operator_", name)
    while re.search(r"<[^<>]*>", name):
        name = re.sub(r" ?<[^<>]*>", "", name)
    return name


def plain(name):
    """The same for all spellings of a name."""
    name = re.sub(r"\{lambda(\((?:[^(){}]|\([^()]*\))*\))?(?:#\d+|:\d+)*(?::\d+)?\}", "{lambda}", name)
    name = re.sub(r"<lambda(\((?:[^()]|\([^()]*\))*\))?>", "{lambda}", name)
    name = name.replace("{unnamed type#", "{unnamed#").replace("(anonymous namespace)", "{anonymous}")
    name = re.sub(r"\(char\)(\d+)", lambda m: repr(chr(int(m[1]))), name)
    name = re.sub(r"(?<=[<, ])(-?\d+)[ul]+\b", r"\1", name)
    name = re.sub(r" ?\[clone [^\]]*\]", "", name)
    # Symbols have short forms of these (So, Si, Sd).
    name = re.sub(r"\bstd::(o|i|io)stream\b", r"std::basic_\1stream<char, std::char_traits<char>>", name)
    return name.replace(" >", ">")


def without_parameters(name):
    """gdb prints the parameters of some functions only."""
    end = re.search(r"\)( const| volatile| ?&&?|\[abi:\w+\])*$", name)
    depth, at = 0, end.start() if end else -1
    while at >= 0:
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            break
        at -= 1
    rest = name[:at] if at > 0 else name
    return name if rest.endswith(("operator", "::", "<", ",", " ")) or not rest else rest


def parts(name):
    """The parts between the :: of a name, without arguments; a part that is only <...> is None."""
    found, depth, text = [], 0, ""
    name = name.replace("->", "").replace("::<", "<")
    name = re.sub(r"\{\{vtable\.shim\}\}|::\{shim:[^}]*\}", "", name)
    for piece in re.findall(r"::|[<>]|[^<>:]+|:", name):
        if piece == "::" and depth == 0:
            found.append(text or None)
            text = ""
        else:
            depth += {"<": 1, ">": -1}.get(piece, 0)
            text += piece if depth == 0 and piece != ">" else ""
    return [*found, text or None]


def same_in_rust(ours, theirs, symbol):
    """Whether gdb's name, which has the modules, means the function of the symbol, and ours is the symbol's."""
    if RUST_HASH.search(theirs) or theirs == symbol:
        return ours == RUST_HASH.sub("", theirs)
    if re.fullmatch(r"\w+", symbol) and not symbol.startswith("_"):
        return ours == symbol == parts(theirs)[-1]  # no_mangle
    known = re.sub(r"::h[0-9a-f]{16}$", "", RUST_HASH.sub("", unmangled(symbol)))
    if not symbol.startswith(("_R", "_ZN")) or parts(ours) != parts(known) or not arguments_agree(known, ours):
        return False
    if symbol.startswith("_R"):
        return tuple(parts(theirs)) in rust_v0.modules(symbol) and arguments_meet(ours, theirs)
    # An old symbol has no number for the implementation or its closures.
    other = [p for p in parts(re.sub(r"\{closure#\d+\}", "closure", theirs)) if p and not p.startswith("{impl#")]
    return words(parts(ours)[-1] or "")[-1:] == other[-1:] and in_order(other, words(ours))


def arguments_meet(ours, theirs):
    """
    Whether both have a common word in their arguments, if both have any. They have different arguments: the symbol
    those of the implementation, gdb those of the function, and the default allocator. Words of the function's own
    path do not count.
    """
    path = {w for part in parts(theirs) for w in words(part or "")} | {"alloc", "Global"}
    mine, other = ({w for part in re.findall(r"<(.*)>", name) for w in words(part)} - path for name in (ours, theirs))
    return not mine or not other or bool(mine & other)


RUST_HASH = re.compile(r"\[[0-9a-f]{8,16}\]")


def words(name):
    """The words of a name with its arguments, without the parameters of the functions around it."""
    name = plain(name)
    while re.search(r"\([^()]*\)(?: const)?::", name):
        name = re.sub(r"\([^()]*\)(?: const)?::", "::", name)
    for said, short in (("long unsigned int", "unsigned long"), ("long int", "long"), ("short int", "short")):
        name = name.replace(said, short)
    # A constant in Rust has its type as a suffix.
    name = re.sub(r"\b(\d+|0x[0-9a-f]+)(?:[iu](?:8|16|32|64|128|size))\b", lambda m: str(int(m[1], 0)), name)
    return [w for w in re.findall(r"\w+|'.'", name) if w not in ("const", "struct")]


def in_order(some, words_of_all):
    rest = iter(words_of_all)
    return all(w in rest for w in some)


def arguments_agree(ours, theirs):
    """Each word of gdb's name is in ours, in this order: gdb may only leave words out."""
    return in_order(words(theirs), words(ours))


def differ_in_name(ours, theirs, file, symbol, program, address):
    """None, or the kind of the difference."""
    if ours == theirs:
        return None
    cut = re.fullmatch(r"(.*)\[\.\.\.[0-9a-f]{8}\.\.\.\](.*)", ours)
    if cut:
        whole = re.sub(r"\b(\d+): \w+", r"\1", RUST_HASH.sub("", unmangled(symbol)))
        if len(ours) < NAME_MAX or not whole.startswith(cut[1]) or not whole.endswith(cut[2]):
            return "function"
        kind = differ_in_name(whole, theirs, file, symbol, program, address)
        return "cut" if kind in (None, *KNOWN) else kind
    # gdb's mark for Ada's generated names.
    mine, other = plain(ours), plain(re.sub(r"^<(\w+)>$", r"\1", without_parameters(theirs)))
    if mine == other:
        return None
    if "@plt" in ours:
        return "stub"
    if re.fullmatch(r".*\+0x[0-9a-f]+", ours):
        return "start"
    if re.sub(r"(\.(isra|part|constprop|cold|lto_priv|localalias|llvm|str)(\.\d+)*)+$", "", mine) == other:
        return "part"
    # gdb's name has to begin with the class, so that a missing namespace on either side is noticed.
    if mine.endswith("::" + other) and ("::" in other or "{lambda}" in other) or mine.endswith("{lambda}::" + other):
        return "where"
    if file.endswith(".f90") and mine.endswith("::" + other):
        return "where"
    if file.endswith(".rs") or symbol.startswith("_R"):
        return "rust" if same_in_rust(ours, theirs, symbol) else "function"
    short, long = without_arguments(other), without_arguments(mine)
    if short == long:
        return "arguments" if "<" in mine and "<" in other and arguments_agree(mine, other) else "function"
    if long.endswith("::" + short) and ("::" in short or "{lambda}" in short) or long.endswith("{lambda}::" + short):
        return "where"
    if program.is_alias(symbol, theirs, address):
        return "alias"
    return "function"


def differ(ours, theirs, program, address):
    """The first difference, or None, and the number of functions that gdb names, and that we name."""
    if isinstance(theirs, str):
        return "gdb: " + theirs, 0, 0
    theirs = [f for f in theirs]
    if theirs[-1][0] is None:
        return "padding" if len(ours) == 1 else "function", 0, 0
    named = sum(f[0] is not None for f in theirs)
    ours_named = sum("+0x" not in f[0] and f[0] != "[inlined]" for f in ours[:named])
    if len(ours) != len(theirs):
        return "depth", named, ours_named
    kinds = []
    for mine, other in zip(ours, theirs):
        kind = differ_in_name(mine[0], other[0], mine[1], mine[3], program, address)
        kinds.append(kind)
        if kind is not None and kind not in KNOWN:
            return f"{kind}: {mine[0]} / {other[0]}" if os.environ.get("PAIRS") else kind, named, ours_named
        if mine[1] and other[1] and os.path.normpath(mine[1]) != os.path.normpath(other[1]):
            kinds.append("file")
        elif mine[1] and not other[1] and not mine[2]:
            kinds.append("file alone")
        elif bool(mine[1]) != bool(other[1]):
            kinds.append("file")
        elif mine[2] != other[2]:
            kinds.append("line")
    unknown = [k for k in kinds if k is not None and k not in KNOWN]
    return next(iter(unknown), next((k for k in kinds if k), None)), named, ours_named


class Result:
    def __init__(self):
        self.asked = self.named = self.ours = 0
        self.count = collections.Counter()
        self.example = {}

    def add(self, ours, theirs, program, address):
        kind, named, mine = differ(ours, theirs, program, address)
        self.asked += 1
        self.named += named
        self.ours += mine
        if kind is not None:
            self.count[kind] += 1
            self.example.setdefault(kind, f"{program.path} {address:#x}\n        ours {[f[:3] for f in ours]}\n        "
                                          f"gdb  {theirs}")

    def unexplained(self):
        return sum(n for kind, n in self.count.items() if kind not in KNOWN)

    def report(self, what):
        print(f"{what}: {self.asked} addresses, {self.named} functions that gdb names, {self.ours} named; "
              f"{sum(self.count.values())} addresses differ, {self.unexplained()} unexplained")
        for kind, n in self.count.most_common():
            print(f"    {n:6} {kind}: {KNOWN.get(kind, 'NO REASON KNOWN')}")
            if kind not in KNOWN:
                print(f"        e.g. {self.example[kind][:1500]}")

    def is_good(self):
        return self.unexplained() == 0 and self.named > 0 and self.ours >= NAMED_MIN * self.named


def judge(program, count, spoil=None):
    addresses = program.addresses(count)
    result = Result()
    answers = ask_us(program, addresses)
    if spoil is not None:
        spoil(answers)
    for ours, theirs, address in zip(answers, ask_gdb(program, addresses), addresses, strict=True):
        result.add(ours, theirs, program, address)
    return result


def have(program):
    return shutil.which(program) is not None


def newest(*programs):
    return next((p for p in programs if have(p)), None)


def version(program):
    m = re.search(r"\d+(\.\d+)+", run(program, "--version", check=False))
    return m[0] if m else "?"


def built(folder, name, *command):
    """The program that a compiler makes, or None. Some write more files into the folder."""
    folder = os.path.join(folder, name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, os.path.basename(name))
    done = subprocess.run([*command, "-o", path], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          check=False, cwd=folder)
    if done.returncode != 0:
        print(f"    left out: {' '.join(command)}: {done.stderr.strip()[:300]}")
        return None
    return path


def c_and_cxx(folder):
    """(compiler, form, Program) of C and C++."""
    compilers = [("gcc", "gcc", "g++"), ("clang-14", "clang-14", "clang++-14")]
    for number in (19, 16):
        if have(f"clang++-{number}"):
            compilers.append((f"clang-{number}", f"clang-{number}", f"clang++-{number}"))
            break
    forms = [("-O0", ["-O0"]), ("-O1", ["-O1"]), ("-O2", ["-O2"]), ("-O3", ["-O3"]),
             ("LTO", ["-O2", "-flto"]), ("split", ["-O2", "-gsplit-dwarf"]), ("packed", ["-O2", "-gz=zlib"]),
             ("DWARF 4", ["-O2", "-gdwarf-4"]), ("type units", ["-O2", "-fdebug-types-section"])]
    for compiler, cc, cxx in compilers:
        if not have(cxx):
            continue
        for form, flags in forms:
            if form == "LTO" and compiler != "gcc":
                flags = [*flags, f"-fuse-ld=lld{compiler.removeprefix('clang')}"]
            for source, driver in (("shapes.cc", cxx), ("templates.cc", cxx), ("shapes.c", cc)):
                standard = ["-std=gnu++17"] if driver == cxx else []
                path = built(folder, f"{source}-{compiler}-{form}".replace(" ", ""), driver, "-g", *standard, *flags,
                             os.path.join(HERE, source))
                if path:
                    yield f"{compiler} {version(cc)}", form, Program(path)


def others(folder):
    """(compiler, form, Program) of other languages."""
    for level in ("-O0", "-O2", "-O3"):
        path = have("gfortran") and built(folder, f"fortran{level}", "gfortran", "-g", level,
                                          os.path.join(HERE, "shapes.f90"))
        if path:
            yield f"gfortran {version('gfortran')}", level, Program(path)
        path = have("gnatmake") and built(folder, f"ada{level}", "gnatmake", "-q", "-f", "-g", level,
                                          os.path.join(HERE, "shapes.adb"))
        if path:
            yield f"gnat {version('gnatmake')}", level, Program(path)
    for level in ("0", "2", "3"):
        path = have("rustc") and built(folder, f"rust{level}", "rustc", "-g", "-C", f"opt-level={level}",
                                       os.path.join(HERE, "shop.rs"))
        if path:
            yield f"rustc {version('rustc')}", f"-O{level}", Program(path)


def stripped(folder):
    """(package, form, Program) of packaged binaries, and of one that is stripped here."""
    source = built(folder, "whole", "g++", "-g", "-O2", os.path.join(HERE, "templates.cc"))
    if source:
        path, debug = os.path.join(folder, "stripped"), os.path.join(folder, "stripped.debug")
        run("objcopy", "--only-keep-debug", source, debug)
        run("objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", source, path)
        yield "gcc " + version("gcc"), "stripped, .gnu_debuglink", Program(path, source)
    libc = next(iter(re.findall(r"=> (\S*/libc\.so\.6)", run("ldd", LOOKUP))), None)
    if libc:
        build_id = re.search(r"Build ID: (\w\w)(\w+)", run("readelf", "-n", libc))
        debug = f"/usr/lib/debug/.build-id/{build_id[1]}/{build_id[2]}.debug"
        if os.path.exists(debug):
            yield "Debian's libc6", "with libc6-dbg", Program(libc, symbols=debug)
        yield "Debian's libc6", "stripped", Program(libc, debug_root="/nonexistent")
    for program in ("python3", "bash"):
        path = os.path.realpath(f"/usr/bin/{program}")
        if os.path.exists(path):
            yield f"Debian's {program}", "stripped", Program(path, debug_root="/nonexistent")


def table(rows):
    lines = ["| compiler | form | addresses | functions that gdb names | named | differ, with a reason | wrong |",
             "|---|---|---|---|---|---|---|"]
    for (compiler, form), r in rows.items():
        share = f"{100 * r.ours / r.named:.1f} %" if r.named else "-"
        lines.append(f"| {compiler} | {form} | {r.asked} | {r.named} | {share} | "
                     f"{sum(r.count.values()) - r.unexplained()} | {r.unexplained()} |")
    return lines


def write_readme(lines):
    with open(README, encoding="utf-8") as file:
        text = file.read()
    begin, end = "<!-- names: begin -->\n", "<!-- names: end -->"
    before, rest = text.split(begin)
    with open(README, "w", encoding="utf-8") as file:
        file.write(before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1])


def judge_all(count, folder, to_readme):
    os.makedirs(folder, exist_ok=True)
    programs = [*c_and_cxx(folder), *others(folder), *stripped(folder)]
    rows, total = {}, Result()
    for compiler, form, program in programs:
        row = rows.setdefault((compiler, form), Result())
        part = judge(program, -(-count // len(programs)))
        part.report(f"{compiler} {form} {os.path.basename(program.path)}")
        for one in (row, total):
            one.asked, one.named, one.ours = one.asked + part.asked, one.named + part.named, one.ours + part.ours
            one.count += part.count
            one.example.update(part.example)
    lines = table(rows)
    print("\n".join(lines))
    total.report("all")
    if to_readme:
        write_readme(lines)
    good = [faults(program.path, FAULTY) for compiler, form, program in programs
            if compiler.startswith("rustc") and form == "-O2"]
    return all(good) and total.is_good() and total.asked >= count


# Each is a way in which an answer can be wrong, and the comparison must notice it. They change one function of a
# stack.
FAULTS = {
    "another function": lambda f: ("nobody::" + f[0].split("::")[-1] + "_other", f[1], f[2], "none"),
    "another namespace": lambda f: ("elsewhere::" + f[0].split("::")[-1] if "::" in f[0] else "elsewhere", *f[1:3], "none"),
    "no namespace": lambda f: (without_arguments(f[0]).split("::")[-1], *f[1:3], "none") if "::" in f[0] else None,
    "another argument": lambda f: (re.sub(r"(?<=[\w:])<(\w+)", r"<other_\1", f[0], count=1), *f[1:])
    if re.search(r"(?<=[\w:])<\w", f[0]) and "[..." not in f[0] else None,
    "another line": lambda f: (f[0], f[1], f[2] + 1, f[3]) if f[2] else None,
    "no line": lambda f: (f[0], f[1], 0, f[3]) if f[2] else None,
    "another file": lambda f: (f[0], f[1] + "x", f[2], f[3]) if f[1] else None,
    "no file": lambda f: (f[0], "", f[2], f[3]) if f[1] else None,
}
FAULTY_STACKS = {
    "no innermost function": lambda stack: stack[1:] if len(stack) > 1 else None,
    "no outermost function": lambda stack: stack[:-1] if len(stack) > 1 else None,
    "one function too many": lambda stack: [stack[0], *stack],
    "two functions the other way round": lambda stack: stack[1::-1] + stack[2:] if len(stack) > 1 and
    stack[0][0] != stack[1][0] else None,
}


def notices(program, addresses, ours, theirs, change):
    """Of the accepted answers that could be changed like this: the number that are then called wrong, and the number
    that were tried."""
    noticed = tried = 0
    for mine, other, address in zip(ours, theirs, addresses):
        spoilt = change(mine)
        if spoilt is None or differ(mine, other, program, address)[0] not in (None, "rust", "arguments", "cut"):
            continue
        if any(m[1] and not o[1] for m, o in zip(mine, other)):
            continue  # gdb has no file to compare with
        tried += 1
        noticed += differ(spoilt, other, program, address)[0] not in (None, *KNOWN)
    return noticed, tried


def faults(path, count):
    program = Program(path)
    addresses = program.addresses(count)
    ours, theirs = ask_us(program, addresses), ask_gdb(program, addresses)
    good = True
    changes = dict(FAULTY_STACKS)
    namesakes = collections.defaultdict(dict)
    for stack in ours:
        for name, _, _, symbol in stack:
            if "+0x" not in name:
                namesakes[without_arguments(name).split("::")[-1], "::" in name].setdefault(without_arguments(name), (name, symbol))

    def namesake(f):
        """Another function with the same last part: another class's, another implementation of a trait."""
        mine = without_arguments(f[0])
        others = namesakes[mine.split("::")[-1], "::" in f[0]]
        return next(((name, *f[1:3], symbol) for other, (name, symbol) in others.items()
                     if plain(other) != plain(mine) and other and not plain(mine).endswith("::" + plain(other))), None)
    for what, change in {**FAULTS, "a namesake": namesake}.items():
        for at in (0, -1):
            def spoil(stack, change=change, at=at):
                one = change(stack[at])
                place = at % len(stack)
                return None if one is None else [*stack[:place], one, *stack[place + 1:]]
            changes[f"{what}, {'innermost' if at == 0 else 'outermost'}"] = spoil
    for what, change in changes.items():
        noticed, tried = notices(program, addresses, ours, theirs, change)
        print(f"    {what}: {noticed} of {tried} noticed")
        good = good and noticed == tried and (tried > 0 or what.startswith(("no namespace", "another argument", "a namesake")))
    return good


def main():
    what, where, *rest = sys.argv[1:]
    if what == "all":
        good = judge_all(int(where), os.path.abspath(rest[0]), "--readme" in rest)
    elif what == "one":
        result = judge(Program(where), int(rest[0]))
        result.report(where)
        good = result.is_good()
    else:
        good = faults(where, int(rest[0]))
    sys.exit(0 if good else 1)


main()
