"""One tensor kept in several storages."""

from __future__ import annotations

from tensorel.errors import ShapeError, TypeError_
from tensorel.front.array.base import from_stored
from tensorel.front.array.convert import asarray, stored_of
from tensorel.front.array.tensor import Tensor
from tensorel.storage.convert import count_nonfill
from tensorel.storage.entries import is_nan
from tensorel.storage.stored import Stored


def alternatives(*tensors: object) -> Tensor:
    """One tensor in several storages; each plan reads the one that suits it best.

    The tensors must be equal: shape, dtype, fill and number of entries are checked; keeping the
    values equal is up to you.

    >>> import tensorel as tr
    >>> A = tr.tensor([[0.0, 2.0], [3.0, 0.0]], format="csr")
    >>> both = tr.alternatives(A, A.to_format("csc"))
    >>> (both.T @ both).sum().item()
    13.0
    """
    if not tensors:
        raise TypeError_("alternatives takes at least one tensor")
    stored = [stored_of(asarray(t)) for t in tensors]
    first = stored[0]
    for other in stored[1:]:
        if other.shape != first.shape:
            raise ShapeError(f"alternatives: shapes {first.shape} and {other.shape} differ",
                             hint="all must hold the same tensor")
        same_fill = other.fill == first.fill or (is_nan(other.fill) and is_nan(first.fill))
        if other.dtype != first.dtype or not same_fill:
            raise TypeError_(
                f"alternatives: {first.dtype} with fill {first.fill} and {other.dtype} with fill "
                f"{other.fill} differ", hint="convert one of them first")
        if count_nonfill(other) != count_nonfill(first):
            raise TypeError_("alternatives: the tensors have different numbers of entries",
                             hint="all must hold the same tensor")
    return from_stored(Stored(first.format, first.shape, first.dtype, first.fill, first.arrays,
                              alternatives=tuple(stored[1:]), axes=first.axes))
