"""What rows do to the accumulators of their groups."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64
from tensorel.base.records import dataclass
from tensorel.engines.rows.vectors import Array
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Call, DType, Expr, const


@dataclass(frozen=True, eq=False, slots=True)
class Update:
    """What a row does to its group: a monoid with a value, where ``condition`` holds. ``start``: of
    a group without rows."""

    op: ops.Operator
    value: Expr
    condition: Expr | None = None

    @property
    def dtype(self) -> DType:
        return FLOAT64 if self.value.dtype.kind == "f" else INT64

    @property
    def start(self) -> object:
        if self.op in (ops.add, ops.multiply):
            return int(self.op is ops.multiply)
        if self.dtype is FLOAT64:
            return np.nan if self.op is ops.minimum else -np.inf
        limits = np.iinfo(np.int64)
        return limits.max if self.op is ops.minimum else limits.min

    def combined(self, old: Expr) -> Expr:
        """nan is above all other numbers: the least is no nan where there is another value."""
        value = convert(self.value, self.dtype)
        if self.op is ops.minimum and self.dtype is FLOAT64:
            less = Call(ops.logical_or, (Call(ops.less, (value, old)), Call(ops.isnan, (old,))))
            return Call(ops.where, (less, value, old))
        return Call(self.op, (old, value))

    def where_it_holds(self, old: Expr) -> Expr:
        """The same for all rows. Sums get zeros: a loop adds terms in any order, and does not
        know what else depends on the sum before."""
        if self.condition is None:
            return self.combined(old)
        if self.op is ops.add:
            zero = const(0, self.dtype)
            term = Call(ops.where, (self.condition, convert(self.value, self.dtype), zero))
            return Call(ops.add, (old, term))
        return Call(ops.where, (self.condition, self.combined(old), old))

    @property
    def ufunc(self) -> np.ufunc:
        """The same of accumulators."""
        if self.op is ops.minimum and self.dtype is FLOAT64:
            return np.fmin
        return {ops.add: np.add, ops.multiply: np.multiply, ops.minimum: np.minimum,
                ops.maximum: np.maximum}[self.op]


def parts_of(updates: Sequence[Update]) -> list[Expr]:
    return [e for u in updates for e in (u.value, u.condition) if e is not None]


def merged(found: list[dict[DType, Array]], updates: Sequence[Update], widths: dict[DType, int]
            ) -> list[Array]:
    """The accumulators of all threads in one, each update for itself."""
    offsets = dict.fromkeys(widths, 0)
    result = []
    for u in updates:
        k, w = offsets[u.dtype], widths[u.dtype]
        offsets[u.dtype] += 1
        parts = [f[u.dtype][k::w] for f in found]
        out = np.ascontiguousarray(parts[0])
        for p in parts[1:]:
            out = np.asarray(u.ufunc(out, p))
        result.append(out)
    return result


def reduced(u: Update, parts: Array) -> Array:
    return np.asarray([u.ufunc.reduce(parts)], u.dtype)
