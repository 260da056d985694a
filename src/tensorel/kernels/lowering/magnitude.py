"""How large the values of an expression can be: what is finite for sure.

Strict programs skip a term 0 * x only where x is finite: 0 * inf is nan. A bound on |x| follows
from bounds on the stored values (``Slot.most``) through sums and products; where it passes what the
dtype holds, or an operator is not one of these, nothing is known: infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Const, Expr, Read, Reduce, Source

_SLACK = 1.0 + 1e-6  # roundings
_SAME = frozenset({ops.negative, ops.positive, ops.absolute, ops.conjugate})


class Magnitudes:
    """Bounds of all subexpressions of one body."""

    def __init__(self) -> None:
        self.memo: dict[Expr, float] = {}

    def finite(self, e: Expr) -> bool:
        return self.of(e) < math.inf

    def of(self, e: Expr) -> float:
        """At most so large in absolute value, everywhere."""
        found = self.memo.get(e)
        if found is None:
            found = self._of(e) * _SLACK
            if not found <= _largest(e.dtype):
                found = math.inf
            self.memo[e] = found
        return found

    def _of(self, e: Expr) -> float:
        if e.dtype.kind in "biu":
            return _largest(e.dtype)
        match e:
            case Const():
                return float(abs(e.value))
            case Read():
                return self._read(e)
            case Reduce() if e.op is ops.add:
                return self.of(e.body) * repeated(e.axes, e.dtype)
            case Call():
                return self._call(e, [self.of(a) for a in e.args])
            case _:
                return math.inf

    def _read(self, e: Read) -> float:
        assert isinstance(e.tensor, Source)
        fill = float(abs(e.tensor.fill.value))
        most: float = getattr(e.tensor.data, "most", math.inf)
        return max(fill, most) if fill == fill else math.inf

    def _call(self, e: Call, parts: list[float]) -> float:
        if e.op is ops.add or e.op is ops.subtract:
            return sum(parts)
        if e.op is ops.multiply:
            return math.prod(parts) if math.inf not in parts else math.inf
        if e.op is ops.maximum or e.op is ops.minimum:
            return max(parts)
        if e.op is ops.where:
            return max(parts[1:])
        if e.op in _SAME or e.op.name.startswith("cast_"):
            return parts[0]
        return math.inf


def repeated(axes: Iterable[Axis], dtype: ops.DType) -> float:
    """How much larger than its terms a sum can be: their number, and a rounding each."""
    count = math.prod(float(a.extent) for a in axes)
    rounding = float(np.finfo(dtype.char).eps) if dtype.kind in "fc" else 0.0
    return count * math.exp(min(count * rounding, 700.0))


def _largest(dtype: ops.DType) -> float:
    """A quarter of the greatest number: bounds are rounded too."""
    if dtype.kind in "fc":
        return float(np.finfo(dtype.char).max) / 4
    return 2.0**64


def rounded(value: float) -> float:
    """A bound that many tensors share, so that they share plans: the next power of 2**32."""
    if not value < math.inf:
        return math.inf
    if value == 0:
        return 0.0
    return float(2.0 ** min(32 * math.ceil(math.log2(value) / 32), 1024 - 1))
