"""Sums, means, variances, norms and contractions beside exact ones (``math.fsum``): at least as
exact as NumPy's, or a few units of the sum of the magnitudes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

import tensorel as tr

#: Sums keep their digits where kernels are compiled with all effort.
pytestmark = pytest.mark.effort("full")

Array = np.ndarray[Any, np.dtype[Any]]
#: Units in the last place of the sum of the magnitudes.
UNITS = 4.0
#: Around the borders of blocks, and beyond many of them.
LENGTHS = (1, 7, 31, 33, 127, 255, 256, 257, 261, 1023, 1024, 1025, 1030, 2049, 20_001, 300_000)
KINDS = ("constant", "random", "cancelling", "alternating", "growing")


def data(kind: str, n: int, dtype: str, rng: np.random.Generator) -> Array:
    def real() -> Array:
        if kind == "constant":
            return np.full(n, 0.1)
        x = rng.random(n) + 0.5
        if kind == "cancelling":
            x[1::2] = -x[: n // 2 * 2: 2] * (1 + 1e-5 * rng.random(n // 2))
        elif kind == "alternating":
            x *= np.where(np.arange(n) % 2, 1e-6, 1e6)
        elif kind == "growing":
            x *= np.linspace(1e-3, 1e3, n)
        return x

    made = real() + 1j * real() if np.dtype(dtype).kind == "c" else real()
    return made.astype(dtype)


def exact(x: Array) -> Any:
    """The sum of finite numbers, rounded once, in double precision."""
    if x.dtype.kind == "c":
        return complex(math.fsum(x.real.tolist()), math.fsum(x.imag.tolist()))
    return math.fsum(x.tolist())


def check(found: Any, truth: Any, theirs: Any, size: float, dtype: Any, about: object) -> None:
    """``theirs``: NumPy's answer. ``size``: the sum of the magnitudes."""
    unit = float(np.finfo(dtype).eps)
    error, allowed = abs(complex(found) - truth), abs(complex(theirs) - truth)
    assert error <= max(allowed, UNITS * unit * size), (about, error / (unit * size or 1))


def sparse(x: Array, fmt: str) -> tr.Tensor:
    """A matrix whose second row is x, between rows of a few entries."""
    rows = np.zeros((3, x.size), x.dtype)
    rows[1] = x
    rows[0, : min(3, x.size)] = 1
    rows[2, -min(2, x.size):] = 1
    return tr.tensor(rows, format=fmt)


