"""Arrays that are handed out are read-only where they share memory, unless a copy is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.csgraph as graphs
import scipy.sparse.linalg as solvers
from handing import MATRICES

import tensorel as tr
from tensorel.front.array.base import from_stored
from tensorel.storage.convert import from_dense, to_format
from tensorel.storage.stored import Stored

Array = np.ndarray[Any, np.dtype[Any]]


class Scaler:
    """An estimator as scikit-learn has them: it takes whatever converts to an array, copies it if
    told to and if the array is not a copy already, and then works in place."""

    def __init__(self, convert: Callable[[Any], Array]) -> None:
        self.convert = convert

    def fit_transform(self, x: Any) -> Array:
        array = self.convert(x)
        if np.may_share_memory(array, x) or not array.flags.writeable:
            array = array.copy()
        array -= array.mean(0)
        array /= array.std(0)
        return array


CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray, "array": np.array, "float": lambda x: np.asarray(x, dtype=float),
    "ascontiguousarray": np.ascontiguousarray, "asfortranarray": np.asfortranarray,
    "require": lambda x: np.require(x, requirements="A"), "from_dlpack": np.from_dlpack,
    "to_numpy": lambda x: x.to_numpy() if hasattr(x, "to_numpy") else x,
    "no copy": lambda x: np.array(x, copy=None), "stored": lambda x: x.stored.arrays["val"],
    "old dlpack": lambda x: np.from_dlpack(Old(x)),
}


class Old:
    """An exchange that has never heard of read-only memory."""

    def __init__(self, x: Any) -> None:
        self.x = x

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__()

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()


def programs(a: Array) -> dict[str, Any]:
    """Tensors that are the user's array, or a view of it, or nothing of it."""
    t = tr.asarray(a)
    return {"itself": t, "turned": t.T, "reshaped": t.reshape(-1, 1), "computed": t.T.compute(),
            "fill": tr.tensor(a, fill=2.0), "sum": t + 1, "kept": (t + 1).compute(),
            "view of kept": (t + 1).compute().T, "same": tr.asarray(t)}


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("convert", CONVERSIONS)
def test_arrays_of_users_are_never_written_through(convert: str, order: Any) -> None:
    a = np.array(np.arange(12.0).reshape(4, 3) ** 2, order=order)
    before = a.copy()
    for name, t in programs(a).items():
        expected = t.to_numpy().copy()
        array = CONVERSIONS[convert](t)
        if array.flags.writeable:  # then it is the caller's alone
            array[...] = -1
        else:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = -1
        np.testing.assert_array_equal(a, before, err_msg=name)
        np.testing.assert_array_equal(t.to_numpy(), expected, err_msg=name)


@pytest.mark.parametrize("convert", [np.asarray, np.ascontiguousarray, np.from_dlpack])
def test_estimators_leave_the_array_alone(convert: Callable[[Any], Array]) -> None:
    a = np.arange(12.0).reshape(4, 3) ** 2
    before = a.copy()
    t = tr.asarray(a)
    found, expected = Scaler(convert).fit_transform(t), Scaler(convert).fit_transform(a.copy())
    np.testing.assert_allclose(found, expected)
    np.testing.assert_array_equal(a, before)
    np.testing.assert_array_equal(t.to_numpy(), before)


def test_numpy_hears_whether_memory_is_shared() -> None:
    a, m = np.arange(12.0).reshape(4, 3), sp.csr_array(np.eye(3))
    t, s = tr.asarray(a), tr.asarray(m)
    for shares in (np.may_share_memory, np.shares_memory):
        assert shares(t, a) and shares(a, t) and shares(t, tr.asarray(a)) and shares(t.T, a)
        assert shares(t, np.asarray(t)) and shares(t[1:], a) is not None
        assert shares(s, m.data) and shares(s, m.indices) and not shares(s, m.data.copy())
        assert not shares(t, a.copy()) and not shares((t + 1).compute(), a)
        assert not shares(t.copy(), a)
    assert not np.shares_memory(t + 1, a)
    assert np.shares_memory(t, a, max_work=1000)


def test_results_that_nobody_keeps_can_be_written_to() -> None:
    a = np.arange(9.0).reshape(3, 3)
    for t in (tr.asarray(a), tr.tensor(a, format="csr")):
        y = (t @ t).to_numpy()
        y[0] = 1  # as NumPy users do
        np.testing.assert_array_equal((t @ t).to_numpy(), a @ a)
    sparse_array = tr.tensor(a, format="csr").to_numpy()
    sparse_array[0] = 7


def test_other_storages_of_a_tensor_are_held_too() -> None:
    stored = from_dense(np.arange(9.0).reshape(3, 3))
    other = to_format(stored, "dense_f")
    t = from_stored(Stored(stored.format, stored.shape, stored.dtype, stored.fill, stored.arrays,
                           alternatives=(other,)))
    assert not any(a.flags.writeable for s in (t.stored, other) for a in s.arrays.values())
    assert not t.T.to_numpy().flags.writeable or not np.shares_memory(t.T.to_numpy(), t)


