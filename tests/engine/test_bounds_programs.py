"""The kernels of typical programs, checked, on data that reach threads, growth, galloping, dense
tails and runs in several ranges; and storages with damaged arrays, which must give an error in
words, or a result, and never end the process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.engines.in_process import kernel_job
from tensorel.errors import EngineError, TensorelError
from tensorel.front.array.convert import stored_of
from tensorel.testing.programs.own_storages import own_formats

Array = np.ndarray[Any, np.dtype[Any]]
Program = Callable[..., Any]
N, ENTRIES = 5000, 200_000
KINDS = ("uniform", "power", "one_row")


def matrix(kind: str, entries: int = ENTRIES, n: int = N, seed: int = 0) -> sp.csr_matrix:
    rng = np.random.default_rng(seed)
    i, j = rng.integers(0, n, (2, entries))
    if kind == "power":
        i = (n * rng.random(entries) ** 4).astype(np.int64)
        j = (n * rng.random(entries) ** 2).astype(np.int64)
    elif kind == "one_row":
        i[: entries // 2] = n // 3
    return sp.csr_matrix(sp.coo_matrix((rng.integers(1, 9, entries).astype(float), (i, j)), (n, n)))


@pytest.fixture(scope="module", params=KINDS)
def data(request: pytest.FixtureRequest) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    cube = rng.integers(0, (200, 300, 50), (30_000, 3)).T
    return {
        "A": tr.tensor(matrix(request.param), format="csr"),
        "S": tr.tensor(matrix("uniform", 6000, seed=2), format="csr"),
        "x": rng.random(N), "U": rng.random((N, 8)), "V": rng.random((N, 8)),
        "T": tr.from_coo(cube, rng.random(30_000), (200, 300, 50), duplicates="sum"),
        "P": rng.random((300, 7)), "Q": rng.random((50, 7)),
        "rows": rng.integers(0, N, 3000), "labels": rng.integers(0, 700, N),
    }


@pytest.fixture(params=["planned", "many_ranges"])
def ranges(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As planned, or every kernel cut into hundreds of ranges: it returns and goes on."""
    if request.param == "many_ranges":
        for name, value in (("RANGE_COST", 2e3), ("PIECE_COST", 1e3), ("SMALL_COST", 1e3)):
            monkeypatch.setattr(kernel_job, name, value)


def agree(program: Program, *args: Any, format: str | None = None) -> None:
    """Checked kernels find nothing, and give what the others give."""
    made = []
    for bounds in (True, False):
        with tr.options(bounds=bounds, effort="quick", threads=3):
            result = program(*args)
            for _ in range(2 if bounds and result.ndim < 2 else 0):  # later runs are launched
                program(*args).compute(format=format)
            made.append(result.compute(format=format))
    if made[0].ndim == 0 or made[0].format.startswith("dense"):
        np.testing.assert_allclose(made[0].to_numpy(), made[1].to_numpy(), rtol=1e-9)
        return
    (coords, values), (others, wanted) = made[0].to_coo(), made[1].to_coo()
    for a, b in zip(coords, others, strict=True):
        assert np.array_equal(a, b)
    np.testing.assert_allclose(values, wanted, rtol=1e-9)


