"""Reductions against NumPy: dtypes, axes, empty axes."""

from __future__ import annotations

import numpy as np
import pytest
from front_support import DTYPES, check, sample

import tensorel as tr
from tensorel import errors

NAMES = [
    "sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "argmin", "argmax",
    "count_nonzero",
]
AXES = [None, 0, -1, (0, 2), (), (1,)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(name: str, dtype: str) -> None:
    x = sample((2, 3), dtype, 1)
    check(getattr(tr, name)(tr.asarray(x), axis=1), getattr(np, name)(x, axis=1), engine=False)


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("arg")])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [False, True])
def test_axes(name: str, axis: object, keepdims: bool) -> None:
    x = sample((2, 3, 4), seed=1)
    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    check(getattr(tr.asarray(x), name)(axis=axis, keepdims=keepdims), wanted)


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_positions(name: str, axis: int | None, keepdims: bool) -> None:
    x = sample((2, 3, 4), seed=1)
    wanted = getattr(np, name)(x, axis=axis, keepdims=keepdims)
    check(getattr(tr.asarray(x), name)(axis=axis, keepdims=keepdims), wanted)


def test_empty_axes() -> None:
    x = np.zeros((0, 3))
    a = tr.asarray(x)
    for name in ("sum", "prod", "any", "all", "count_nonzero"):
        check(getattr(a, name)(axis=0), getattr(np, name)(x, axis=0))
        check(getattr(a, name)(axis=1), getattr(np, name)(x, axis=1))
    check(a.max(axis=1), x.max(axis=1))
    for name in ("min", "max", "argmin", "argmax"):
        with pytest.raises(errors.ShapeError, match="no entries"):
            getattr(a, name)(axis=0)
    with np.errstate(all="ignore"):
        assert np.isnan(a.mean(axis=0).to_numpy()).all()


def test_dtype_initial_and_correction() -> None:
    x = sample((3, 4), "float32", 2)
    a = tr.asarray(x)
    check(a.sum(0, dtype="float64"), x.sum(0, dtype="float64"))
    check(a.sum(0, initial=5), x.sum(0, initial=np.float32(5)))
    check(a.max(0, initial=9), x.max(0, initial=np.float32(9)))
    check(a.var(1, correction=1), x.var(1, ddof=1))
    check(a.std(ddof=2), x.std(ddof=2))
    check(a.mean(dtype="complex128"), x.mean(dtype="complex128"))
    with pytest.raises(errors.ValueError_, match="not both"):
        a.var(correction=1, ddof=1)


@pytest.mark.parametrize("format", ["dense", "csr", "coo"])
@pytest.mark.parametrize("fill", [0, 2])
def test_variance_of_sparse_tensors(format: str, fill: float) -> None:
    x = np.where(sample((5, 6), density=0.4) != 0, sample((5, 6), seed=3), fill) + 0.0
    a = tr.tensor(x, format=format, fill=fill)
    for axis in (None, 0, 1):
        check(a.var(axis), x.var(axis))
        check((a * 1).std(axis), x.std(axis))


def test_unknown_axis() -> None:
    with pytest.raises(errors.IndexError_, match="sum: axis 2 does not exist"):
        tr.asarray([[1]]).sum(2)
    with pytest.raises(errors.ShapeError, match="twice"):
        tr.asarray([[1]]).sum((0, -2))
