"""What a program means: fills follow the algebra, dtypes are NumPy's, storage never shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from engine_support import same

import tensorel as tr
from tensorel.algebra.ops import DTYPES
from tensorel.errors import StorageError, TypeError_


def sparse(seed: int = 0, shape: tuple[int, int] = (300, 200), density: float = 0.02) -> Any:
    x = sp.random_array(shape, density=density, rng=np.random.default_rng(seed), format="csr")
    x.data[:] = np.round(x.data * 8) - 3.5
    return x


A, B = sparse(1), sparse(2)
X, Y = A.toarray(), B.toarray()

#: program, the fill that the algebra gives
FILLS: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "exp": (lambda a, b: np.exp(a), 1.0),
    "cos": (lambda a, b: np.cos(a), 1.0),
    "plus one": (lambda a, b: a + 1, 1.0),
    "one minus": (lambda a, b: 1 - a, 1.0),
    "times": (lambda a, b: a * 3, 0.0),
    "negative": (lambda a, b: abs(-a), 0.0),
    "sum of two": (lambda a, b: a + b, 0.0),
    "product of shifted": (lambda a, b: (a + 1) * (b + 2), 2.0),
    "product with shifted": (lambda a, b: a * (b + 2), 0.0),
    "greater": (lambda a, b: a > b, False),
    "at least": (lambda a, b: a >= b, True),
    "equal": (lambda a, b: a == b, True),
    "not equal": (lambda a, b: a != 1, True),
    "maximum": (lambda a, b: np.maximum(a, 2), 2.0),
    "maximum of shifted": (lambda a, b: np.maximum(a - 1, b + 0.5), 0.5),
    "where": (lambda a, b: np.where(a > 0, a, b + 5), 5.0),
    "where true": (lambda a, b: np.where(a >= 0, b - 1, 7.0), -1.0),
    "power": (lambda a, b: (a * a) ** 0.5, 0.0),
    "isnan": (lambda a, b: np.isnan(a), False),
    "logical not": (lambda a, b: np.logical_not(a), True),
    "cast": (lambda a, b: (a + 2).astype("int32"), 2),
    "transpose": (lambda a, b: (a + 1).T, 1.0),
    "slices": (lambda a, b: (a + 1)[::2, 5:], 1.0),
    "concat": (lambda a, b: np.concatenate([a + 1, b + 1]), 1.0),
    "product": (lambda a, b: a @ b.T, 0.0),
}


@pytest.mark.parametrize("name", FILLS)
def test_fills_follow_the_algebra_and_stay_sparse(name: str) -> None:
    program, fill = FILLS[name]
    lazy, wanted = program(tr.asarray(A), tr.asarray(B)), program(X, Y)
    assert lazy.fill == fill
    found = lazy.compute()
    assert found.fill == fill
    assert found.fill.dtype == found.dtype == wanted.dtype
    assert found.format != "dense", "a sparse result was made dense"
    assert found.nnz == np.count_nonzero(wanted != fill)
    assert found.nbytes < wanted.nbytes or found.dtype == bool
    same(found, wanted, exact=False)


def test_reductions_see_the_whole_tensor() -> None:
    a = tr.asarray(A)
    same((a + 1).sum(), (X + 1).sum(), exact=False)
    same(np.exp(a).mean(axis=0), np.exp(X).mean(axis=0), exact=False)
    same((a - 9).max(axis=1), (X - 9).max(axis=1))
    same(a.max(), X.max())
    same(a.min(axis=0), X.min(axis=0))
    same((a == 0).sum(), (X == 0).sum())
    same((a + 1).prod(axis=1), (X + 1).prod(axis=1), exact=False)
    same(a.var(axis=1), X.var(axis=1), exact=False)
    same(a.argmax(axis=1), X.argmax(axis=1))
    same((a == 0).all(axis=0), (X == 0).all(axis=0))


#: These on every pair of dtypes, the others on a seventh of the pairs.
ALL_PAIRS = ("multiply", "floor_divide")
BINARY = (*ALL_PAIRS, "divide", "less", "add", "subtract", "remainder", "power", "minimum",
          "maximum", "equal", "logical_and", "logical_xor", "bitwise_and", "bitwise_xor",
          "left_shift", "arctan2", "hypot", "copysign", "logaddexp")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", BINARY)
def test_dtypes_of_binary_operators(name: str) -> None:
    """Dtype and values as NumPy's, through the engine."""
    function = getattr(np, name)
    for row, left in enumerate(DTYPES):
        x = np.array([[0, 1, 3], [2, 0, 1]]).astype(left)
        for column, right in enumerate(DTYPES):
            if name not in ALL_PAIRS and (row + 2 * column) % 7 != BINARY.index(name) % 7:
                continue
            y = np.array([[1, 2, 1], [3, 1, 2]]).astype(right)
            try:
                wanted = function(x, y)
            except (TypeError, ValueError):
                with pytest.raises((TypeError_, ValueError)):
                    function(tr.tensor(x, format="csr"), tr.asarray(y)).compute()
                continue
            found = function(tr.tensor(x, format="csr"), tr.asarray(y))
            if wanted.dtype == np.float16:
                wanted = function(x.astype(np.float32), y.astype(np.float32))
                np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-3)
                continue
            same(found, wanted, exact=False)