def sizes() -> Iterator[tuple[int, str]]:
    for k, n in enumerate(LENGTHS):
        for j, kind in enumerate(KINDS):
            if n < 20_000 or (k + j) % 2 == 0:
                yield n, kind


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_sums_of_vectors(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for n, kind in sizes():
        x = data(kind, n, dtype, rng)
        truth, size = exact(x), float(np.abs(x.astype("c16")).sum())
        about = (dtype, kind, n)
        t = tr.asarray(x)
        check(t.sum().to_numpy()[()], truth, x.sum(), size, dtype, (*about, "sum"))
        check(t.mean().to_numpy()[()], truth / n, x.mean(), size / n, dtype, (*about, "mean"))
        if n % 3 == 0:
            split = tr.asarray(x.reshape(3, -1))
            check(split.sum().to_numpy()[()], truth, x.sum(), size, dtype, (*about, "two axes"))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
def test_contractions(dtype: str) -> None:
    rng = np.random.default_rng(2)
    for n, kind in sizes():
        if n > 30_000 and kind != "constant":
            continue
        x, y = data(kind, n, dtype, rng), data("random", n, dtype, rng)
        z = data("random", n, dtype, rng)
        wide = x.astype("c16") * y
        truth, size = exact(wide), float(np.abs(wide).sum())
        about = (dtype, kind, n)
        a, b, c = map(tr.asarray, (x, y, z))
        theirs = (x * y).sum()
        check((a * b).sum().to_numpy()[()], truth, theirs, size, dtype, (*about, "sum of product"))
        check(tr.einsum("i,i->", a, b).to_numpy()[()], truth, x @ y, size, dtype, (*about, "dot"))
        for fmt in ("csr", "coo", "csc", "csf"):
            rows = sparse(x, fmt)
            got = (rows @ b).to_numpy()[1]
            in_order = np.add.accumulate(x * y)[-1] if fmt == "csc" else x @ y
            check(got, truth, in_order, size, dtype, (*about, fmt, "A @ x"))
        both = (sparse(x, "csr") * sparse(y, "csr")).sum().to_numpy()[()]
        ends = np.concatenate([np.ones(min(3, n)), np.ones(min(2, n))])
        check(both, exact(np.concatenate([wide, ends])), theirs + ends.sum(), size + ends.sum(),
              dtype, (*about, "A * B"))
        three = wide * z
        got = tr.einsum("ij,j,j->i", sparse(x, "csr"), b, c).to_numpy()[1]
        check(got, exact(three), (x * y * z).sum(), float(np.abs(three).sum()), dtype,
              (*about, "three factors"))


def test_products_of_matrices() -> None:
    """Sums inside runs inside runs: each starts at its own place."""
    rng = np.random.default_rng(0)
    formats = ("coo", "csr", "csc", "dcsr", "dok", "bsr", "csf")
    for shape, density in (((6, 8), 0.3), ((40, 200), 0.5)):
        dense = np.where(rng.random(shape) < density, rng.random(shape), 0.0)
        other = np.where(rng.random(shape) < density, rng.random(shape), 0.0)
        for left in formats:
            a = tr.tensor(dense, format=left)
            np.testing.assert_allclose((a @ a.T).to_numpy(), dense @ dense.T, rtol=1e-12)
            for right in formats:
                b = tr.tensor(other, format=right)
                np.testing.assert_allclose((a * b).sum(axis=1).to_numpy(),
                                           (dense * other).sum(axis=1), rtol=1e-12)
                np.testing.assert_allclose((a @ b.T).to_numpy(), dense @ other.T, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("fmt", ["csr", "csc", "coo", "dok", "csf", "bsr"])
def test_sums_of_rows(dtype: str, fmt: str) -> None:
    rng = np.random.default_rng(3)
    for n in (33, 257, 1030, 20_000):
        for kind in KINDS:
            x = data(kind, n, dtype, rng)
            t = sparse(x, fmt)
            truth, size = exact(x), float(np.abs(x).sum())
            # columns after columns, or blocks after blocks, are added to a row one by one
            in_order = np.add.accumulate(x)[-1] if fmt in ("csc", "bsr") else x.sum()
            check(t.sum(axis=1).to_numpy()[1], truth, in_order, size, dtype, (dtype, fmt, kind, n))
            ends = min(3, n) + min(2, n)
            theirs = in_order + ends if fmt == "bsr" else x.sum() + ends
            check(t.sum().to_numpy()[()], truth + ends, theirs, size + ends, dtype,
                  (dtype, fmt, kind, n, "all"))


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize("fmt", ["csf", "coo", "trie", "0;1;2", "0;1,2", "dense"])
def test_sums_of_many_short_parts(dtype: str, fmt: str) -> None:
    """Loops inside loops: many parts, each of terms that are added one after another."""
    rng = np.random.default_rng(5)
    for n, width in ((300, 40), (20_000, 3)):
        for kind in KINDS:
            block, w = data(kind, n * width, dtype, rng), data("random", width, dtype, rng)
            wide = np.zeros((2, n, width), dtype)
            wide[1] = block.reshape(n, width)
            t, about = tr.tensor(wide, format=fmt), (dtype, fmt, kind, n)
            for terms, got in ((block.astype("c16"), t.sum(axis=(1, 2))), (
                    (wide[1].astype("c16") * w).reshape(-1), tr.einsum("aij,j->a", t, w))):
                size = float(np.abs(terms).sum())
                check(got.to_numpy()[1], exact(terms), exact(terms), 2 * size, dtype, about)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_spread_and_length(dtype: str) -> None:
    rng = np.random.default_rng(4)
    for n, kind in sizes():
        x = data(kind, n, dtype, rng)
        t, wide = tr.asarray(x), x.astype("f8")
        about = (dtype, kind, n)
        middle = exact(x) / n
        spread = math.fsum(((wide - middle) ** 2).tolist()) / n
        # the mean that is subtracted is rounded to the dtype
        near = 4 * np.finfo(dtype).eps * abs(middle) * math.sqrt(spread)
        found, theirs = float(t.var().to_numpy()), float(x.var())
        unit = float(np.finfo(dtype).eps)
        allowed = UNITS * unit * spread + near + (unit * middle) ** 2 * 16
        assert abs(found - spread) <= max(abs(theirs - spread), allowed), (*about, "var")
        length = math.sqrt(math.fsum((wide * wide).tolist()))
        check(tr.sqrt((t * t).sum()).to_numpy()[()], length, np.linalg.norm(x), length, dtype,
              (*about, "norm"))


def test_millions_of_single_numbers() -> None:
    many = 3 * 10**7
    assert float(tr.asarray(np.ones(many, "f4")).sum()) == many
    assert float(tr.asarray(np.full(10**7, 0.1, "f4")).mean()) == pytest.approx(0.1, rel=3e-7)
    column = tr.asarray(np.full((10**6, 3), 0.1, "f4")).sum(axis=0).to_numpy()
    np.testing.assert_allclose(column, 0.1 * 10**6, rtol=1e-6)


def test_parts_of_threads() -> None:
    x = np.full(4_000_000, 0.1, "f4")
    truth = exact(x)
    for threads in (1, 2, 4):
        with tr.options(threads=threads):
            found = [float(f().to_numpy()) for f in _reductions(x)]
        for got in found:
            assert abs(got - truth) <= UNITS * np.finfo("f4").eps * truth, threads


def _reductions(x: Array) -> list[Callable[[], tr.Tensor]]:
    t = tr.asarray(x)
    matrix = tr.asarray(x.reshape(2000, -1))
    return [lambda: t.sum(), lambda: matrix.sum(), lambda: (matrix * 1).sum(axis=0).sum(),
            lambda: matrix.sum(axis=1).sum()]


def test_infinite_sums_stay_infinite() -> None:
    """Wherever they begin to be: with and without blocks before them and behind."""
    for n, dtype in product((10, 3000, 9000), ("f4", "f8", "c16")):
        weights = tr.asarray(np.ones(n, dtype))
        for special in ([math.inf], [-math.inf], [math.inf, -math.inf], [math.nan]):
            for at in (0, n // 3, n // 2, n - len(special)):
                x = np.ones(n, dtype)
                x[at : at + len(special)] = special
                rows = np.zeros((2, n), dtype)
                rows[0], rows[1, 0] = x, 1
                with np.errstate(all="ignore"):
                    wanted = x.sum()
                sparse = [tr.tensor(rows, format=f) for f in ("csr", "coo", "csc")]
                found = [tr.asarray(x).sum(), *[t.sum() for t in sparse],
                         *[t.sum(axis=1)[0] for t in sparse], *[(t @ weights)[0] for t in sparse]]
                for k, got in enumerate(f.to_numpy()[()] for f in found):
                    if wanted != wanted:
                        assert got != got, (k, n, at, special, dtype)
                    else:
                        assert got.real == wanted.real, (k, n, at, special, dtype)
    big = np.full(2000, 1e308)
    assert float(tr.asarray(big).sum()) == math.inf
