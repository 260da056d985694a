"""bitmap: booleans, one bit each, row-major, the lowest bit of a byte first; no values."""

from __future__ import annotations

from math import prod

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL, DType
from tensorel.base.records import dataclass
from tensorel.errors import StorageError
from tensorel.ir.build import as_expr, element
from tensorel.ir.nodes import Call, Expr
from tensorel.storage.entries import Coo, flat_positions
from tensorel.storage.format import Format, PhysicalArrays, named
from tensorel.storage.laws import Look, Violation
from tensorel.storage.levels import Arrays, Dense, Position
from tensorel.storage.limits import require
from tensorel.storage.stack import index_dtype, lambda_text


@dataclass(frozen=True, slots=True)
class Bitmap(Format):
    @property
    def mapping(self) -> str:
        flat = "0"
        for a in range(self.rank):
            inner = flat if a < 2 else f"({flat})"
            flat = f"i{a}" if a == 0 else f"{inner} * n{a} + i{a}"
        return lambda_text(self.rank, f"(bits[({flat}) >> 3] >> (({flat}) & 7)) & 1 == 1")

    def value(self, arrays: Arrays, position: Position) -> Expr:
        p = position[0] if position else as_expr(0)
        byte = element(arrays["bits"], Call(ops.right_shift, (p, as_expr(3))))
        place = Call(ops.bitwise_and, (p, as_expr(7)))
        bit = Call(ops.bitwise_and, (Call(ops.right_shift, (byte, place)), as_expr(1)))
        return Call(ops.not_equal, (bit, as_expr(0)))

    def law(self, look: Look) -> None:
        size = prod(look.shape)
        bits = look.sized("bits", -(-size // 8), "bytes")
        if bits.dtype != np.uint8:
            raise Violation("bits", f"the bits lie in bytes, not in {bits.dtype}")
        if look.whole and size % 8 and int(bits.view(np.uint8)[-1]) >> size % 8:
            raise Violation("bits", "bits behind the last cell are set")

    def pack(self, coo: Coo) -> PhysicalArrays:
        size = prod(coo.shape)
        require(-(-size // 8), f"a bitmap of shape {coo.shape}")
        fill = bool(coo.fill)
        bits = np.full(-(-size // 8), 255 if fill else 0, dtype=np.uint8)
        if size % 8:
            bits[-1] &= (1 << size % 8) - 1
        at = flat_positions(coo.shape, coo.coords, coo.count)[coo.values != fill]
        if at.size:
            # Entries ascend, so those of one byte are neighbours.
            byte = at >> 3
            starts = np.flatnonzero(np.concatenate(([True], byte[1:] != byte[:-1])))
            masks = np.left_shift(np.uint8(1), (at & 7).astype(np.uint8))
            bits[byte[starts]] ^= np.bitwise_or.reduceat(masks, starts)
        return {"bits": bits}

    def unpack(
        self, arrays: PhysicalArrays, shape: tuple[int, ...], fill: object, dtype: DType
    ) -> Coo:
        size, unlike = prod(shape), not fill
        flips = arrays["bits"].view(np.uint8) ^ np.uint8(0 if unlike else 255)
        bytes_ = np.flatnonzero(flips)
        require(flips.nbytes + 16 * bytes_.size, f"the {bytes_.size} bytes with bits")
        within = np.flatnonzero(np.unpackbits(flips[bytes_], bitorder="little"))
        each = 24 + 12 * len(shape)
        require(flips.nbytes + each * within.size, f"a list of {within.size} bits")
        at = bytes_[within >> 3] * 8 + (within & 7)
        at = at[at < size]
        coords = tuple(
            c.astype(index_dtype(n)) for c, n in zip(np.unravel_index(at, shape), shape)
        ) if shape else ()
        return Coo(coords, np.full(at.size, unlike), shape, fill, self.order)

    def stored_count(self, arrays: PhysicalArrays, shape: tuple[int, ...]) -> int:
        return prod(shape)


@named
def bitmap(shape: tuple[int, ...], dtype: DType) -> Format:
    if dtype != BOOL:
        raise StorageError(
            f"format 'bitmap' stores booleans; this tensor is {dtype.name}",
            hint="compare first, e.g. T != 0",
        )
    order = tuple(range(len(shape)))
    return Bitmap("bitmap", order, tuple(Dense(a) for a in order))