@pytest.mark.parametrize("dtype", [d.name for d in DTYPES])
def test_dtypes_of_reductions_and_products(dtype: str) -> None:
    x = np.array([[0, 1, 3], [2, 0, 1]]).astype(dtype)
    a = tr.tensor(x, format="csr")
    for program in (lambda t: t.sum(axis=0), lambda t: t.prod(axis=1), lambda t: t.mean(axis=0),
                    lambda t: t.any(axis=1), lambda t: t @ t.T, lambda t: t.max(axis=0),
                    lambda t: np.einsum("ij,ij->i", t, t), lambda t: t.T @ t.sum(axis=1)):
        same(program(a), program(x), exact=False)


def test_python_scalars_do_not_widen() -> None:
    for dtype in ("int8", "uint8", "float32", "complex64"):
        x = np.arange(6).reshape(2, 3).astype(dtype)
        a = tr.tensor(x, format="csr")
        same(a + 1, x + 1)
        same(a * 2, x * 2)
        same(a / 2, x / 2, exact=False)
        same(a + np.float64(1), x + np.float64(1))


def test_structural_zeros_annihilate() -> None:
    """0 * inf = 0 for entries that are not stored; stored zeros compute as NumPy does."""
    v = tr.asarray(np.array([np.inf, np.nan, 1.0]))
    a = tr.tensor(np.array([[0.0, 0.0, 2.0], [1.0, 0.0, 0.0]]), format="csr")
    same(a @ v, np.array([2.0, np.inf]))
    same((a * v).compute(format="csr"), np.array([[0, 0, 2.0], [np.inf, 0, 0]]))
    stored = tr.from_coo([[0, 0], [0, 2]], [0.0, 2.0], (1, 3), format="csr")
    assert np.isnan((stored @ v).to_numpy()).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("format", ["coo", "csr", "csc", "dok", "dense"])
def test_strict_equals_numpy_on_inf_and_nan(format: str) -> None:
    x = np.array([[0.0, 1.0, -2.0], [0.0, np.inf, 0.0], [3.0, 0.0, np.nan]])
    y = np.array([[np.inf, 0.0, 1.0], [np.nan, 2.0, -np.inf], [0.0, 0.0, 5.0]])
    a, b = tr.tensor(x, format=format), tr.tensor(y, format=format)
    programs = (
        lambda s, t: s * t, lambda s, t: s @ t, lambda s, t: s / t, lambda s, t: s - t,
        lambda s, t: (s * t).sum(axis=0), lambda s, t: np.einsum("ij,jk->", s, t),
        lambda s, t: s * t.max(axis=0), lambda s, t: s % t, lambda s, t: np.maximum(s, t),
        lambda s, t: (s @ t @ s).sum(axis=1), lambda s, t: s // t,
    )
    for program in programs:
        same(program(a, b).compute(strict=True), program(x, y), exact=False)
    with tr.options(strict=True):
        same(a * b, x * y)


@pytest.mark.parametrize("strict", [False, True])
def test_strict_sums_in_order(strict: bool) -> None:
    """Without stored inf or nan both modes agree up to reassociation."""
    a = tr.asarray(A)
    same((a @ a.T).sum(axis=0).compute(strict=strict), (X @ X.T).sum(axis=0), exact=False)


# -- storage ---------------------------------------------------------------------------------


def test_nnz_counts_what_differs_from_the_fill() -> None:
    a = tr.from_coo([[0, 1, 2], [0, 1, 2]], [0.0, 5.0, 0.0], (3, 3), format="csr")
    assert a.nnz == 1
    coords, found = a.to_coo()
    assert coords.tolist() == [[1], [1]] and found.tolist() == [5.0]
    same(a, np.diag([0.0, 5.0, 0.0]))
    assert tr.tensor(np.full((4, 4), 2.0), format="coo", fill=2).nnz == 0
    difference = tr.asarray(A) - tr.asarray(A)
    assert difference.nnz == 0
    assert (tr.asarray(A) != 0).sum().item() == tr.asarray(A).nnz == np.count_nonzero(X)


def test_duplicates() -> None:
    coords = [[1, 0, 1], [2, 0, 2]]
    with pytest.raises(StorageError, match=r"(?i)duplicate|twice|more than once"):
        tr.from_coo(coords, [1.0, 2.0, 3.0], (3, 3))
    summed = np.zeros((3, 3))
    summed[1, 2], summed[0, 0] = 4, 2
    last = summed.copy()
    last[1, 2] = 3
    for format in ("coo", "csr", "csc", "dok", "dense", "csf"):
        same(tr.from_coo(coords, [1.0, 2.0, 3.0], (3, 3), format=format, duplicates="sum"), summed)
        same(tr.from_coo(coords, [1.0, 2.0, 3.0], (3, 3), format=format, duplicates="last"), last)


