"""A small notation for kernels written by hand: Python's operators build expressions, ``with``
blocks build loops and branches.

>>> code = Code()
>>> n = code.let("n", code.array("text", UINT8)[0].to(INT64))
>>> with code.loop(n > 0):
...     code.set(n, n - 1)
>>> len(code.done())
2
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from tensorel.algebra import ops
from tensorel.config import current
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Call, DType, Expr, Local, Read, Source, const
from tensorel.kernels.loopir import statements
from tensorel.kernels.loopir.statements import Assign, If, Stmt, Store, While
from tensorel.kernels.runtime.compiled import CompiledKernel, compile

UINT8, UINT64 = np.dtype("uint8"), np.dtype("uint64")


def compiled(make: Callable[..., statements.Kernel], *of: Hashable) -> CompiledKernel:
    """The kernel that ``make`` builds, compiled once: the text of a parser takes milliseconds."""
    return _compiled(current().bounds, make, *of)


@cache
def _compiled(checked: bool, make: Callable[..., statements.Kernel], *of: Hashable
              ) -> CompiledKernel:
    return compile(make(*of), checked=checked)


class X:
    """An expression with operators. A Python number takes the dtype of the other side; both
    sides of an operator have one dtype."""

    __slots__ = ("e",)

    def __init__(self, e: Expr) -> None:
        self.e = e

    def _call(self, op: ops.Operator, other: X | int) -> X:
        right = other.e if isinstance(other, X) else const(other, self.e.dtype)
        assert right.dtype == self.e.dtype, (op.name, self.e.dtype, right.dtype)
        return X(Call(op, (self.e, right)))

    def __add__(self, other: X | int) -> X:
        return self._call(ops.add, other)

    def __sub__(self, other: X | int) -> X:
        return self._call(ops.subtract, other)

    def __mul__(self, other: X | int) -> X:
        return self._call(ops.multiply, other)

    def __floordiv__(self, other: X | int) -> X:
        return self._call(ops.floor_divide, other)

    def __and__(self, other: X | int) -> X:
        return self._call(ops.bitwise_and, other)

    def __or__(self, other: X | int) -> X:
        return self._call(ops.bitwise_or, other)

    def __xor__(self, other: X | int) -> X:
        return self._call(ops.bitwise_xor, other)

    def __lshift__(self, other: X | int) -> X:
        return self._call(ops.left_shift, other)

    def __rshift__(self, other: X | int) -> X:
        return self._call(ops.right_shift, other)

    def __lt__(self, other: X | int) -> X:
        return self._call(ops.less, other)

    def __le__(self, other: X | int) -> X:
        return self._call(ops.less_equal, other)

    def __gt__(self, other: X | int) -> X:
        return self._call(ops.greater, other)

    def __ge__(self, other: X | int) -> X:
        return self._call(ops.greater_equal, other)

    def is_(self, other: X | int) -> X:
        return self._call(ops.equal, other)

    def is_not(self, other: X | int) -> X:
        return self._call(ops.not_equal, other)

    def also(self, other: X) -> X:
        """Both hold; the second is evaluated only if the first does."""
        return X(Call(ops.logical_and, (self.e, other.e)))

    def otherwise(self, other: X) -> X:
        """One of both holds; the second is evaluated only if the first does not."""
        return X(Call(ops.logical_or, (self.e, other.e)))

    def pick(self, then: X, other: X | int) -> X:
        """``then`` where this condition holds, else ``other``, without a branch."""
        right = other.e if isinstance(other, X) else const(other, then.e.dtype)
        return X(Call(ops.where, (self.e, then.e, right)))

    def to(self, dtype: DType) -> X:
        return X(convert(self.e, dtype))


class Memory:
    """A physical array."""

    __slots__ = ("source",)

    def __init__(self, source: Source) -> None:
        self.source = source

    def __getitem__(self, position: X | int) -> X:
        at = position.e if isinstance(position, X) else const(position, INT64)
        return X(Read(self.source, (at,)))


def word(value: int) -> X:
    return X(const(value, UINT64))


def whole(value: int) -> X:
    return X(const(value, INT64))


def scalar(name: str) -> X:
    """An int64 parameter or range bound of the kernel."""
    return X(Local(name, INT64))


class Code:
    """Statements in the order of the calls."""

    def __init__(self) -> None:
        self._open: list[list[Stmt]] = [[]]
        self.arrays: dict[str, Memory] = {}

    def array(self, name: str, dtype: DType) -> Memory:
        """The array of that name, in the order of first mention."""
        return self.arrays.setdefault(name, Memory(statements.array(name, dtype)))

    def add(self, statement: Stmt) -> None:
        self._open[-1].append(statement)

    def let(self, name: str, value: X) -> X:
        """A variable that starts as ``value``."""
        local = Local(name, value.e.dtype)
        self.add(Assign(local, value.e))
        return X(local)

    def set(self, variable: X, value: X | int) -> None:
        assert isinstance(variable.e, Local)
        e = value.e if isinstance(value, X) else const(value, variable.e.dtype)
        assert e.dtype == variable.e.dtype
        self.add(Assign(variable.e, e))

    def store(self, memory: Memory, position: X | int, value: X | int) -> None:
        at = position.e if isinstance(position, X) else const(position, INT64)
        dtype = memory.source.dtype
        e = convert(value.e, dtype) if isinstance(value, X) else const(value, dtype)
        self.add(Store(memory.source, at, e))

    @contextmanager
    def loop(self, condition: X, *, checked: bool = False) -> Iterator[None]:
        self._open.append([])
        yield
        body = tuple(self._open.pop())
        self.add(While(condition.e, body, checked))

    @contextmanager
    def when(self, condition: X) -> Iterator[None]:
        self._open.append([])
        yield
        body = tuple(self._open.pop())
        self.add(If(condition.e, body))

    @contextmanager
    def unless(self) -> Iterator[None]:
        """The other branch of the ``when`` just before."""
        before = self._open[-1].pop()
        assert isinstance(before, If)
        self._open.append([])
        yield
        body = tuple(self._open.pop())
        self.add(If(before.condition, before.then, body))

    def done(self) -> tuple[Stmt, ...]:
        (body,) = self._open
        return tuple(body)