def test_copies_are_writable() -> None:
    a = np.arange(9.0).reshape(3, 3)
    t = tr.asarray(a)
    for made in (t.to_numpy(copy=True), np.array(t), np.array(t, copy=True), t.__array__(copy=True),
                 np.from_dlpack(t, copy=True), t.to_scipy(copy=True).data):
        assert made.flags.writeable and not np.shares_memory(made, a)


def test_the_array_protocol_refuses_what_needs_a_copy() -> None:
    t = tr.asarray(np.eye(3))
    assert np.shares_memory(np.asarray(t, copy=False), t)
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(t, dtype="f4", copy=False)
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(tr.tensor(np.eye(3), format="csr"), copy=False)
    with pytest.raises(BufferError, match="read-only"):
        t.__dlpack__(copy=False)


# -- SciPy -----------------------------------------------------------------------------------------
V = np.arange(1.0, 13.0)
OPERATIONS: tuple[Callable[[Any], Any], ...] = (
    lambda m: m @ V, lambda m: V @ m, lambda m: (m @ m).toarray(), lambda m: (m + m).toarray(),
    lambda m: m.multiply(m).toarray(), lambda m: m.T.toarray(), lambda m: m.sum(0),
    lambda m: m.max(),
    lambda m: m[2:9].toarray(), lambda m: m[[1, 5, 3]].toarray(), lambda m: m[:, [3, 1]].toarray(),
    lambda m: m[3, 4], lambda m: m.tocsc().toarray(), lambda m: m.tolil().toarray(),
    lambda m: m.todok().toarray(), lambda m: m.tobsr().toarray(), lambda m: abs(m).toarray(),
    lambda m: m.power(2).toarray(), lambda m: m.diagonal(), lambda m: sp.hstack([m, m]).toarray(),
    lambda m: sp.kron(m, m).sum(), lambda m: sp.tril(m).toarray(), lambda m: (m > 1).toarray(),
    lambda m: (m * 2.0).toarray(), lambda m: m.reshape((6, 24)).toarray(),
    lambda m: solvers.spsolve(m.tocsc(), V), lambda m: solvers.splu(m.tocsc()).solve(V),
    lambda m: solvers.norm(m), lambda m: solvers.svds(m, 2, v0=V)[1],
    lambda m: graphs.connected_components(m)[1], lambda m: graphs.dijkstra(m),
    lambda m: graphs.minimum_spanning_tree(m).toarray(), lambda m: graphs.reverse_cuthill_mckee(m),
    lambda m: graphs.laplacian(m).toarray(), lambda m: graphs.structural_rank(m),
    lambda m: m.sorted_indices().toarray(), lambda m: m.sum_duplicates(),
    lambda m: m.sort_indices(), lambda m: m.has_canonical_format,
)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "coo", "dia"])
def test_exported_matrices_work_in_scipy(layout: str) -> None:
    rng = np.random.default_rng(2)
    dense = np.where(rng.random((12, 12)) < 0.3, rng.integers(1, 9, (12, 12)), 0) + 9.0 * np.eye(12)
    h = MATRICES[layout](dense)
    kept = h.values.copy()
    for t in (h.tensor, (h.tensor * 1.0).compute()):
        for operation in OPERATIONS:
            found = operation(t.to_scipy(layout).tocsr())
            expected = operation(sp.csr_array(dense))
            if expected is not None:
                np.testing.assert_allclose(
                    np.asarray(found, dtype=float), np.asarray(expected, dtype=float), atol=1e-9)
        m = t.to_scipy(layout)
        arrays = [getattr(m, n) for n in ("data", "indices", "indptr", "offsets") if hasattr(m, n)]
        if hasattr(m, "coords"):
            arrays += m.coords
        assert not any(np.shares_memory(x, t) and x.flags.writeable for x in arrays)
    np.testing.assert_array_equal(h.values, kept)


@pytest.mark.filterwarnings("ignore")
def test_exported_arrays_work_in_pydata_sparse() -> None:
    a = np.where(np.arange(20).reshape(4, 5) % 3 == 0, 1.5, 0)
    s = tr.tensor(a, format="coo").to_pydata()
    np.testing.assert_allclose(s.sum(0).todense(), a.sum(0))
    np.testing.assert_allclose(s.T.todense(), a.T)
    np.testing.assert_allclose(tr.tensor(a, format="csr").to_pydata().todense(), a)


def test_coordinates_are_read_only_where_they_are_shared() -> None:
    m = sp.csr_array(np.eye(3))
    t = tr.asarray(m)
    for array in t.to_coo():
        assert not (array.flags.writeable and np.shares_memory(array, t))
    own = tr.storage("sum(<i,_> in 0:N) { i -> V(i) }")
    made = tr.tensor(np.arange(3.0), format=own)
    assert not own.arrays(made)["V"].flags.writeable


def test_schedulers_are_told_what_is_held() -> None:
    held = tr.tensor(np.eye(100), format="csr")
    assert sys.getsizeof(held) > held.nbytes > 400
    assert sys.getsizeof(held + held) < 400, "nothing is computed"
