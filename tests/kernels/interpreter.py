"""Loop IR in plain Python on NumPy arrays, every access checked: what a kernel means.

The oracle for the native back end, and a way to find out where a kernel goes wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import EngineError
from tensorel.ir.build import plus
from tensorel.ir.nodes import Call, Const, DType, Expr, Local, Read, Source
from tensorel.kernels.loopir.statements import (
    Append,
    AppendReserved,
    Assign,
    Break,
    Buffer,
    Comment,
    Continue,
    For,
    If,
    Kernel,
    Lanes,
    Length,
    Prefetch,
    Reserve,
    Status,
    Stmt,
    Store,
    While,
)

Array = np.ndarray[Any, np.dtype[Any]]


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


def interpret(
    kernel: Kernel, arrays: Sequence[Array], scalars: Sequence[object], lo: int, hi: int,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> tuple[Status, list[Array]]:
    """Run a kernel on [lo, hi); its status and the values of its buffers."""
    run = _Run(kernel, arrays, scalars, lo, hi, is_cancelled)
    with np.errstate(all="ignore"):
        status = Status.DONE if run.block(kernel.body) else Status.CANCELLED
    return status, [np.array(run.buffers[b], b.dtype) for b in kernel.buffers]


class _Run:
    def __init__(
        self, kernel: Kernel, arrays: Sequence[Array], scalars: Sequence[object], lo: int, hi: int,
        is_cancelled: Callable[[], bool],
    ) -> None:
        self.kernel = kernel
        self.arrays: Mapping[Source, Array] = dict(zip(kernel.arrays, arrays, strict=True))
        self.locals: dict[Local, Any] = {kernel.lo: np.int64(lo), kernel.hi: np.int64(hi)}
        for local, value in zip(kernel.scalars, scalars, strict=True):
            self.locals[local] = _converted(value, local.dtype)
        self.buffers: dict[Buffer, list[Any]] = {b: [] for b in kernel.buffers}
        self.room = dict.fromkeys(kernel.tables, 0)
        self.is_cancelled = is_cancelled

    # -- statements ----------------------------------------------------------------------------
    def block(self, body: tuple[Stmt, ...]) -> bool:
        """Run statements; False once cancelled."""
        return all(self.statement(stmt) for stmt in body)

    def statement(self, stmt: Stmt) -> bool:
        match stmt:
            case Assign():
                self.locals[stmt.target] = _converted(self.value(stmt.value), stmt.target.dtype)
            case Store():
                self.store(stmt)
            case Append() | AppendReserved() | Reserve():
                self.append(stmt)
            case Length():
                self.locals[stmt.target] = np.int64(len(self.buffers[stmt.table[0]]))
            case For() | While():
                return self.loop(stmt)
            case Lanes():
                turns = For(stmt.target, stmt.start, plus(stmt.start, stmt.count), stmt.body)
                return self.loop(turns)
            case If():
                return self.block(stmt.then if self.truth(stmt.condition) else stmt.otherwise)
            case Break():
                raise _Break
            case Continue():
                raise _Continue
            case Comment() | Prefetch():
                pass
            case _:
                raise EngineError(f"unknown statement {type(stmt).__name__}")
        return True

    def store(self, stmt: Store) -> None:
        if str(stmt.array.data) not in self.kernel.written:
            raise EngineError(f"store to {stmt.array.data}, which is not listed as written")
        value = _converted(self.value(stmt.value), stmt.array.dtype)
        self.arrays[stmt.array][self.position(stmt.array, stmt.position)] = value

    def append(self, stmt: Append | AppendReserved | Reserve) -> None:
        table = stmt.table
        length = len(self.buffers[table[0]])
        if isinstance(stmt, Reserve):
            wanted = length + int(self.value(stmt.count))
            self.room[table] = max(self.room[table], wanted)
            return
        if isinstance(stmt, AppendReserved) and length >= self.room[table]:
            raise EngineError(f"no room reserved in {table[0].name} for value {length}")
        if isinstance(stmt, AppendReserved) and stmt.condition is not None \
                and not self.truth(stmt.condition):
            return
        record = [_converted(self.value(e), b.dtype)
                  for b, e in zip(table, stmt.values, strict=True)]
        for b, value in zip(table, record):
            self.buffers[b].append(value)

    def loop(self, stmt: For | While) -> bool:
        if isinstance(stmt, For):
            counter = iter(range(int(self.value(stmt.lo)), int(self.value(stmt.hi))))
        while True:
            if isinstance(stmt, For):
                number = next(counter, None)
                if number is None:
                    return True
                self.locals[stmt.target] = _converted(number, stmt.target.dtype)
            elif not self.truth(stmt.condition):
                return True
            if stmt.checked and self.is_cancelled():
                return False
            try:
                if not self.block(stmt.body):
                    return False
            except _Break:
                return True
            except _Continue:
                continue

    # -- expressions ---------------------------------------------------------------------------
    def truth(self, expr: Expr) -> bool:
        return bool(self.value(expr))

    def position(self, array: Source, expr: Expr) -> int:
        at, size = int(self.value(expr)), len(self.arrays[array])
        if not 0 <= at < size:
            raise EngineError(
                f"kernel {self.kernel.name}: position {at} of {array.data}, which has {size}"
            )
        return at

    def value(self, expr: Expr) -> Any:
        match expr:
            case Const():
                return expr.value
            case Local():
                if expr not in self.locals:
                    raise EngineError(f"variable {expr.name} is used before it is set")
                return self.locals[expr]
            case Read(tensor=Source() as array, indices=(at,)):
                return self.arrays[array][self.position(array, at)]
            case Call():
                return self.call(expr)
            case _:
                raise EngineError(f"a kernel cannot evaluate {type(expr).__name__}")

    def call(self, node: Call) -> Any:
        op, args = node.op, node.args
        if op is ops.where:
            chosen = args[1] if self.truth(args[0]) else args[2]
            return _converted(self.value(chosen), node.dtype)
        if op is ops.logical_and:
            return np.bool_(self.truth(args[0]) and self.truth(args[1]))
        if op is ops.logical_or:
            return np.bool_(self.truth(args[0]) or self.truth(args[1]))
        return apply(op, [a.dtype for a in args], [self.value(a) for a in args])


def apply(op: ops.Operator, dtypes: Sequence[DType], values: Sequence[Any]) -> Any:
    """An operator on scalars, in the dtypes that it resolves to."""
    into, out = op.resolve(*dtypes)
    args = [_converted(v, d) for v, d in zip(values, into)]
    if op is ops.power and into[0].kind in "iu" and args[1] < 0:
        return out.type(0)  # NumPy refuses; kernels give 0
    return _converted(op.meaning(*args), out)


def _converted(value: object, dtype: DType) -> Any:
    return ops.cast(dtype).meaning(value)[()]  # type: ignore[index]
