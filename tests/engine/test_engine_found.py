"""Programs that the fuzzer found, each with its seed and number."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr


def test_equal_sums_in_two_semirings() -> None:
    """4001:8574."""
    a = tr.tensor(np.array([0, 4]), fill=0)
    c = tr.tensor(np.zeros((2, 2, 2, 2), np.int64), format="dense")
    v = tr.var(tr.tensor(np.array([1.0, 3.0]), fill=1), axis=None, keepdims=True)
    t = tr.einsum("ijkj,l->i", c, tr.einsum("i,i,j->i", v, v, a), add="max", mul="add")
    np.testing.assert_allclose(t.to_numpy(), [4.0, 4.0])


def test_a_constant_inside_an_inner_reduction() -> None:
    """3301:1097."""
    c = tr.tensor(np.ones((2, 5), np.uint8), fill=1)
    b = tr.tensor(np.full(5, -1.0), fill=-1)
    largest = tr.logical_not(c * 0).max(axis=(1, 0), keepdims=True)
    t = tr.einsum("ij,k->j", largest, b)
    assert t.compute(optimize=False).to_numpy().tolist() == t.to_numpy().tolist() == [-5.0]


def test_an_index_in_no_factor() -> None:
    """3201:303."""
    a = tr.tensor(np.eye(3)[:, :, None, None] * np.ones((1, 1, 2, 2)), fill=0)
    total = tr.einsum("ijkl->ki", a.sum(axis=(0, 1, 3, 2), keepdims=True))
    t = tr.einsum("ijkl,mn->lm", a, total)
    np.testing.assert_allclose(t.to_numpy(), np.full((2, 1), 6.0 * 12.0))


@pytest.mark.parametrize("fmt", [
    "coo", "csr", "csc", "dcsr", "dcsc", "csf(0,1)", "csf(1,0)", "dok", "bsr(2,2)", "dia"])
@pytest.mark.parametrize("cut", [
    np.s_[:2], np.s_[:, :2], np.s_[:3, :4], np.s_[2:], np.s_[:, 1:3], np.s_[::2], np.s_[:, ::-1]])
def test_reductions_of_slices(fmt: str, cut: tuple[slice, ...]) -> None:
    """7002:1989: one loop over all values went past the end of the slice."""
    rng = np.random.default_rng(7)
    a = np.where(rng.random((6, 6)) < 0.5, rng.integers(1, 99, (6, 6)), 0)
    t = tr.tensor(a, format=fmt, fill=0)
    assert int(t[cut].sum().compute()) == a[cut].sum()
    assert int((t[cut] * t[cut]).sum().compute()) == (a[cut] * a[cut]).sum()
    assert int((t[cut] * 3).max().compute()) == (a[cut] * 3).max()
    assert t[cut].sum(axis=0).to_numpy().tolist() == a[cut].sum(axis=0).tolist()


def test_equal_definitions_with_a_nan_between() -> None:
    """7002:624: the fill of t / t is nan, which is not itself."""
    b = tr.tensor(np.zeros((5, 0), np.complex128), fill=0)
    v = tr.tensor(np.array([0, 0, 2], np.uint8), format="coo", fill=0)
    t = tr.einsum(",ij->j", (v @ v) / (v @ v), b)
    assert tr.map(lambda x, y: x - y * y, t, t).to_numpy().shape == (0,)


def test_a_workspace_over_an_empty_axis() -> None:
    """9001:17990."""
    a = tr.tensor(np.zeros(0, np.complex128), fill=0)
    b = tr.tensor(np.zeros((0, 0), np.bool_), fill=0)
    d = tr.tensor(np.zeros((0, 0, 0)), format="0;1,2", fill=0)
    t = tr.einsum("ijk,ki,kj->ki", d, b, tr.tensordot(d, a, 1))
    assert t.to_numpy().shape == (0, 0)


def test_orders_of_many_loops_leave_inner_sums_alone() -> None:
    """KeyError (61001:785): with more than five loops an index of a sum inside the body became
    one of them."""
    a = tr.tensor(np.array([True, False]), format="coo", fill=0)
    d = tr.tensor(np.ones((2, 2, 2, 2), bool), fill=0)
    found = (tr.tensordot(d, d, 1) * a).to_numpy()
    assert np.array_equal(found, np.tensordot(np.ones((2,) * 4, bool), np.ones((2,) * 4, bool), 1)
                          * np.array([True, False]))
