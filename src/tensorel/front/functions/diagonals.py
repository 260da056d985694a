"""Triangles and diagonals of matrices: choices by how the last two indices compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorel.algebra import ops
from tensorel.errors import ShapeError
from tensorel.front.array.base import Exprs, choose, from_stored, lift, whole, within, zero_of
from tensorel.front.array.convert import asarray, stored_of
from tensorel.front.array.create import eye
from tensorel.ir import nodes as ir
from tensorel.ir.build import both, compare, minus, plus
from tensorel.ir.extents import check_extents
from tensorel.storage import convert as storage
from tensorel.storage.limits import require
from tensorel.storage.stack import index_dtype

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

MIN_COMPUTED_CELLS = 2**20  # a program of a longer diagonal is computed, to know its entries


def _triangle(x: object, k: int, lower: bool, name: str) -> Tensor:
    t = asarray(x)
    if t.ndim < 2:
        raise ShapeError(f"{name}: shape {t.shape} has no two axes")
    offset = within(whole(k, f"{name}: k"), *t.shape[-2:])
    op = ops.less_equal if lower else ops.greater_equal
    return lift(t.shape, lambda at: choose(
        compare(op, at[-1], plus(at[-2], offset)), ir.Read(t.node, at), zero_of(t.dtype)
    ))


def tril(x: object, k: int = 0) -> Tensor:
    """Entries on and below the k-th diagonal, zero above."""
    return _triangle(x, k, True, "tril")


def triu(x: object, k: int = 0) -> Tensor:
    """Entries on and above the k-th diagonal, zero below."""
    return _triangle(x, k, False, "triu")


def diag(x: object, k: int = 0) -> Tensor:
    """The matrix with a vector on its k-th diagonal, or the diagonal of a matrix."""
    t = asarray(x)
    if t.ndim == 2:
        return t.diagonal(k)
    if t.ndim != 1:
        raise ShapeError(f"diag: shape {t.shape} is neither a vector nor a matrix")
    offset = whole(k, "diag: k")
    n, down = t.shape[0] + abs(offset), max(-offset, 0)
    check_extents((n,), "diag")
    pattern = _pattern(t, n, offset).node
    return lift((n, n), lambda at: choose(
        _on_diagonal(pattern, at, down, t.shape[0]),
        ir.Read(t.node, (minus(at[0], down),)), zero_of(t.dtype),
    ))


def _pattern(t: Tensor, n: int, offset: int) -> Tensor:
    """A stored matrix of the places where a vector on a diagonal may differ from zero, by which
    loops visit the diagonal alone. For a sparse vector it holds the entries only; a long program is
    computed to know them."""
    stored = stored_of(t) if n > MIN_COMPUTED_CELLS else t.given
    if stored is None or stored.format.is_dense or bool(stored.fill):
        return eye(n, k=offset, dtype=ops.BOOL)
    (c,) = storage.to_coo(stored).coords
    width = index_dtype(n)
    require(5 * c.size * width.itemsize, f"diag: the {c.size} places of the entries")
    wide = c.astype(width, copy=False)
    coords = [wide + max(-offset, 0), wide + max(offset, 0)]
    return from_stored(storage.from_coo(coords, np.ones(wide.size, np.bool_), (n, n)))


def _on_diagonal(pattern: ir.Tensor, at: Exprs, down: int, n: int) -> ir.Expr:
    """Whether a place is on the diagonal, in bounds in which the vector has entries."""
    test = both(
        ir.Read(pattern, tuple(at)),
        compare(ops.greater_equal, at[0], down) if down else None,
        compare(ops.less, minus(at[0], down), n),
    )
    assert test is not None
    return test


__all__ = ["diag", "tril", "triu"]
