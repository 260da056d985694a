"""Entries of a tensor: coordinate lists, the common ground of all conversions, and the fill, which
all other cells have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from tensorel.algebra.ops import DType
from tensorel.base.records import dataclass
from tensorel.errors import TypeError_

IndexArray = npt.NDArray[np.signedinteger]
ValueArray = npt.NDArray[np.generic]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, slots=True)
class Coo:
    """Entries of a tensor: ``coords[axis][k]`` and ``values[k]``, unique, sorted
    lexicographically by the axes in ``order``. Entries not listed equal ``fill``.

    Coordinate arrays are int32 or int64, each its own contiguous array."""

    coords: tuple[IndexArray, ...]
    values: ValueArray
    shape: tuple[int, ...]
    fill: object
    order: tuple[int, ...]

    @property
    def count(self) -> int:
        return int(self.values.size)

    @property
    def nbytes(self) -> int:
        return entry_bytes(self.coords, self.values)

    def where(self, keep: BoolArray) -> Coo:
        """The entries for which a mask holds."""
        return Coo(tuple([c[keep] for c in self.coords]), self.values[keep], self.shape, self.fill,
                   self.order)


def flat_positions(shape: tuple[int, ...], coords: Sequence[IndexArray], count: int
                   ) -> npt.NDArray[np.int64]:
    """Row-major positions of so many entries; the caller knows that the size fits."""
    flat = np.zeros(count, dtype=np.int64)
    for extent, c in zip(shape, coords):
        flat *= extent
        flat += c
    return flat


def entry_bytes(coords: Iterable[IndexArray], values: ValueArray) -> int:
    """Bytes of a list of entries."""
    return sum([c.nbytes for c in coords]) + values.nbytes


# -- fill ---------------------------------------------------------------------------------------
def make_fill(fill: object, dtype: DType) -> np.generic:
    """``fill`` as a NumPy scalar of ``dtype``; refused when the dtype cannot hold it."""
    given = np.asarray(fill)
    if given.ndim or given.dtype.kind not in "biufc":
        raise TypeError_(f"fill {fill!r} is not a scalar", hint="pass a number such as 0 or 1.5")
    if given.dtype == dtype:
        return given[()]  # type: ignore[return-value]
    with np.errstate(all="ignore"):
        made = given.astype(dtype) if dtype.kind == "c" or given.dtype.kind != "c" else (
            given.real.astype(dtype)
        )
        exact = dtype.kind in "fc" and given.dtype.kind in "biuf"
        same = exact or bool(made == given) or bool(given != given and made != made)
    if not same:
        raise TypeError_(
            f"fill {fill!r} cannot be held by dtype {dtype.name}",
            hint="convert the values to a dtype that holds both, e.g. float64",
        )
    return made[()]  # type: ignore[return-value]


def is_nan(value: object) -> bool:
    return bool(np.not_equal(value, value))  # type: ignore[call-overload]


def differs(values: npt.NDArray[np.generic], fill: np.generic) -> BoolArray:
    """Where ``values`` is another value than ``fill``, as NumPy's != has it, but nan is nan."""
    unequal: BoolArray = np.not_equal(values, fill)
    if is_nan(fill):
        unequal &= values == values
    return unequal


def distinguishable(values: npt.NDArray[np.generic], fill: np.generic) -> BoolArray:
    """Where dropping the entry could be seen: as ``differs``, but -0.0 is not 0.0.

    1 / -0.0 is -inf: an entry that is dropped must equal the fill bit for bit (nans alike)."""
    kind = values.dtype.kind
    if kind == "c":
        parts = np.ascontiguousarray(values).view(values.real.dtype)
        pair = parts.reshape(*values.shape, 2)
        return distinguishable(pair[..., 0], fill.real) | distinguishable(pair[..., 1], fill.imag)
    if kind != "f" or is_nan(fill) or fill != 0:
        return differs(values, fill)
    bits = np.dtype(f"u{values.dtype.itemsize}")
    return np.not_equal(values.view(bits), fill.view(bits))  # type: ignore[no-any-return]
