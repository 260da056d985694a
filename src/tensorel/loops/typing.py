"""What variables and expressions hold: numbers of a dtype, or arrays.

A number is *weak* if it is one of Python's: it takes the dtype of NumPy's beside it, whole numbers
do not wrap around, and a division by zero is an error. A variable has one type, the join of all
that it is set to; what is set is converted, and where that is not exact the program stops with an
error. So a sum that begins with ``0`` and adds doubles is a double from the beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL
from tensorel.errors import TensorelError, TypeError_
from tensorel.loops import functions
from tensorel.loops.origin import Origin
from tensorel.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Body,
    Choice,
    Copy,
    Expr,
    Extent,
    For,
    Item,
    Name,
    Number,
    Return,
    Stmt,
    Store,
    operands,
    walk,
)
from tensorel.loops.types import (
    PY_BOOL,
    PY_COMPLEX,
    PY_FLOAT,
    PY_INT,
    ArrayOf,
    Scalar,
    Type,
    is_whole,
    join,
    taken,
    type_of,
)


class Typing:
    """The types of a program with these parameters."""

    def __init__(self, origin: Origin, body: Body, given: Mapping[str, Type]) -> None:
        self.origin = origin
        self.body = body
        self.names: dict[str, Type] = dict(given)
        self._known: dict[Expr, Scalar | None] = {}
        self._settle()
        self._require_all()

    # -- variables ---------------------------------------------------------------------------
    def _settle(self) -> None:
        """Until nothing changes: joins only go up, and there are few steps."""
        before: dict[str, Type] | None = None
        while before != self.names:
            before = dict(self.names)
            self._known.clear()
            for stmt in walk(self.body):
                self._statement(stmt)
        self._known.clear()

    def _statement(self, stmt: Stmt) -> None:
        match stmt:
            case For():
                self._set(stmt.target, PY_INT, stmt)
            case Copy():
                found = self.names.get(stmt.source)
                if found is not None:
                    self._set(stmt.name, found, stmt)
            case Allocate():
                made = self._allocated(stmt)
                if made is not None:
                    self._set(stmt.name, made, stmt)
            case Assign(value=Name(name=source)) if isinstance(self.names.get(source), ArrayOf):
                self._set(stmt.name, self.names[source], stmt)
            case Assign():
                value = self.of(stmt.value)
                if value is not None:
                    self._set(stmt.name, value, stmt)

    def _set(self, name: str, t: Type, stmt: Stmt) -> None:
        before = self.names.get(name)
        joined = t if before is None else join(before, t)
        if joined is None:
            self.fail(f"{_shown(name)} holds {before} elsewhere and {t} here", stmt.line,
                      "use two names, or convert one of them")
        self.names[name] = joined

    def _allocated(self, stmt: Allocate) -> ArrayOf | None:
        rank = len(stmt.extents)
        if stmt.like is not None:
            like = self.names.get(stmt.like)
            if not isinstance(like, ArrayOf):
                return None
            rank = like.rank
        if stmt.dtype is not None:
            return ArrayOf(stmt.dtype, rank)
        if stmt.of is not None:
            of = self.names.get(stmt.of)
            return None if of is None else ArrayOf(of.dtype, rank)
        fill = self.of(stmt.fill)
        return None if fill is None else ArrayOf(fill.dtype, rank)

    def _require_all(self) -> None:
        """Every expression has a type that its place allows."""
        for stmt in walk(self.body):
            if isinstance(stmt, Return) or (
                    isinstance(stmt, Assign) and isinstance(stmt.value, Name)):
                for e in operands(stmt):
                    if not isinstance(e, Name):
                        self.number(e)
                    elif e.name not in self.names:
                        self.fail(f"{_shown(e.name)} is never set", e.line)
                continue
            for e in operands(stmt):
                self.number(e)
            match stmt:
                case For():
                    for e in (stmt.start, stmt.stop, stmt.step):
                        self.whole(e)
                case Store():
                    t = self.array(stmt.array, stmt.line, len(stmt.indices))
                    for e in stmt.indices:
                        self.whole(e)
                    if self.number(stmt.value).dtype.kind == "c" and t.dtype.kind not in "cb":
                        self.fail(f"a complex number does not fit an array of {t.dtype.name}",
                                  stmt.line)
                case Allocate():
                    for e in stmt.extents:
                        self.whole(e)

    def number(self, e: Expr) -> Scalar:
        """The type of an expression that must be a number."""
        found = self.of(e)
        if found is None:
            what = _shown(e.name) if isinstance(e, Name) else "a variable in this line"
            self.fail(f"{what} is used and never set", e.line)
        return found

    def whole(self, e: Expr) -> Scalar:
        t = self.number(e)
        if (t.dtype.kind not in "iu" and not t.weak) or t.dtype.kind not in "biu":
            self.fail(f"a whole number is needed here, not {t}", e.line,
                      "use // or int(...)")
        return t

    def array(self, name: str, line: int, rank: int | None = None) -> ArrayOf:
        t = self.names.get(name)
        if not isinstance(t, ArrayOf):
            self.fail(f"{_shown(name)} is {'a number' if t else 'never set'}, not an array", line)
        if rank is not None and t.rank != rank:
            self.fail(f"{_shown(name)} has {t.rank} axes and is used with {rank} "
                      f"{'index' if rank == 1 else 'indices'}", line,
                      "write a loop over the other axes" if rank < t.rank else None)
        return t

    def fail(self, message: str, line: int, hint: str | None = None,
             kind: type[TensorelError] = TypeError_) -> NoReturn:
        self.origin.fail(kind, message, line, hint)

    # -- expressions -------------------------------------------------------------------------
    def of(self, e: Expr) -> Scalar | None:
        """The type of a number; None where a variable in it has none yet."""
        if e not in self._known:
            self._known[e] = self._of(e)
        return self._known[e]

    def _of(self, e: Expr) -> Scalar | None:
        match e:
            case Number():
                if type(e.value) is int and not -2**63 <= e.value < 2**63:
                    self.fail(f"{e.value} does not fit 64 bits", e.line)
                return type_of(e.value)
            case Name():
                found = self.names.get(e.name)
                if isinstance(found, ArrayOf):
                    self.fail(f"{_shown(e.name)} is an array: numbers are needed here", e.line,
                              "index it in a loop")
                return found
            case Item():
                if e.array not in self.names:
                    return None
                inside = [self.of(i) for i in e.indices]
                t = self.array(e.array, e.line, len(e.indices))
                for i, inner in zip(e.indices, inside):
                    if inner is not None:
                        self.whole(i)
                return Scalar(t.dtype)
            case Extent():
                return self._extent(e)
            case Choice():
                self.of(e.test)
                return self._joined(e, self.of(e.then), self.of(e.other))
            case Apply():
                return self._apply(e)
        raise AssertionError(e)

    def _extent(self, e: Extent) -> Scalar | None:
        if e.array not in self.names:
            return None
        t = self.array(e.array, e.line)
        if not -t.rank <= e.axis < t.rank:
            self.fail(f"{_shown(e.array)} has {t.rank} axes", e.line)
        return PY_INT

    def _joined(self, e: Expr, a: Scalar | None, b: Scalar | None) -> Scalar | None:
        if a is None or b is None:
            return a or b
        found = join(a, b)
        if not isinstance(found, Scalar):
            self.fail(f"one value is {a}, the other {b}", e.line, "convert one of them")
        return found

    def _apply(self, e: Apply) -> Scalar | None:
        name = e.function
        if name == "size":
            assert isinstance(e.args[0], Name)
            return PY_INT if e.args[0].name in self.names else None
        args = [self.of(a) for a in e.args]
        known = [a for a in args if a is not None]
        if len(known) < len(args):
            return PY_BOOL if name in functions.COMPARISONS or name == "not" else None
        try:
            return self._result(e, name, known)
        except TensorelError as error:
            if error.message.startswith(self.origin.name + ":"):
                raise
            self.fail(error.message, e.line, error.hint)

    def _result(self, e: Apply, name: str, args: list[Scalar]) -> Scalar:
        if name in ("and", "or"):
            return self._joined(e, *args)  # type: ignore[return-value]
        if name in ("min", "max"):
            self._real(e, args)
            return self._joined(e, *args)  # type: ignore[return-value]
        if name in functions.TEXT:
            whole = all(is_whole(a) for a in args)
            name = "%" if name == "text.%" else "//" if whole else "/"
        if name in functions.BINARY:
            return binary(self, e, name, *args)
        return unary(self, e, name, args)

    def _real(self, e: Expr, args: list[Scalar]) -> None:
        if any(a.dtype.kind == "c" for a in args):
            self.fail("complex numbers are not supported here", e.line)


def binary(typing: Typing, e: Apply, name: str, a: Scalar, b: Scalar) -> Scalar:
    """The type of what an operator of two numbers gives."""
    op = functions.BINARY[name]
    if a.weak and b.weak:
        return _python(typing, e, name, a, b)
    dtypes = taken(a, b)
    if name in functions.COMPARISONS:
        typing._real(e, [a, b] if name not in ("==", "!=") else [])
        return Scalar(BOOL)
    return Scalar(ops.check_dtype(op.resolve(*dtypes)[1]))


def _python(typing: Typing, e: Apply, name: str, a: Scalar, b: Scalar) -> Scalar:
    kinds = {a.dtype.kind, b.dtype.kind}
    if name in functions.COMPARISONS:
        typing._real(e, [a, b] if name not in ("==", "!=") else [])
        return PY_BOOL
    if name in ("&", "|", "^") and kinds == {"b"}:
        return PY_BOOL
    if name in ("<<", ">>", "&", "|", "^") and not kinds <= {"b", "i"}:
        typing.fail(f"{name} takes whole numbers, not {a} and {b}", e.line)
    if "c" in kinds:
        if name in ("//", "%"):
            typing.fail(f"{name} does not take complex numbers", e.line)
        return PY_COMPLEX
    if name == "/" or "f" in kinds:
        return PY_FLOAT
    if name == "**":
        power = e.args[1]
        if isinstance(power, Number) and isinstance(power.value, int) and power.value < 0:
            return PY_FLOAT
    return PY_INT


def unary(typing: Typing, e: Apply, name: str, args: list[Scalar]) -> Scalar:
    """The type of what a function gives."""
    a = args[0]
    if name == "not":
        return PY_BOOL
    if name in ("neg", "pos", "~", "abs"):
        if a.weak:
            if name == "~" and not is_whole(a):
                typing.fail(f"~ takes whole numbers, not {a}", e.line)
            if a.dtype.kind == "c":
                return PY_FLOAT if name == "abs" else a
            return PY_INT if a.dtype.kind == "b" else a
        op = functions.UNARY.get(name, ops.absolute)
        return Scalar(op.resolve(a.dtype)[1])
    if name == "np.where":
        return Scalar(ops.check_dtype(np.result_type(*taken(*args[1:]))))
    if name in functions.NUMPY:
        return Scalar(ops.check_dtype(functions.NUMPY[name].resolve(*taken(*args))[1]))
    if name in functions.CASTS:
        return Scalar(functions.CASTS[name])
    typing._real(e, args)
    if name in functions.MATH:
        return PY_FLOAT
    if name in functions.MATH_TESTS or name == "bool":
        return PY_BOOL
    if name in functions.MATH_WHOLE or name == "int":
        return PY_INT
    if name == "round":
        return PY_INT
    return PY_FLOAT


def _shown(name: str) -> str:
    return "a value" if name.startswith(".") else name

