# SPDX-License-Identifier: Apache-2.0
"""The modules of a function in the form of debug information, from its Rust symbol.

A v0 symbol says in which module the implementation is and its number in the module. The readable name has the type
and the trait instead, gdb's name the module: {impl#3}. https://doc.rust-lang.org/rustc/symbol-mangling/v0.html
"""
import re
import string

DIGITS = string.digits + string.ascii_lowercase + string.ascii_uppercase
DEPTH_MAX = 200


class Symbol:
    def __init__(self, text):
        self.text = text
        self.at = 0
        self.depth = 0

    def take(self, what):
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def next(self):
        c = self.text[self.at]
        self.at += 1
        return c

    def number(self):
        if self.take("_"):
            return 0
        value = 0
        while (c := self.next()) != "_":
            value = value * 62 + DIGITS.index(c)
        return value + 1

    def disambiguator(self):
        return self.number() + 1 if self.take("s") else 0

    def identifier(self):
        """(number, name)"""
        number = self.disambiguator()
        self.take("u")
        m = re.compile(r"0|[1-9]\d*").match(self.text, self.at)
        self.at = m.end()
        self.take("_")
        self.at += int(m[0])
        return number, self.text[self.at - int(m[0]):self.at]

    def back(self, what):
        """The text at an earlier position."""
        place = self.number()
        if place >= self.at:
            raise ValueError("forward")
        after, self.at = self.at, place
        result = what()
        self.at = after
        return result

    def path(self):
        """The spellings: with the number of the implementation, and with its type if gdb may name that."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ValueError("too deep")
        found = self.path_of(self.next())
        self.depth -= 1
        return found

    def path_of(self, kind):
        if kind == "C":
            return {(self.identifier()[1],)}
        if kind in "MX":
            number = self.disambiguator()
            places = self.path()
            of_type = self.type()
            if kind == "X":
                self.path()
                of_type = set()
            return {(*place, f"{{impl#{number}}}") for place in places} | of_type
        if kind == "Y":
            self.type()
            return self.path()
        if kind == "N":
            space = self.next()
            outer = self.path()
            number, name = self.identifier()
            if space == "C":
                name = f"{{closure#{number}}}"
            elif space.isupper():
                return outer
            return {(*path, name) for path in outer}
        if kind == "I":
            path = self.path()
            while not self.take("E"):
                self.argument()
            return path
        if kind == "B":
            return self.back(self.path)
        raise ValueError("no path")

    def argument(self):
        if self.take("L"):
            self.number()
        elif self.take("K"):
            self.constant()
        else:
            self.type()

    def constant(self):
        if self.take("B"):
            self.back(self.constant)
        elif not self.take("p"):
            m = re.compile(r"[a-z]n?[0-9a-f]*_").match(self.text, self.at)
            self.at = m.end()

    def type(self):
        """The paths of a type with a name."""
        kind = self.next()
        if kind.islower():
            return set()
        if kind in "RQ" and self.take("L"):
            self.number()
        if kind in "RQPOS":
            self.type()
        elif kind == "A":
            self.type()
            self.constant()
        elif kind == "T":
            while not self.take("E"):
                self.type()
        elif kind == "F":
            self.function()
        elif kind == "D":
            self.traits()
        elif kind == "B":
            return self.back(self.type)
        else:
            self.at -= 1
            return self.path()
        return set()

    def function(self):
        if self.take("G"):
            self.number()
        self.take("U")
        if self.take("K") and not self.take("C"):
            self.identifier()
        while not self.take("E"):
            self.type()
        self.type()

    def traits(self):
        if self.take("G"):
            self.number()
        while not self.take("E"):
            self.path()
            while self.take("p"):
                self.identifier()
                self.argument()
        self.take("L")
        self.number()


def modules(symbol):
    """The spellings of a function's path, each a tuple of its parts; empty if the symbol is of another kind."""
    if not symbol.startswith("_R"):
        return set()
    try:
        return Symbol(symbol[2:]).path()
    except (ValueError, IndexError, AttributeError):
        return set()
