"""``strict=True``: to the last bit what NumPy gives on the dense arrays, sums one term after
another from +0.0 in the order of the reduction's indices; zeros are skipped where that is exact."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from measures import allowed, processor_seconds
from tensorel.algebra import ops
from tensorel.ir.nodes import Axis, Call, Index, Read, Reduce, Source, const
from tensorel.kernels.lowering.magnitude import Magnitudes, rounded
from tensorel.kernels.lowering.nest import Slot
from tensorel.kernels.lowering.support import Analysis
from tensorel.storage.registry import resolve

Array = np.ndarray[Any, np.dtype[Any]]
FORMATS = {1: ("dense", "coo"), 2: ("dense", "csr", "csc", "coo", "dcsr"),
           3: ("dense", "csf", "coo")}


def summed(spec: str, *arrays: Array) -> Array:
    """An einsum as it is written: for all summed labels in order of appearance, add the product
    of the operands from left to right."""
    inputs, out = spec.split("->")
    terms = inputs.split(",")
    extents = {c: n for t, a in zip(terms, arrays) for c, n in zip(t, a.shape)}
    inner = [c for c in dict.fromkeys(inputs.replace(",", "")) if c not in out]
    total = np.zeros([extents[c] for c in out], np.result_type(*arrays))
    for at in itertools.product(*(range(extents[c]) for c in inner)):
        place = dict(zip(inner, at))
        parts = []
        for t, a in zip(terms, arrays):
            part = a[tuple(place.get(c, slice(None)) for c in t)]
            left = [c for c in t if c not in place]
            part = part.transpose([left.index(c) for c in out if c in left])
            parts.append(part[tuple(slice(None) if c in left else None for c in out)])
        product = parts[0]
        for part in parts[1:]:
            product = product * part
        total = total + product if inner else product
    return np.asarray(total)


def same_bits(found: Array, expected: Array) -> None:
    assert found.shape == expected.shape and found.dtype == expected.dtype
    both_nan = np.isnan(found) & np.isnan(expected)
    np.testing.assert_array_equal(np.where(both_nan, 0, found), np.where(both_nan, 0, expected))
    for part in (np.real, np.imag):
        np.testing.assert_array_equal(np.signbit(part(found)) & ~both_nan,
                                      np.signbit(part(expected)) & ~both_nan)


def data(rng: np.random.Generator, shape: tuple[int, ...], special: str, dtype: str) -> Array:
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-8, 8, shape)
    values = np.where(rng.random(shape) < 0.5, 0.0, values)
    if special == "huge":
        values = values * (1e300 if dtype == "float64" else 1e30)
    elif special != "finite":
        odd = {"nan": np.nan, "inf": np.inf, "minus": -0.0}[special]
        values = np.where(rng.random(shape) < 0.1, odd, values)
    with np.errstate(over="ignore"):
        return values.astype(dtype)


SPECS = ("ij,j->i", "ij,i->j", "ij,jk->ik", "ij,jk->ki", "ij,ij->", "ij->", "ij->j", "ij,kj->ik",
         "ijk,k->ij", "ijk,j,k->i", "ij,jk,k->i", "ijk,jl,kl->il", "i,i->", "ij,i,j->", "ijk->k",
         "i,j->ij", "ij,ij->ij")


@pytest.mark.parametrize("special", ["finite", "nan", "inf", "minus", "huge"])
@pytest.mark.parametrize("spec", SPECS)
def test_sums_to_the_last_bit(spec: str, special: str) -> None:
    rng = np.random.default_rng(SPECS.index(spec))
    extents = {c: int(rng.integers(2, 7)) for c in "ijkl"}
    for case in range(4):
        dtype = "float64" if case else "float32"
        arrays, tensors = [], []
        for k, t in enumerate(spec.split("->")[0].split(",")):
            kind = special if k == case % 2 else "finite"
            a = data(rng, tuple(extents[c] for c in t), kind, dtype)
            arrays.append(a)
            formats = FORMATS[a.ndim]
            tensors.append(tr.tensor(a, format=formats[int(rng.integers(len(formats)))]))
        with np.errstate(all="ignore"):
            expected = summed(spec, *arrays)
        for threads in (1, 2):
            found = tr.einsum(spec, *tensors).compute(strict=True, threads=threads)
            same_bits(np.asarray(found), expected)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "product": lambda xp, a, b: a * b,
    "quotient": lambda xp, a, b: a / b,
    "mixed": lambda xp, a, b: a * 2.0 - b * a,
    "negated": lambda xp, a, b: -a * b,
    "scaled": lambda xp, a, b: a * -3.0,
    "extremes": lambda xp, a, b: xp.maximum(a, b) * xp.minimum(a, 0.0),
    "chosen": lambda xp, a, b: xp.where(a > 0, a * b, -a),
}


@pytest.mark.parametrize("special", ["finite", "nan", "inf", "minus", "huge"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_entries_to_the_last_bit(name: str, special: str) -> None:
    if name == "extremes" and special == "minus":
        pytest.skip("NumPy itself gives either zero as the larger of +0 and -0")
    rng = np.random.default_rng(5)
    x, y = data(rng, (7, 5), special, "float64"), data(rng, (7, 5), "finite", "float64")
    for f, g in (("csr", "dense"), ("csr", "csc"), ("dense", "coo"), ("coo", "csr")):
        a, b = tr.tensor(x, format=f), tr.tensor(y, format=g)
        with np.errstate(all="ignore"):
            expected = PROGRAMS[name](np, x, y)
        same_bits(np.asarray(PROGRAMS[name](tr, a, b).compute(strict=True)), expected)
        rows = np.zeros(5)
        with np.errstate(all="ignore"):
            for row in expected:
                rows = rows + row
        found = PROGRAMS[name](tr, a, b).sum(axis=0).compute(strict=True)
        same_bits(np.asarray(found), rows)


def test_background_is_added_one_by_one() -> None:
    a = tr.from_coo(([2, 40],), [1e16, -1e16], (60,))
    expected = 0.0
    for value in np.asarray(a) + 0.1:
        expected = expected + value
    assert float((a + 0.1).sum().compute(strict=True)) == expected


@pytest.mark.measured
def test_products_of_large_sparse_matrices_take_time_by_entries() -> None:
    rng = np.random.default_rng(1)
    at = rng.integers(0, 200_000, (2, 800_000))
    m = sp.csr_array((rng.standard_normal(800_000), tuple(at)), shape=(200_000, 200_000))
    x = rng.standard_normal(200_000)
    a, t = tr.asarray(m), tr.asarray(x)
    def products() -> Any:
        with tr.options(strict=True):  # 4e10 cells
            return *tr.compute(a @ t, a @ (a @ t)), (a @ a).compute()

    seconds, (y, z, square) = processor_seconds(products)
    assert seconds < allowed(10)
    np.testing.assert_allclose(np.asarray(y), m @ x)
    np.testing.assert_allclose(np.asarray(z), m @ (m @ x))
    assert square.nnz == (m @ m).nnz


# -- the law ------------------------------------------------------------------------------------
def read(most: float, fill: float = 0.0, name: str = "A") -> Read:
    fmt = resolve("csr", (3, 4), ops.FLOAT64)
    slot = Slot(name, fmt, (), most=most)
    return Read(Source(slot, (3, 4), ops.FLOAT64, const(fill)), (Index("i"), Index("j")))


def test_products_vanish_inside_sums_of_finite_values() -> None:
    a, b, wild = read(10.0), read(10.0, name="B"), read(np.inf, name="W")
    product = Call(ops.multiply, (a, b))

    def support(e: Any, summed: bool) -> str:
        return Analysis(strict=True, summed=summed).cover(e).support.kind

    assert support(product, True) == "and"
    assert support(product, False) == "or"  # 0 * -1 is -0
    assert support(Call(ops.multiply, (a, wild)), True) == "has"  # only W may be left out
    assert support(Call(ops.divide, (const(1.0), product)), True) == "or"  # 1 / -0 is -inf
    whole = Reduce(ops.add, (Axis("j", 4),), product)
    assert support(whole, False) == "and"


def test_bounds_on_magnitudes() -> None:
    most = Magnitudes()
    a, b = read(1e200), read(1e200, name="B")
    assert most.finite(a) and not most.finite(Call(ops.multiply, (a, b)))
    assert most.of(Call(ops.add, (a, b))) >= 2e200
    assert not most.finite(read(1.0, fill=np.nan)) and not most.finite(read(1.0, fill=np.inf))
    assert not most.finite(Call(ops.exp, (a,)))
    total = Reduce(ops.add, (Axis("j", 10**6),), a)
    assert most.of(total) >= 1e206
    assert rounded(3.0) == rounded(1e9) == 2.0**32 and rounded(0.0) == 0.0
    assert rounded(np.inf) == np.inf == rounded(np.nan)


def test_factors_stay_inside_sums() -> None:
    """Also where the sum is a part of a formula, which is planned apart."""
    rng = np.random.default_rng(0)
    for dtype in ("f4", "f8"):
        x = (rng.normal(size=(4, 5)) * 10.0 ** rng.integers(-5, 6, (4, 5))).astype(dtype)
        X = tr.asarray(x)
        with tr.options(strict=True):
            scaled = (X * 0.7).compute()
            for program in (lambda t: tr.mean(t, axis=0), lambda t: tr.var(t, axis=0),
                            lambda t: tr.sum(t, axis=0) * 2.5, lambda t: tr.exp(tr.sum(t * 1e-6))):
                assert np.array_equal(program(X * 0.7).to_numpy(), program(scaled).to_numpy())
    y = np.array([[0.0, 1.0], [1.0, 2.0], [3.0, -5.0]])
    with np.errstate(all="ignore"):
        for options in ({}, {"strict": True}):
            found = tr.max(tr.sum(tr.asarray(y) * np.inf, axis=0)).compute(**options)
            assert np.isnan(found.item())
            squares = tr.asarray(y - 5.5) @ tr.asarray(y.T)
            assert np.array_equal((squares * np.inf).compute(**options).to_numpy(),
                                  ((y - 5.5) @ y.T) * np.inf)
            big = tr.asarray([1e308, 1e308, 3.0])
            assert tr.mean(big * 1e-300).compute(**options).item() == np.mean([1e8, 1e8, 3e-300])
