"""Rankings of blocks, and of what they kept: the first entries of each fibre in the order of the
operator, and where they stand in the whole tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.algebra.bulk import BulkOperator, Kind, Params
from tensorel.algebra.ops import DType
from tensorel.engines.sites import work
from tensorel.ir.nodes import Axis, Bulk, Const, Expr, Index, Lambda, Read
from tensorel.storage import convert
from tensorel.storage.stored import Stored

Array = npt.NDArray[Any]
#: Values, and where they stand: along the axis, or in the whole tensor in C order.
Kept = tuple[Array, Array]


def kept(op: BulkOperator, params: Params, operand: work.Operand, corner: tuple[int, ...],
         whole: tuple[int, ...], block: work.Block) -> Kept:
    """What a block of a tensor of shape ``whole`` keeps; it begins at ``corner``."""
    stored, axis = work.together(operand, [block]), op.axis(params)
    most = [min(p, stored.shape[axis or 0]) if kind is Kind.COUNT else p
            for kind, p in zip(op.params, params)]
    places = _ranked(op, tuple(most), stored)
    if axis is not None:
        return _values_at(stored, places, axis), places + corner[axis]
    at = np.unravel_index(int(places), stored.shape)
    place = np.ravel_multi_index(tuple([int(k) + a for k, a in zip(at, corner)]), whole)
    return _read(stored, (), [_vector(k) for k in at]), np.asarray(place, np.int64)


def best(op: BulkOperator, params: Params, drops: bool, dtype: DType, fill: Const,
         *of_blocks: Kept) -> work.Block:
    """The result, of what all blocks along a fibre kept, in their order. ``drops``: it lacks the
    axis."""
    axis = op.axis(params)
    along = axis or 0
    values, places = [(np.stack if drops else np.concatenate)([x[k] for x in of_blocks], axis=along)
                      for k in range(2)]
    if axis is None:  # of equal ones the first in C order
        order = np.argsort(places, kind="stable")
        values, places = values[order], places[order]
    chosen = _ranked(op, op.along(params, along), convert.from_dense(values))
    at = np.expand_dims(chosen, along) if drops else chosen
    found = np.take_along_axis(values if op.places is not None else places, at, along)
    result = np.squeeze(found, along) if drops else found
    return work.with_fill(convert.from_dense(result.astype(dtype, copy=False), fill.value), fill)


def _ranked(op: BulkOperator, params: Params, stored: Stored) -> Array:
    """Where the entries stand that the operator keeps."""
    return convert.to_dense(work.run(Bulk(op.places or op, (work.source_of(stored),), params)))


def _values_at(stored: Stored, places: Array, axis: int) -> Array:
    """The entries at places along an axis, which the places may lack."""
    drops = places.ndim < len(stored.shape)
    at = np.expand_dims(places, axis) if drops else places
    if stored.format.is_dense:
        found = np.take_along_axis(convert.to_dense(stored), at, axis)
        return np.squeeze(found, axis) if drops else found
    shape = at.shape
    here = _read(stored, shape, [at if k == axis else None for k in range(at.ndim)])
    return np.squeeze(here, axis) if drops else here


def _read(stored: Stored, shape: tuple[int, ...], at: Sequence[Array | None]) -> Array:
    """The entries at places along the axes; None: at the place of the result."""
    axes = tuple([Axis(f"i{k}", n) for k, n in enumerate(shape)])
    here: tuple[Expr, ...] = tuple([Index(a.name) for a in axes])
    indices = tuple([here[k] if p is None else Read(
        work.source_of(convert.from_dense(p)), here) for k, p in enumerate(at)])
    return convert.to_dense(work.run(Lambda(axes, Read(work.source_of(stored), indices))))


def _vector(place: object) -> Array:
    return np.asarray(place, np.int64)