def test_unsorted_scipy_input_is_not_mutated() -> None:
    data = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    for dup in (False, True):
        columns = np.array([2, 0, 1, 1 if dup else 0, 1], np.int32)
        x = sp.csr_array((data.copy(), columns.copy(), np.array([0, 3, 5], np.int32)), (2, 3))
        before = [p.copy() for p in (x.data, x.indices, x.indptr)]
        dense = x.toarray()
        a = tr.asarray(x)
        same(a, dense)
        same(a @ a.T, dense @ dense.T)
        same(a.sum(axis=0), dense.sum(axis=0))
        for kept, now in zip(before, (x.data, x.indices, x.indptr)):
            np.testing.assert_array_equal(kept, now)


@pytest.mark.parametrize("make", [sp.csr_array, sp.csc_array, sp.coo_array])
def test_index_width_is_kept(make: Any) -> None:
    x = make(A)
    a = tr.asarray(x)
    widths = {k: p.dtype for k, p in a.stored.arrays.items() if k != "val"}
    assert set(widths.values()) == {np.dtype(np.int32)}, widths
    for result in (a * 2, a + tr.asarray(make(B)), a.T, a[10:50]):
        stored = result.compute(format=a.format).stored
        for name, array in stored.arrays.items():
            assert name == "val" or array.dtype == np.int32, (name, array.dtype)
    back = a.to_scipy()
    assert np.shares_memory(back.data, x.data)


def test_zero_copy_in_and_out() -> None:
    dense = np.arange(12.0).reshape(3, 4)
    a = tr.asarray(dense)
    assert np.shares_memory(a.to_numpy(), dense)
    assert np.shares_memory(np.asarray(a), dense)
    fortran = np.asfortranarray(dense)
    assert np.shares_memory(tr.asarray(fortran).stored.arrays["val"], fortran)
    for x in (A, sp.csc_array(A)):
        t = tr.asarray(x)
        assert any(np.shares_memory(p, x.data) for p in t.stored.arrays.values())
        assert any(np.shares_memory(p, x.indices) for p in t.stored.arrays.values())
        assert any(np.shares_memory(p, x.indptr) for p in t.stored.arrays.values())
        back = t.to_scipy()
        assert np.shares_memory(back.indices, x.indices)
    coo = sp.coo_array(A)
    t = tr.asarray(coo)
    assert any(np.shares_memory(p, coo.data) for p in t.stored.arrays.values())


# -- monoids and semirings -------------------------------------------------------------------


def test_user_monoids() -> None:
    probabilities = np.where(X > 0, X / 8, 0.0)
    a = tr.tensor(probabilities, format="csr")
    noisy_or = tr.reduce(lambda p, q: p + q - p * q, a, axis=1, identity=0.0)
    same(noisy_or, 1 - np.prod(1 - probabilities, axis=1), exact=False)
    shifted = tr.reduce(lambda p, q: p + q - p * q, a + 0.25, axis=0, identity=0.0)
    same(shifted, 1 - np.prod(0.75 - probabilities, axis=0), exact=False)
    integers = np.arange(60, dtype=np.int64).reshape(6, 10) * 7 % 31
    b = tr.asarray(integers)
    either = tr.reduce(lambda p, q: p ^ q, b, axis=0, identity=0)
    same(either, np.bitwise_xor.reduce(integers, axis=0))
    same(tr.reduce(tr.maximum, b, axis=1), integers.max(axis=1))
    wide = tr.reduce(lambda p, q: tr.hypot(p, q), tr.asarray(A), axis=1, identity=0.0)
    same(wide, np.sqrt((X * X).sum(axis=1)), exact=False)


@pytest.mark.parametrize("format", ["dense", "csr", "csc", "coo", "dok"])
def test_semirings(format: str) -> None:
    rng = np.random.default_rng(5)
    n = 12
    weights = np.where(rng.random((n, n)) < 0.25, rng.integers(1, 9, (n, n)), np.inf).astype(float)
    np.fill_diagonal(weights, 0)
    distance = tr.tensor(weights, format=format, fill=np.inf)
    shortest = weights.copy()
    for _ in range(4):
        shortest = (shortest[:, :, None] + shortest[None, :, :]).min(axis=1)
        distance = tr.einsum("ik,kj->ij", distance, distance, add=tr.min, mul=tr.add).compute()
        same(distance, shortest)
    assert distance.fill == np.inf or distance.format == "dense"
    adjacent = np.isfinite(weights)
    reach = tr.tensor(adjacent, format=format)
    for _ in range(4):
        reach = tr.einsum("ik,kj->ij", reach, reach, add=tr.any, mul=tr.logical_and).compute()
    same(reach, np.isfinite(shortest))
    chance = np.where(adjacent, rng.random((n, n)), 0.0)
    best = tr.einsum("ik,kj->ij", *[tr.tensor(chance, format=format)] * 2, add=tr.max,
                     mul=tr.multiply)
    same(best, (chance[:, :, None] * chance[None, :, :]).max(axis=1), exact=False)


def test_map_traces_python_functions() -> None:
    found = tr.map(lambda p, q: tr.where(p > q, p - q, p * q), tr.asarray(A), tr.asarray(B))
    assert found.fill == 0
    same(found, np.where(X > Y, X - Y, X * Y))