PROGRAMS: dict[str, tuple[Program, str | None]] = {
    "spmv": (lambda d: d["A"] @ d["x"], None),
    "vector times matrix": (lambda d: d["x"] @ d["A"], None),
    "spmm": (lambda d: d["A"] @ d["U"], None),
    "spgemm": (lambda d: d["A"] @ d["S"], "csr"),
    "spgemm to a list": (lambda d: d["S"] @ d["S"], "coo"),
    "sddmm": (lambda d: tr.einsum("ij,ik,jk->ij", d["A"], d["U"], d["V"]), None),
    "union": (lambda d: d["A"] + d["S"], "csr"),
    "unions": (lambda d: d["A"] + d["S"] - d["S"].T + tr.maximum(d["A"], d["S"]), "csr"),
    "intersection": (lambda d: d["A"] * d["S"], "csr"),
    "gallop": (lambda d: tr.sum(d["A"] * d["S"] * d["S"].T, axis=1), None),
    "transposition": (lambda d: d["A"].T, "csr"),
    "reversed": (lambda d: d["A"][::-1, 3:4000:2], "csr"),
    "sums": (lambda d: tr.sum(d["A"], axis=0), None),
    "norm": (lambda d: tr.sum(d["A"] * d["A"]), None),
    "mttkrp": (lambda d: tr.einsum("ijk,jr,kr->ir", d["T"], d["P"], d["Q"]), None),
    "ttm": (lambda d: tr.einsum("ijk,jr->irk", d["T"], d["P"]), None),
    "sorted": (lambda d: tr.sort(d["A"], axis=1), None),
    "rows": (lambda d: d["A"][d["rows"]], None),
    "columns": (lambda d: d["A"][:, d["rows"]], None),
    "points": (lambda d: d["A"][d["rows"], d["rows"][::-1].copy()], None),
    "gather": (lambda d: tr.asarray(d["x"])[d["rows"]], None),
    "scatter": (lambda d: tr.sdql("sum(<i,k> in C) { k -> X(i) }", C=d["labels"], X=d["x"]), None),
    "triangles": (lambda d: tr.einsum("ij,jk,ik->", d["S"], d["S"], d["S"]), None),
    "concatenation": (lambda d: tr.concat([d["A"], d["S"]], axis=1), None),
}


@pytest.mark.usefixtures("ranges")
def test_typical_kernels(data: dict[str, Any]) -> None:
    for name, (program, format) in PROGRAMS.items():
        try:
            agree(program, data, format=format)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error


FORMATS = ["csr", "csc", "coo", "dcsr", "dcsc", "csf", "dok", "trie", "bsr(3,2)", "bsr(1,4)", "dia",
           "zorder", "band", "symmetric", "tril", "0;1", ";0;1", "dense_f"]


def stored_as(format: str, n: int = 400) -> Any:
    """A matrix of any structure that its format takes: banded, symmetric or triangular."""
    a = matrix("power", 1500, n).toarray()
    i, j = np.indices((n, n))
    if format == "symmetric":
        a = a + a.T
    elif format == "tril":
        a = np.tril(a)
    elif format in ("band", "dia"):
        a = np.where(abs(i - j - 2) < 5, a + 1, 0.0)
    return tr.tensor(a, format=format)


@pytest.mark.parametrize("format", [*FORMATS, *own_formats(2, np.random.default_rng(0))])
def test_storages(format: str) -> None:
    a, s = stored_as(format), tr.tensor(matrix("uniform", 900, 400, seed=3), format="csr")
    x = np.arange(400.0)
    for program in (lambda: a @ x, lambda: x @ a, lambda: a + s, lambda: a * s,
                    lambda: s @ a, lambda: tr.sqrt(tr.diagonal(a, 1)), lambda: a[5:, :-7].T):
        agree(program)


TENSORS = ["csf", "csf(2,0,1)", "coo", "trie", "dok", ";0,1;2", "0;1,2", "0;1;2", "1;0,2"]


@pytest.mark.parametrize("format", TENSORS + own_formats(3, np.random.default_rng(0)))
def test_storages_of_three_axes(format: str) -> None:
    rng = np.random.default_rng(4)
    a = np.where(rng.random((30, 40, 9)) < 0.1, rng.random((30, 40, 9)), 0.0)
    t, other = tr.tensor(a, format=format), tr.tensor(a[::-1].copy(), format="coo")
    for program in (lambda: t @ np.ones(9), lambda: t + other, lambda: t * other,
                    lambda: tr.sum(t, axis=1), lambda: tr.transpose(t, (2, 0, 1)) * 2.0):
        agree(program)


@pytest.mark.parametrize("format", ["csc", "dcsc", "csf(1,0)", None])
@pytest.mark.parametrize("rows", [1, 30])
def test_columns_of_rows_stored_by_column(rows: int, format: str | None) -> None:
    """What is fetched in advance lies in the columns that were asked for, too."""
    rng = np.random.default_rng(rows)
    x = rng.integers(1, 9, (rows, 2000)) * (rng.random((rows, 2000)) < 0.02)
    stored, vector = tr.tensor(x, format="csr"), np.arange(700.0)
    for part in (slice(800, 1500), slice(-1200, -500), slice(1300, 600, -1)):
        for optimize in (False, True):
            with tr.options(bounds=True, optimize=optimize, effort="quick"):
                found = stored[:, part].compute(format=format)
                np.testing.assert_array_equal(found.to_numpy(), x[:, part])
                np.testing.assert_array_equal((stored[:, part] @ vector).to_numpy(),
                                              x[:, part] @ vector)


