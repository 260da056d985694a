"""zorder: every entry, in Morton order: the bits of the coordinates take turns, so that cells
that are near in the tensor are near in memory. Each extent is padded to a power of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.ir.build import as_expr
from tensorel.ir.nodes import Call, Expr
from tensorel.storage.entries import Coo, make_fill
from tensorel.storage.format import Format, PhysicalArrays, named
from tensorel.storage.laws import Look
from tensorel.storage.levels import Arrays, Found, Level, Position
from tensorel.storage.limits import require
from tensorel.storage.stack import entries_in, index_dtype, lambda_text, unlike_fill

T = TypeVar("T")


def places(bits: Sequence[int]) -> list[list[int]]:
    """Per axis the place in the Morton code of each of its bits; the last axis turns fastest."""
    found: list[list[int]] = [[] for _ in bits]
    place = 0
    for k in range(max(bits, default=0)):
        for axis in reversed(range(len(bits))):
            if k < bits[axis]:
                found[axis].append(place)
                place += 1
    return found


def _segments(targets: list[int]) -> list[tuple[int, int, int]]:
    """(first bit, number of bits, stride) of the stretches with one stride."""
    result: list[tuple[int, int, int]] = []
    k = 0
    while k < len(targets):
        stride = targets[k + 1] - targets[k] if k + 1 < len(targets) else 1
        end = k + 1
        while end < len(targets) and targets[end] - targets[end - 1] == stride:
            end += 1
        result.append((k, end - k, stride))
        k = end
    return result


@dataclass(frozen=True)
class Bits(Generic[T]):
    """Shifts and masks, on expressions or on arrays."""

    left: Callable[[T, int], T]
    right: Callable[[T, int], T]
    mask: Callable[[T, int], T]
    join: Callable[[T, T], T]

    def spread(self, x: T, count: int, stride: int) -> T:
        """The low ``count`` bits of x, ``stride`` apart, in logarithmically many steps."""
        step = 1 << max(count - 1, 0).bit_length()
        while step > 1 and stride > 1:
            step //= 2
            x = self.join(x, self.left(x, step * (stride - 1)))
            groups = -(-count // step)
            kept = sum(((1 << step) - 1) << (g * step * stride) for g in range(groups))
            x = self.mask(x, kept & (2**63 - 1))
        return x

    def morton(self, coords: Sequence[T], bits: Sequence[int]) -> T | None:
        """The Morton code; None when there are no bits at all."""
        code: T | None = None
        for c, targets in zip(coords, places(bits)):
            stretches = _segments(targets)
            for first, count, stride in stretches:
                part = self.right(c, first) if first else c
                if len(stretches) > 1:
                    part = self.mask(part, (1 << count) - 1)
                part = self.spread(part, count, stride)
                part = self.left(part, targets[first]) if targets[first] else part
                code = part if code is None else self.join(code, part)
        return code


def _call(op: ops.Operator) -> Callable[[Expr, int], Expr]:
    return lambda x, k: Call(op, (x, as_expr(k)))


IntArray = npt.NDArray[np.int64]
_ON_EXPRESSIONS: Bits[Expr] = Bits(
    _call(ops.left_shift), _call(ops.right_shift), _call(ops.bitwise_and),
    lambda x, y: Call(ops.bitwise_or, (x, y)),
)
_ON_ARRAYS: Bits[IntArray] = Bits(
    lambda x, k: x << k, lambda x, k: x >> k, lambda x, k: x & k, lambda x, y: x | y
)


@dataclass(frozen=True, slots=True)
class Morton(Level):
    """The position gathers the coordinates; the last level turns them into the Morton code."""

    bits: tuple[int, ...]
    last: bool

    @property
    def full(self) -> bool:
        return True

    def law(self, look: Look, axis: int, parents: int) -> int:
        return 0 if 0 in look.shape else 1 << sum(self.bits) if self.last else parents

    def find(self, arrays: Arrays, parent: Position, outer: Position, i: Expr) -> Found | None:
        coords = (*parent, i)
        if not self.last:
            return Found(None, coords)
        code = _ON_EXPRESSIONS.morton(coords, self.bits)
        return Found(None, (as_expr(0) if code is None else code,))


@dataclass(frozen=True, slots=True)
class ZOrder(Format):
    bits: tuple[int, ...] = ()

    @property
    def mapping(self) -> str:
        parts = [
            f"((i{a} >> {k}) & 1) << {place}" if k or place else f"i{a} & 1"
            for a, targets in enumerate(places(self.bits))
            for k, place in enumerate(targets)
        ]
        return lambda_text(self.rank, f"val[{' | '.join(parts) or '0'}]")

    def _codes(self, coo: Coo) -> IntArray:
        coords = [c.astype(np.int64) for c in coo.coords]
        code = _ON_ARRAYS.morton(coords, self.bits)
        return np.zeros(coo.count, dtype=np.int64) if code is None else code

    def pack(self, coo: Coo) -> PhysicalArrays:
        size, dtype = (1 << sum(self.bits) if 0 not in coo.shape else 0), coo.values.dtype
        padded = tuple(1 << b for b in self.bits)
        require(size * dtype.itemsize, f"Z-order of shape {coo.shape}, padded to {padded}")
        val = np.full(size, coo.fill, dtype=dtype)
        val[self._codes(coo)] = coo.values
        return {"val": val}

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        codes = np.flatnonzero(
            unlike_fill(arrays["val"], make_fill(fill, dtype), 24 + 12 * len(shape)))
        values = arrays["val"][codes]
        found = []
        for extent, targets in zip(shape, places(self.bits)):
            c = np.zeros(codes.size, dtype=np.int64)
            for k, place in enumerate(targets):
                c |= ((codes >> place) & 1) << k
            found.append(c.astype(index_dtype(extent)))
        return entries_in(self.order, found, values, shape, fill)

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        return prod(shape)


@named
def zorder(shape: tuple[int, ...], dtype: DType) -> Format:
    bits = tuple(max(n - 1, 0).bit_length() for n in shape)
    order = tuple(range(len(shape)))
    levels = tuple(Morton(bits, a == len(shape) - 1) for a in order)
    return ZOrder("zorder", order, levels, bits)
