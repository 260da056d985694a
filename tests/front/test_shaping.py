"""Views, joining, order and creation against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from front_support import check, sample

import tensorel as tr
from tensorel import errors

X = sample((2, 3, 4), density=1.0)


def test_reshape() -> None:
    a = tr.asarray(X)
    for shape in [(6, 4), (-1,), (4, -1), (2, 3, 4), (1, 2, 3, 1, 4), (3, 2, 4)]:
        check(a.reshape(shape), X.reshape(shape))
    check(a.reshape(4, 6), X.reshape(4, 6))
    check(a.ravel(), X.ravel())
    check(tr.asarray(5.0).reshape(1, 1), np.full((1, 1), 5.0))
    check(tr.reshape(np.zeros((0, 3)), (3, 0)), np.zeros((3, 0)))
    check(tr.ravel(np.zeros((0, 3))), np.zeros(0))
    for bad in [(5, 5), (-1, -1), (-2, 12), (0, -1)]:
        with pytest.raises(errors.ShapeError, match="reshape: 24 entries"):
            a.reshape(bad)


def test_axes() -> None:
    a = tr.asarray(X)
    check(a.T, X.T)
    check(a.mT, X.mT)
    check(a.transpose(1, 0, 2), X.transpose(1, 0, 2))
    check(a.transpose((2, 0, 1)), X.transpose(2, 0, 1))
    check(tr.swapaxes(a, 0, -1), X.swapaxes(0, -1))
    check(tr.moveaxis(a, 0, -1), np.moveaxis(X, 0, -1))
    check(tr.moveaxis(a, [0, 1], [-1, -2]), np.moveaxis(X, [0, 1], [-1, -2]))
    check(tr.expand_dims(a, (0, -1)), np.expand_dims(X, (0, -1)))
    check(tr.squeeze(tr.expand_dims(a, 1)), X)
    check(tr.squeeze(tr.expand_dims(a, 1), 1), X)
    check(tr.flip(a), np.flip(X))
    check(tr.flip(a, 1), np.flip(X, 1))
    with pytest.raises(errors.ShapeError, match="no order of 3 axes"):
        tr.permute_dims(a, (0, 1, 1))
    with pytest.raises(errors.ShapeError, match="squeeze: axis 1"):
        tr.squeeze(a, 1)


def test_broadcast() -> None:
    check(tr.broadcast_to(X[:1], (5, 2, 3, 4)), np.broadcast_to(X[:1], (5, 2, 3, 4)))
    a, b = tr.broadcast_arrays([[1], [2]], [3, 4, 5])
    assert a.shape == b.shape == (2, 3)
    with pytest.raises(errors.ShapeError):
        tr.broadcast_to(X, (2, 3, 1))


@pytest.mark.parametrize("offset", [-4, -2, -1, 0, 1, 3, 9])
def test_diagonals(offset: int) -> None:
    x = sample((3, 4), "int8", density=1.0)
    a = tr.asarray(x)
    check(a.diagonal(offset), x.diagonal(offset))
    check(a.trace(offset), x.trace(offset))
    check(tr.tril(a, offset), np.tril(x, offset))
    check(tr.triu(a, offset), np.triu(x, offset))
    check(tr.diagonal(X, offset, 0, 2), X.diagonal(offset, 0, 2))
    check(tr.diag(x[0], offset), np.diag(x[0], offset))
    check(tr.eye(3, 4, k=offset), np.eye(3, 4, k=offset))


def test_concat_and_stack() -> None:
    y = sample((2, 5, 4), "int32", 2)
    check(tr.concat([X, y], axis=1), np.concatenate([X, y], axis=1))
    check(tr.concat([X, X, X, X, X], axis=-1), np.concatenate([X] * 5, axis=-1))
    check(tr.concat([X, y], axis=None), np.concatenate([X, y], axis=None))
    check(tr.stack([X, X + 1, X], axis=1), np.stack([X, X + 1, X], axis=1))
    check(tr.concat([np.zeros(0), [1.0]]), np.array([1.0]))
    check(tr.vstack([[1, 2], [3, 4]]), np.vstack([[1, 2], [3, 4]]))
    check(tr.hstack([[1, 2], [3]]), np.hstack([[1, 2], [3]]))
    for t, x in zip(tr.unstack(X, axis=1), X.transpose(1, 0, 2), strict=True):
        check(t, x)
    for t, x in zip(tr.split(X, [1, 2], axis=1), np.split(X, [1, 2], axis=1), strict=True):
        check(t, x)
    with pytest.raises(errors.ShapeError, match=r"concat: shapes \(2,\) and \(1, 2\)"):
        tr.concat([[1, 2], [[1, 2]]])
    with pytest.raises(errors.ShapeError, match="stack"):
        tr.stack([[1], [1, 2]])


def test_roll_pad_tile_repeat() -> None:
    a = tr.asarray(X)
    for shift, axis in [(1, 0), (-1, 1), (5, 2), (3, None), ((1, 2), (0, 2)), (0, 1), (2, (0, 1))]:
        check(tr.roll(a, shift, axis), np.roll(X, shift, axis))
    check(tr.roll(np.zeros((0, 2)), 1, 0), np.zeros((0, 2)))
    x = X[0]
    for width in [1, (1, 2), ((1, 0), (0, 2)), ((0, 0), (3, 1)), 0]:
        check(tr.pad(x, width), np.pad(x, width))
        check(tr.pad(x, width, constant_values=((1, 2), (3, 4))),
              np.pad(x, width, constant_values=((1, 2), (3, 4))))
        for mode in ("edge", "wrap", "reflect", "symmetric"):
            check(tr.pad(x, width, mode=mode), np.pad(x, width, mode=mode))
    for reps in [2, (2, 3), (1, 2, 1), (0,), (2, 1, 1, 1)]:
        check(tr.tile(x, reps), np.tile(x, reps))
    for repeats, axis in [(2, 0), (3, None), ([1, 0, 2], 0), (0, 1)]:
        check(tr.repeat(x, repeats, axis), np.repeat(x, repeats, axis))
    with pytest.raises(errors.UnsupportedError, match="mode"):
        tr.pad(x, 1, mode="mean")


def test_order_along_axes() -> None:
    x = sample((3, 5), seed=7)
    a = tr.asarray(x)
    for axis in (0, -1):
        check(tr.sort(a, axis=axis), np.sort(x, axis=axis))
        check(tr.sort(a, axis=axis, descending=True), np.flip(np.sort(x, axis=axis), axis))
        check(tr.argsort(a, axis=axis), np.argsort(x, axis=axis, stable=True))
        check(tr.cumulative_sum(a, axis=axis), np.cumsum(x, axis=axis))
        check(tr.cumulative_prod(a, axis=axis), np.cumprod(x, axis=axis))
    check(tr.cumulative_sum(a, axis=1, include_initial=True),
          np.cumulative_sum(x, axis=1, include_initial=True))
    check(tr.cumsum(a.astype("int8")), np.cumsum(x.astype("int8")))
    top = tr.topk(a, 2, axis=1)
    check(top.values, -np.sort(-x, axis=1)[:, :2])
    check(top.indices, np.argsort(-x, axis=1, stable=True)[:, :2])
    check(tr.topk(a, 2, largest=False).values, np.sort(x, axis=1)[:, :2])
    check(tr.diff(a, axis=0), np.diff(x, axis=0))
    check(tr.diff(a, prepend=0, append=x), np.diff(x, prepend=0, append=x))
    check(tr.searchsorted([1, 2, 3], [2, 5]), np.searchsorted([1, 2, 3], [2, 5]))
    with pytest.raises(errors.ShapeError, match="topk: k=9"):
        tr.topk(a, 9)


@pytest.mark.parametrize("format", ["dense", "csr"])
def test_sets(format: str) -> None:
    x = sample((4, 5), "int64", 3)
    a = tr.tensor(x, format=format)
    values, counts = np.unique(x, return_counts=True)
    check(tr.unique_values(a), values)
    check(tr.unique_counts(a).counts, counts)
    check(tr.unique_inverse(a).inverse_indices, np.unique_inverse(x).inverse_indices)
    check(tr.unique_all(a).indices, np.unique_all(x).indices)


def test_creation() -> None:
    check(tr.zeros((2, 0, 3)), np.zeros((2, 0, 3)))
    check(tr.ones(3, dtype=tr.int8), np.ones(3, "int8"))
    check(tr.full((2, 2), 5), np.full((2, 2), 5))
    check(tr.full((), 2.5, dtype="float32"), np.full((), 2.5, "float32"))
    check(tr.zeros_like(X), np.zeros_like(X))
    check(tr.ones_like(X, dtype="int32"), np.ones_like(X, dtype="int32"))
    for args in [(5,), (2, 7), (7, 2, -2), (0, 1, 0.25), (3.0,), (5, 2)]:
        check(tr.arange(*args), np.arange(*args))
    check(tr.arange(4, dtype="float32"), np.arange(4, dtype="float32"))
    check(tr.linspace(0, 1, 5), np.linspace(0, 1, 5))
    for indexing in ("xy", "ij"):
        found = tr.meshgrid([1, 2], [3, 4, 5], [6], indexing=indexing)
        wanted = np.meshgrid([1, 2], [3, 4, 5], [6], indexing=indexing)
        for t, x in zip(found, wanted, strict=True):
            check(t, x)
    with pytest.raises(errors.ShapeError, match="negative"):
        tr.zeros((-1,))
    with pytest.raises(errors.TypeError_, match="whole number"):
        tr.zeros((1.5,))