def test_a_million_entries() -> None:
    a = tr.tensor(matrix("power", 1_000_000), format="csr")
    x, labels = np.ones(N), np.minimum(np.arange(10**6) // 7, 900)
    for program in (lambda: a @ x, lambda: a.T, lambda: a + a.T,
                    lambda: tr.sdql("sum(<i,k> in C) { k -> 1 }", C=labels)):
        agree(program)


def test_kernels_of_files_and_sorting(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    with tr.options(bounds=True):
        for dtype in (float, complex, np.int16, bool):
            coords = rng.integers(0, (3000, 2000), (100_000, 2)).T
            values = rng.integers(1, 3, 100_000).astype(dtype)
            t = tr.from_coo(coords, values, (3000, 2000), duplicates="sum")
            want = sp.coo_matrix((values, coords), (3000, 2000)).tocsr()
            assert t.nnz == want.nnz and abs(complex(t.sum()) - complex(want.sum())) < 1e-6
        t = tr.from_coo(coords, rng.random(100_000), (3000, 2000), duplicates="last")
        tr.write(tmp_path / "t.mtx", t)
        assert np.array_equal(tr.read(tmp_path / "t.mtx").to_numpy(), t.to_numpy())


# -- damaged arrays --------------------------------------------------------------------------------

#: What becomes of one element of an index array of so many elements below ``extent``.
DAMAGES: tuple[Callable[[int, int], int], ...] = (
    lambda old, extent: -1, lambda old, extent: extent, lambda old, extent: extent + 17,
    lambda old, extent: 2**31 - 1, lambda old, extent: -(2**31), lambda old, extent: old + 1,
    lambda old, extent: 0,
)


def damaged(rng: np.random.Generator, t: Any) -> Iterator[Any]:
    """The tensor with one element of one of its index arrays wrong, as no reader would let it
    pass: the arrays are exchanged after the tensor has been looked at."""
    stored = stored_of(t)
    for name, array in stored.arrays.items():
        if array.dtype.kind not in "iu" or not array.size or name.startswith("slots"):
            continue  # with a wrong size of a hash table a search may be endless, but stays inside
        for damage in DAMAGES:
            wrong = array.copy()
            at = int(rng.integers(0, wrong.size))
            wrong[at] = np.int64(damage(int(wrong[at]), max(stored.shape))).astype(wrong.dtype)
            known = stored.derived.copy()
            known.ranges = known.packed = None
            made = None
            with suppress(EngineError):  # what the law of its format sees cannot be made
                made = replace(stored, arrays={**stored.arrays, name: wrong}, derived=known)
            yield None if made is None else tr.asarray(made)


@pytest.mark.parametrize("format", [
    "csr", "csc", "coo", "dcsr", "csf", "dok", "trie", "bsr(3,2)", "dia",
    *own_formats(2, np.random.default_rng(0))])
def test_damaged_storages_give_errors_in_words(format: str) -> None:
    rng, found, runs = np.random.default_rng(6), 0, 0
    good, s = stored_as(format, 120), tr.tensor(matrix("uniform", 300, 120), format="csr")
    x = np.ones(120)
    with tr.options(bounds=True, effort="quick", threads=2, verify=False):
        good @ x, (good * s).compute(), (good + s).compute()
        for bad in damaged(rng, good):
            if bad is None:
                found += 1
                continue
            for program in (lambda t: t @ x, lambda t: x @ t, lambda t: t * s, lambda t: t + s):
                runs += 1
                try:
                    program(bad).compute()
                except EngineError as error:
                    assert re.search("position .* (which has|where) ", str(error)), error
                    found += 1
                except TensorelError:
                    pass
    assert found > runs // 10, (found, runs)
