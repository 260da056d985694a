"""Basic and advanced indexing, with NumPy's rules for mixing them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tensorel.base.records import dataclass
from tensorel.engines.formulas import extent
from tensorel.errors import IndexError_, ShapeError, TypeError_
from tensorel.front.array.base import Base, Shape, axes_of, formed, from_stored, indices, wrap
from tensorel.front.array.convert import source, stored_of, to_numpy
from tensorel.ir import nodes as ir
from tensorel.ir.build import plus, times
from tensorel.storage import convert as storage
from tensorel.storage.limits import require
from tensorel.storage.stack import index_dtype

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

IndexArray = npt.NDArray[np.integer[Any]]
MIN_NARROWED_POSITIONS = 1 << 16  # positions that are worth storing in fewer bytes
newaxis = None


@dataclass(frozen=True, slots=True)
class Cut:
    """A slice of one axis."""

    start: int
    step: int
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Pick:
    """Advanced: positions of one axis, broadcast with those of other axes. Without an axis (a
    boolean scalar) it only adds to the broadcast shape."""

    positions: IndexArray
    has_axis: bool = True


class New:
    """A new axis of extent 1."""


Item = Cut | Pick | New | int


def getitem(t: Tensor, key: object) -> Tensor:
    """``T[key]``."""
    items = _parse(key, t.shape)
    if not any(isinstance(item, Pick) for item in items):
        return _basic(t, items)
    return _advanced(t, items)


# -- reading the key ------------------------------------------------------------------------------
def _parse(key: object, shape: Shape) -> list[Item]:
    parts: list[Any] = [_part(k) for k in (key if isinstance(key, tuple) else (key,))]
    used = 0
    dots = -1
    for p, part in enumerate(parts):
        if part is Ellipsis:
            if dots >= 0:
                raise IndexError_("an index has one '...' at most")
            dots = p
        elif part is not None:
            used += part.ndim if _is_mask(part) else 1
    if used > len(shape):
        raise IndexError_(f"{used} indices for a tensor of {len(shape)} axes, shape {shape}")
    rest: list[Any] = [slice(None)] * (len(shape) - used)
    parts = parts + rest if dots < 0 else parts[:dots] + rest + parts[dots + 1:]
    items: list[Item] = []
    axis = 0
    for part in parts:
        axis += _append(items, part, axis, shape)
    return items


def _is_mask(part: object) -> bool:
    return isinstance(part, np.ndarray | Base) and part.dtype.kind == "b"


def _part(k: object) -> object:
    """Index arrays as NumPy arrays; masks may stay tensors, they are read by coordinates."""
    if k is None or k is Ellipsis or isinstance(k, (int, slice)):
        return np.asarray(k) if isinstance(k, bool) else k
    if isinstance(k, Base):
        return k if k.dtype.kind == "b" else _whole(to_numpy(k))
    if isinstance(k, (np.ndarray, np.generic, list, tuple, range)):
        array = np.asarray(k)
        if array.size == 0 and not isinstance(k, (np.ndarray, np.generic)):
            array = array.astype(np.int64)
        return array if array.dtype.kind == "b" else _whole(array)
    if hasattr(k, "__index__"):
        return int(k.__index__())
    raise IndexError_(f"{k!r} cannot index a tensor",
                      hint="use whole numbers, slices, None, ..., index arrays or masks")


def _whole(array: npt.NDArray[Any]) -> object:
    if array.dtype.kind not in "iu":
        raise IndexError_(f"an index array of dtype {array.dtype} cannot index a tensor",
                          hint="index arrays are of an integer dtype or boolean")
    if array.dtype == np.uint64 and array.size and array.max() > np.iinfo(np.int64).max:
        raise IndexError_(f"index {array.max()} is out of range")
    return int(array) if array.ndim == 0 else array


def _append(items: list[Item], part: Any, axis: int, shape: Shape) -> int:
    """Add the item of a part that starts at ``axis``; the number of axes it uses."""
    if part is None:
        items.append(New())
        return 0
    if isinstance(part, int):
        items.append(_one(part, axis, shape))
        return 1
    if isinstance(part, slice):
        start, stop, step = _bounds(part, shape[axis])
        count = len(range(start, stop, step))
        items.append(Cut(start, step if count > 1 else 1, count))
        return 1
    if _is_mask(part):
        items.extend(_mask(part, axis, shape))
        return int(part.ndim)
    items.append(Pick(positions(part, axis, shape)))
    return 1


def _bounds(part: slice, extent: int) -> tuple[int, int, int]:
    try:
        return part.indices(extent)
    except ValueError as error:
        raise ShapeError("a slice of step 0 has no entries to take") from error
    except TypeError as error:
        raise TypeError_(f"the bounds of {part} are not whole numbers") from error


def _one(k: int, axis: int, shape: Shape) -> int:
    n = shape[axis]
    if not -n <= k < n:
        raise IndexError_(
            f"index {k} is out of range for axis {axis} with {n} entries (shape {shape})"
        )
    return k + n if k < 0 else k


def positions(array: IndexArray, axis: int, shape: Shape) -> IndexArray:
    """Checked, non-negative positions along an axis: a copy, as the array may be the user's, who
    may write to it before they are used."""
    n = shape[axis]
    unsigned = array.view(array.dtype.str.replace("i", "u"))  # negative ones are the largest
    if array.size and int(unsigned.max()) >= min(n, np.iinfo(array.dtype).max + 1):
        low, high = int(array.min()), int(array.max())
        if low < -n or high >= n:
            raise IndexError_(
                f"index {low if low < -n else high} is out of range for axis {axis} with "
                f"{n} entries (shape {shape})"
            )
        if low < 0:
            require(9 * array.size, f"{array.size} positions")
            array = array.astype(np.int64)
            array[array < 0] += n
    require(8 * array.size, f"{array.size} positions")
    return array.astype(np.int64 if array.size < MIN_NARROWED_POSITIONS else index_dtype(n))


def _mask(mask: Any, axis: int, shape: Shape) -> list[Item]:
    own = shape[axis:axis + mask.ndim]
    if mask.shape != own:
        raise IndexError_(
            f"a mask of shape {mask.shape} does not fit axes {axis} to "
            f"{axis + mask.ndim - 1} of shape {shape}",
            hint="a mask has the extents of the axes that it selects from",
        )
    if mask.ndim == 0:
        return [Pick(np.zeros(int(bool(mask)), np.int64), has_axis=False)]
    return [Pick(p) for p in true_positions(mask)]


def true_positions(mask: npt.NDArray[Any] | Base) -> tuple[IndexArray, ...]:
    """Where a tensor is not zero, one array per axis, in C order; computes it."""
    if isinstance(mask, np.ndarray):
        count = int(np.count_nonzero(mask))
        require((mask.ndim + 2) * 8 * count, "the positions that are not zero")
        return _unravelled(np.flatnonzero(mask), mask.shape)
    stored = stored_of(mask)
    if stored.format.is_dense or bool(stored.fill):
        return true_positions(to_numpy(mask))
    coo = storage.to_coo(stored)
    kept = coo.values.astype(bool)
    require(mask.ndim * 12 * coo.count, f"the positions of {coo.count} entries")
    return tuple(c[kept].astype(np.int64) for c in coo.coords)


def _unravelled(places: IndexArray, shape: Shape) -> tuple[IndexArray, ...]:
    """Coordinates of places in C order, each an array of its own; the places are used up."""
    found: list[IndexArray] = []
    for n in reversed(shape[1:]):
        outer = places // n
        places -= outer * n
        found.append(places)
        places = outer
    return (places, *reversed(found)) if shape else ()


# -- lowering -------------------------------------------------------------------------------------
def _basic(t: Tensor, items: Sequence[Item]) -> Tensor:
    """Where slices begin, how many entries they take of an axis and which places are asked for are
    numbers in the formula."""
    about: list[int | str] = []
    values, whole = list[ir.Const](), iter(t.shape)
    for item in items:
        if isinstance(item, int):
            next(whole)
            about.append(_PLACE)
            values.append(ir.const(item, ir.INT64))
        elif isinstance(item, Cut):
            values.append(ir.const(item.start, ir.INT64))
            if item.count == next(whole):
                about.append(_WHOLE if item.step > 0 else _TURNED)
            else:
                about.append(item.step)
                values.append(extent(item.count))
        else:
            about.append(_NEW)
    cuts = tuple(about)
    return formed(("basic", cuts), partial(_cut_out, cuts), t, values=tuple(values),
                  takes_extents=True)


_PLACE, _NEW, _WHOLE, _TURNED = "place", "new", "whole", "turned"  # beside the steps of slices


def _cut_out(cuts: tuple[int | str, ...], t: Base, *values: ir.Const) -> ir.Tensor:
    shape: list[int] = []
    places, numbers, whole = iter(indices(len(cuts))), iter(values), iter(t.node.shape)
    at: list[ir.Expr] = []
    for cut in cuts:
        if cut == _NEW:
            shape.append(1)
            next(places)
            continue
        n, first = next(whole), next(numbers)
        if cut == _PLACE:
            at.append(first)
            continue
        shape.append(n if isinstance(cut, str) else next(numbers).value.item())
        step = cut if isinstance(cut, int) else 1 if cut == _WHOLE else -1
        at.append(plus(times(step, next(places)), first))
    return ir.Lambda(axes_of(shape), ir.Read(t.node, tuple(at)))


def _advanced(t: Tensor, items: Sequence[Item]) -> Tensor:
    """NumPy's rule: picks (whole numbers count as picks) broadcast together; their axes stand
    where the picks stand if these are adjacent, else first."""
    picked = [p for p, item in enumerate(items) if isinstance(item, (Pick, int))]
    arrays = [item.positions for item in items if isinstance(item, Pick)]
    try:
        together = np.broadcast_shapes(*(a.shape for a in arrays))
    except ValueError as error:
        listed = ", ".join(str(a.shape) for a in arrays)
        raise IndexError_(f"index arrays of shapes {listed} do not broadcast") from error
    adjacent = picked[-1] - picked[0] + 1 == len(picked)
    before = [items[p] for p in range(picked[0])] if adjacent else []
    plain = [i for i in items if not isinstance(i, (Pick, int))]
    extents = [i.count if isinstance(i, Cut) else 1 for i in plain]
    lead = len(before)
    shape = (*extents[:lead], *together, *extents[lead:])
    names = indices(len(shape))
    shared = names[lead:lead + len(together)]
    free = iter(names[:lead] + names[lead + len(together):])
    at: list[ir.Expr] = []
    for item in items:
        if isinstance(item, int):
            at.append(ir.const(item, ir.INT64))
        elif isinstance(item, Cut):
            at.append(plus(item.start, times(item.step, next(free))))
        elif isinstance(item, Pick):
            if item.has_axis:
                at.append(gather(item.positions, shared))
        else:
            next(free)
    return wrap(ir.Lambda(axes_of(shape), ir.Read(t.node, tuple(at))))


def gather(array: IndexArray, at: tuple[ir.Expr, ...]) -> ir.Expr:
    """The position that an index array holds at ``at``, broadcast from the right."""
    zero = ir.const(0, ir.INT64)
    own = at[len(at) - array.ndim:]
    return ir.Read(source(array), tuple(
        zero if n == 1 else i for n, i in zip(array.shape, own)
    ))


class Indexing(Base):
    """The methods of this chapter."""

    __slots__ = ()

    def __getitem__(self, key: object) -> Tensor:
        return getitem(self, key)  # type: ignore[arg-type]

    def __setitem__(self, key: object, value: object) -> None:
        raise TypeError_(
            "tensors are never written to",
            hint="make a new one, e.g. tr.where(mask, value, T)",
        )

    def nonzero(self) -> tuple[Tensor, ...]:
        """Positions of entries that are not zero, one tensor per axis; computes."""
        return tuple(from_stored(storage.from_dense(p, 0)) for p in true_positions(self))
