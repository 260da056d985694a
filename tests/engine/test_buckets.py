"""Transpositions in parts: each thread counts and places the entries of its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.engines.in_process import kernel_step
from tensorel.engines.in_process.kernel_job import Job


def _matrix(rows: int, columns: int, count: int, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    skewed = (rows * rng.random(count) ** 3).astype(int)  # few long rows, many empty ones
    made = sp.csr_array((rng.normal(size=count), (skewed, rng.integers(0, columns, count))),
                        shape=(rows, columns))
    made.sum_duplicates()
    return made


def _same(ours: Any, theirs: Any) -> None:
    theirs = sp.csr_array(theirs)
    theirs.sort_indices()
    mine = ours.to_scipy()
    for name in ("indptr", "indices", "data"):
        np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("shape", [(5000, 70), (70, 5000), (1, 4000), (9, 1)])
def test_any_number_of_parts(threads: int, shape: tuple[int, int],
                             monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_step, "SMALL_COST", 0.0)
    monkeypatch.setattr(Job, "workers", property(lambda job: threads))
    a = _matrix(*shape, 9000, threads)
    t = tr.asarray(a)
    _same(t.T.to_format("csr"), a.T)
    _same(t[2:40].T.to_format("csr"), a[2:40].T)
    _same((2 * t).T.to_format("csr"), 2 * a.T)
    empty = tr.asarray(sp.csr_array(shape))
    assert empty.T.to_format("csr").nnz == 0


@pytest.mark.parametrize("threads", [1, 2])
def test_as_planned(threads: int) -> None:
    a = _matrix(50_000, 40_000, 600_000, 1)
    with tr.options(threads=threads):
        _same(tr.asarray(a).T.to_format("csr"), a.T)
        columns = tr.asarray(a).to_format("csc")
    want = a.tocsc()
    want.sort_indices()
    np.testing.assert_array_equal(columns.to_scipy("csc").indices, want.indices)
    np.testing.assert_array_equal(columns.to_scipy("csc").data, want.data)
