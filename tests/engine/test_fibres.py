"""Results stored in levels: the nodes of upper levels, where their children begin, and the same
on any number of ranges and threads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.costs import SHIPPED
from tensorel.engines.in_process import kernel_step
from tensorel.engines.in_process.kernel_job import Job
from tensorel.front.array.convert import stored_of

SHAPE = (30, 40, 25)


def tensor(count: int, seed: int, shape: tuple[int, ...] = SHAPE) -> tuple[tr.Tensor, Any]:
    """Entries in a third of the rows, so that nodes are missing on every level."""
    rng = np.random.default_rng(seed)
    dense = np.zeros(shape)
    at = tuple(rng.integers(0, n, count) // 3 * 3 % n for n in shape)
    dense[at] = rng.normal(size=count)
    coords = np.nonzero(dense)
    return tr.from_coo(coords, dense[coords], shape, format="csf"), dense


def factor(seed: int, shape: tuple[int, int], format: str) -> tuple[tr.Tensor, Any]:
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random(shape) < 0.1, rng.normal(size=shape), 0.0)
    coords = np.nonzero(dense)
    return tr.from_coo(coords, dense[coords], shape, format=format), dense


def check(found: tr.Tensor, wanted: Any) -> None:
    """The values, and that levels are in order without empty nodes."""
    np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-12, atol=1e-12)
    coords, values = found.to_coo()
    assert (values != 0).all()
    flat = np.ravel_multi_index(tuple(coords), wanted.shape)
    assert (np.diff(flat) > 0).all()
    for name, pos in stored_of(found).arrays.items():
        if name in ("pos1", "pos2", "pos3"):
            assert pos[0] == 0 and (np.diff(pos) > 0).all()


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 50, 4000])
def test_any_number_of_parts(parts: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Job, "workers", property(lambda job: parts))
    monkeypatch.setattr(Job, "ranges", lambda job, *a, **k: [
        (lo, min(lo + 4, job.extents[job.outer])) for lo in range(0, job.extents[job.outer], 4)])
    a, x = tensor(count, count + 1)
    b, y = factor(3, (20, SHAPE[2]), "csc")
    wide, z = factor(4, (70, SHAPE[2]), "csc")
    other, w = tensor(count // 2, 7)
    check(tr.einsum("ijl,kl->ijk", a, b).compute(), np.einsum("ijl,kl->ijk", x, y))
    check(tr.einsum("ijl,kl->ijk", a, wide).compute(), np.einsum("ijl,kl->ijk", x, z))
    check((a + other).compute(), x + w)
    check((a * other).compute(), x * w)
    check((a * 2.0).compute(format="csf"), x * 2.0)


def test_four_levels_and_a_dense_one_below() -> None:
    a, x = tensor(500, 1, (9, 12, 6, 10))
    b, y = factor(2, (8, 10), "csr")
    check(tr.einsum("ijkl,ml->ijkm", a, b).compute(), np.einsum("ijkl,ml->ijkm", x, y))
    d = np.random.default_rng(3).normal(size=(10, 5))
    found = tr.einsum("ijkl,lm->ijkm", a, tr.asarray(d)).compute()
    np.testing.assert_allclose(found.to_numpy(), np.einsum("ijkl,lm->ijkm", x, d), atol=1e-12)


def test_sums_that_cancel_leave_no_nodes() -> None:
    """The only entries of a row that meet add up to zero: the row is not there."""
    a = tr.from_coo(([0, 0, 1], [1, 1, 2], [0, 1, 0]), [1.0, -1.0, 2.0], (2, 3, 4), format="csf")
    b = tr.from_coo(([0, 0], [0, 1]), [1.0, 1.0], (5, 4), format="csc")
    found = tr.einsum("ijl,kl->ijk", a, b).compute()
    assert found.nnz == 1 and found.to_coo()[0].tolist() == [[1], [2], [0]]


def test_places_in_32_bits_may_wrap_around() -> None:
    starts = np.array([0, 2**31 - 5, 2**31 + 7, 2**32 - 1, 2**32 + 3])
    narrow = starts.astype(np.int32)
    assert np.array_equal(kernel_step.unwrapped(narrow, 2**32 + 3), starts)


@pytest.mark.parametrize("count", [0, 1, 40, 3000])
def test_rows_fetched_ahead(count: int) -> None:
    """Asking for rows in advance changes nothing, at the end of arrays neither."""
    (a, x), (b, y) = tensor(count, 5), factor(6, (12, SHAPE[2]), "csc")
    (c, z), (d, w) = factor(7, (SHAPE[1], 12), "csr"), factor(8, (SHAPE[2], 12), "csr")
    (e, u), (empty, v) = factor(9, (12, 12), "dcsr"), factor(9, (0, 12), "csr")
    rows = np.array([3, 0, 11, 11, 5])
    dense, tall = tr.asarray(w), tr.asarray(np.asfortranarray(u))
    with tr.options(costs=replace(SHIPPED, fetch_bytes=-1.0, near_bytes=-1.0)):
        check(tr.einsum("ijl,kl->ijk", a, b).compute(), np.einsum("ijl,kl->ijk", x, y))
        for found, wanted in (
            (tr.einsum("ikl,kj,lj->ij", a, c, d), np.einsum("ikl,kj,lj->ij", x, z, w)),
            (c @ e @ e, z @ u @ u), (c.T @ c, z.T @ z), (e[rows], u[rows]), (empty @ e, v @ u),
            (tr.einsum("ij,jk,ik->", e, e, e), np.einsum("ij,jk,ik->", u, u, u)),
            (tr.einsum("ikl,kj,lj->ij", a, c, dense), np.einsum("ikl,kj,lj->ij", x, z, w)),
            (e @ tall, u @ u), (e.T @ tall.T, u.T @ u.T), (e[rows] @ tall, u[rows] @ u),
        ):
            np.testing.assert_allclose(found.compute().to_numpy(), wanted, rtol=1e-12, atol=1e-12)
