"""Expressions of programs as scalar expressions of the calculus.

``Expressions`` says what each operator and function does, ``Arithmetic`` (its subclass) each by
itself. What differs between a kernel, which runs statement by statement, and a formula for all
cells at once is left to subclasses: variables, entries, and what is done where something may go
wrong.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL, FLOAT64, INT64, DType
from tensorel.ir.build import convert
from tensorel.ir.nodes import Const, Expr, const
from tensorel.loops import syntax
from tensorel.loops.analysis.facts import Fact, Facts
from tensorel.loops.types import Scalar, join
from tensorel.loops.typing import Typing
from tensorel.loops.wrong import Wrong, call, misses, outside

#: Facts under which a whole number fits a dtype.
_FITTING = {"int8": Fact(0), "int16": Fact.INT16, "int32": Fact.INT32, "int64": Fact.FITS,
            "uint64": Fact.NATURAL}


class Expressions:
    """Lowers expressions under facts."""

    def __init__(self, typing: Typing, facts: Facts) -> None:
        self.typing = typing
        self.facts = facts

    # -- what subclasses say -----------------------------------------------------------------
    def variable(self, e: syntax.Name) -> Expr:
        """The value of a variable."""
        raise NotImplementedError

    def entry(self, e: syntax.Item) -> Expr:
        """An entry of an array."""
        raise NotImplementedError

    def extent_of(self, name: str, axis: int, line: int) -> Expr:
        """The extent of an axis."""
        raise NotImplementedError

    def size(self, name: str) -> Expr:
        """How many entries an array has."""
        raise NotImplementedError

    def apply(self, e: syntax.Apply) -> Expr:
        """An operator or a function."""
        raise NotImplementedError

    def hold(self, e: Expr) -> Expr:
        """The value, computed once and before what follows."""
        raise NotImplementedError

    def stop(self, fails: Expr | None, wrong: Wrong, line: int, what: str,
             a: Expr | None, b: Expr | None) -> None:
        """Stop with an error where the condition holds; always without one."""
        raise NotImplementedError

    def either(self, test: Expr, then: Callable[[], Expr], other: Callable[[], Expr]) -> Expr:
        """One of two values; only that one is computed."""
        raise NotImplementedError

    # -- checks ------------------------------------------------------------------------------
    def check(self, fails: Expr | None, wrong: Wrong, line: int, what: str = "",
              a: Expr | None = None, b: Expr | None = None) -> None:
        if not (isinstance(fails, Const) and not fails.value):
            self.stop(fails, wrong, line, what, a, b)

    def has(self, e: syntax.Expr, fact: Fact) -> bool:
        return fact in self.facts.get(e, Fact(0)) and bool(fact)

    # -- expressions -------------------------------------------------------------------------
    def type(self, e: syntax.Expr) -> Scalar:
        return self.typing.number(e)

    def value(self, e: syntax.Expr) -> Expr:
        """The value in the dtype of its type."""
        match e:
            case syntax.Number():
                return const(e.value, self.type(e).dtype)
            case syntax.Name():
                return self.variable(e)
            case syntax.Item():
                return self.entry(e)
            case syntax.Extent():
                return self.extent_of(e.array, e.axis, e.line)
            case syntax.Choice():
                t = self.type(e)
                return self.either(self.truth(e.test), lambda: self.joined(e.then, t),
                                   lambda: self.joined(e.other, t))
            case syntax.Apply(function="and" | "or"):
                return self._connected(e)
            case syntax.Apply(function="size", args=(syntax.Name(name=name),)):
                return self.size(name)
            case syntax.Apply():
                return self.apply(e)
        raise AssertionError(e)

    def _connected(self, e: syntax.Apply) -> Expr:
        """``a and b`` is a where a is false, else b."""
        t = self.type(e)
        if t.dtype == BOOL and all(self.type(a).dtype == BOOL for a in e.args):
            return self.truth(e)
        first = self.hold(self.joined(e.args[0], t))
        test = convert(first, BOOL)
        ways: list[Callable[[], Expr]] = [lambda: self.joined(e.args[1], t), lambda: first]
        if e.function == "or":
            ways.reverse()
        return self.either(test, *ways)

    def truth(self, e: syntax.Expr) -> Expr:
        """Whether Python takes the value for true."""
        match e:
            case syntax.Apply(function="not", args=(inner,)):
                return call(ops.logical_not, self.truth(inner))
            case syntax.Apply(function="and" | "or" as word, args=(a, b)):
                return self.connected(self.truth(a), lambda: self.truth(b), word == "and")
        return convert(self.value(e), BOOL)

    def connected(self, first: Expr, later: Callable[[], Expr], both: bool) -> Expr:
        """Both tests hold, or one of them; the second counts only if the first leaves it open."""
        raise NotImplementedError

    # -- conversions -------------------------------------------------------------------------
    def joined(self, e: syntax.Expr, t: Scalar) -> Expr:
        """The value as a variable of this type holds it: exactly, or the program stops."""
        found, own = self.value(e), self.type(e)
        if own.dtype == t.dtype:
            return found
        assert join(own, t) == t, (own, t)
        return self.exact(e, found, t.dtype)

    def exact(self, e: syntax.Expr, found: Expr, dtype: DType) -> Expr:
        source = found.dtype
        if isinstance(found, Const):
            made = convert(found, dtype)
            same = isinstance(made, Const) and bool(
                made.value.item() == found.value.item() or found.value != found.value)
            self.check(const(not same), Wrong.EXACT, e.line, f"{dtype.name} for {found.value}")
            return made
        if source == BOOL or (source.kind == dtype.kind and source.itemsize <= dtype.itemsize):
            return convert(found, dtype)
        if source.kind in "iu" and dtype.kind in "iu":
            return self.fitted(e, found, dtype)
        if source.kind in "iu":
            half = dtype.name in ("float32", "complex64")
            limit, fact = (2**24, Fact.INT16) if half else (2**53, Fact.SMALL)
            if source.itemsize >= (4 if half else 8) and not self.has(e, fact):
                found = self.hold(found)
                self.check(misses(convert(found, INT64), limit), Wrong.EXACT, e.line,
                           f"{dtype.name}", found)
            return convert(found, dtype)
        found = self.hold(found)
        made = self.hold(convert(found, dtype))
        back = convert(made, source)
        self.check(call(ops.logical_and, call(ops.not_equal, back, found),
                        call(ops.equal, found, found)), Wrong.EXACT, e.line, dtype.name, found)
        return made

    def fitted(self, e: syntax.Expr, found: Expr, dtype: DType) -> Expr:
        """A whole number of Python in a dtype of NumPy, where it fits."""
        if found.dtype == dtype or dtype.kind not in "iu" or isinstance(found, Const):
            if isinstance(found, Const) and dtype.kind in "iu":
                info = np.iinfo(dtype.name)
                inside = info.min <= int(found.value) <= info.max
                self.check(const(not inside), Wrong.FIT, e.line, dtype.name, found)
                return const(int(found.value) if inside else 0, dtype)
            return convert(found, dtype)
        if not self.has(e, _FITTING.get(dtype.name, Fact(0))) and found.dtype != BOOL:
            found = self.hold(found)
            info = np.iinfo(dtype.name)
            low, high = max(int(info.min), -2**63), min(int(info.max), 2**63 - 1)
            self.check(outside(convert(found, INT64), low, high), Wrong.FIT, e.line,
                       dtype.name, found)
        return convert(found, dtype)

    def operand(self, e: syntax.Expr, dtype: DType) -> Expr:
        """The value as NumPy takes it beside numbers of a dtype: Python's whole numbers must
        fit."""
        found = self.value(e)
        if self.type(e).weak and found.dtype.kind == "i" and dtype.kind in "iu":
            return self.fitted(e, found, dtype)
        if found.dtype.kind in "iu" and dtype == np.float32:
            found = convert(found, FLOAT64)
        return convert(found, dtype)
