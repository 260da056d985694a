"""Where NumPy's habits meet tensors: orders, dtypes as classes, copies, devices, methods."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from front_support import check

import tensorel as tr
from tensorel.errors import TensorelError

a = np.arange(6.0).reshape(2, 3)
N = np.array([[1.0, np.nan, 0.0], [np.nan, np.nan, 0.0]])
MASK = np.array([[True, False, True], [False, False, True]])
FORMATS = ("dense", "csr", "coo", "filled")


def stored(x: np.ndarray, format: str) -> tr.Tensor:
    return tr.tensor(x, format="coo", fill=2.0) if format == "filled" else tr.tensor(
        x, format=format)


@pytest.mark.parametrize("format", FORMATS)
def test_orders(format: str) -> None:
    A = stored(a, format)
    check(np.reshape(A, (3, 2), order="F"), np.reshape(a, (3, 2), order="F"))
    check(A.reshape(3, -1, order="F"), a.reshape(3, -1, order="F"))
    check(A.ravel("F"), a.ravel("F"))
    check(A.flatten("F"), a.flatten("F"))
    check(A.reshape((6,), order="C"), a.ravel())
    for order in ("A", "K"):
        with pytest.raises(tr.errors.UnsupportedError, match="memory"):
            A.ravel(order)
    with pytest.raises(ValueError, match="order 'Z'"):
        np.ravel(A, "Z")
    check(A[0].ravel("K"), a[0])


def test_reshaping_in_f_order_stays_sparse() -> None:
    huge = tr.from_coo([[1, 5], [7, 2**20]], [1.0, 2.0], (2**20, 2**21))
    found = huge.reshape(2**21, 2**20, order="F").compute()
    assert found.nnz == 2 and found.nbytes < 10**8
    coords, values = found.to_coo()
    flat = coords[1] * 2**21 + coords[0]
    assert sorted(zip(flat.tolist(), values.tolist())) == [
        (1 + 7 * 2**20, 1.0), (5 + 2**40, 2.0)]


def test_casting() -> None:
    A, X = tr.asarray(a), tr.tensor(np.array([100, 100, 3], np.int8), format="coo")
    with pytest.raises(TypeError, match="same_kind"):
        np.add(A, 1.5, dtype=np.int8)
    check(np.add(A, 1.5, dtype=np.int8, casting="unsafe"),
          np.add(a, 1.5, dtype=np.int8, casting="unsafe"))
    check(np.add(X, X, dtype=np.int64), np.array([200, 200, 6]))
    check(np.matmul(X, X, dtype=np.int64), np.array(20009))
    check(np.multiply.outer(X, X, dtype=np.int64)[0], np.array([10000, 10000, 300]))
    check(np.float_power(tr.asarray(a.astype("f4")), 2), np.float_power(a.astype("f4"), 2))
    with pytest.raises(TypeError):
        np.concatenate([X, X], dtype=np.int64, casting="no")
    with pytest.raises(TypeError):
        tr.einsum("ij->i", A, dtype=np.int64)
    check(tr.einsum("ij->i", A, dtype=np.int64, casting="unsafe"), a.astype(int).sum(1))
    with pytest.raises(ValueError, match="casting"):
        A.astype(int, casting="perhaps")
    with pytest.raises(TypeError, match="same_kind"):
        A.astype(int, casting="same_kind")
    check(A.astype("f4", casting="same_kind"), a.astype("f4"))
    check(tr.stack([X, X], dtype="f8"), np.stack([X.to_numpy()] * 2).astype("f8"))


def test_dtypes_as_classes() -> None:
    assert tr.can_cast(np.int8, np.float64) and not tr.can_cast(np.float64, np.int8)
    assert tr.result_type(np.int8, np.int16) == "i2"
    A = tr.asarray(a)
    assert tr.result_type(A, np.float32) == "f8" == tr.result_type(int, np.float32)
    assert tr.result_type(A.astype("f4"), 1) == "f4" == np.result_type(A.astype("f4"), 1.0)
    assert tr.finfo(np.float32).bits == 32 and tr.iinfo(np.int8).max == 127
    assert tr.finfo(1.0).bits == 64 and np.can_cast(A.dtype, "f8")
    with pytest.raises(TypeError, match="dtype of its own"):
        tr.can_cast(1, "i8")


@pytest.mark.parametrize("copied", [
    lambda t: t.astype(float, copy=True), lambda t: tr.astype(t, tr.float64, copy=True),
    lambda t: np.astype(t, "f4", copy=True), lambda t: tr.reshape(t, (3, 1), copy=True),
    lambda t: t.reshape(1, 3, copy=True), np.copy, lambda t: (t + 0).astype(float, copy=True),
    lambda t: np.array(1.0, like=t) * np.copy(t),
])
def test_copies_do_not_see_later_writes(copied: Callable[[tr.Tensor], tr.Tensor]) -> None:
    b = np.array([1.0, 2.0, 3.0])
    made = copied(tr.asarray(b))
    b[:] = 9
    assert made.to_numpy().ravel().tolist() == [1, 2, 3]


def test_no_copy_is_not_a_copy() -> None:
    assert np.shares_memory(tr.asarray(a, copy=False).to_numpy(), a)
    for x, dtype in (([1, 2], None), (1.0, None), (a, "f4"), (a.astype(">f8"), None)):
        with pytest.raises(ValueError, match="without a copy"):
            tr.asarray(x, dtype=dtype, copy=False)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmin", "nanmax", "nanmean"])
@pytest.mark.filterwarnings("ignore:All-NaN", "ignore:Mean of empty")
def test_nan_reductions(name: str, axis: object, format: str) -> None:
    A = stored(N, format)
    for keepdims in (False, True):
        wanted = getattr(np, name)(N, axis=axis, keepdims=keepdims)
        check(getattr(np, name)(A, axis=axis, keepdims=keepdims), wanted)
        check(getattr(tr, name)(A, axis=axis, keepdims=keepdims), wanted)


def test_nan_reductions_stay_sparse() -> None:
    huge = tr.from_coo([[1, 5, 5], [7, 9, 2**20]], [1.0, np.nan, 2.0], (2**20, 2**21))
    for f, wanted in ((tr.nansum, 3.0), (tr.nanmax, 2.0), (tr.nanmin, 0.0), (tr.nanprod, 0.0)):
        assert f(huge).item() == wanted
    assert tr.nansum(huge, axis=1).compute(format="coo").nnz == 2


@pytest.mark.parametrize("format", FORMATS)
def test_masked_reductions(format: str) -> None:
    A = stored(a, format)
    for mask in (MASK, MASK[:1], np.zeros((2, 3), bool)):
        for axis in (None, 0, 1):
            for name in ("sum", "prod", "any", "all"):
                check(getattr(np, name)(A, axis=axis, where=mask),
                      getattr(np, name)(a, axis=axis, where=mask))
            for name in ("min", "max"):
                check(getattr(A, name)(axis, initial=2, where=tr.asarray(mask)),
                      getattr(a, name)(axis, initial=2, where=mask))
            if mask.any(axis).all():
                check(A.mean(axis, where=mask), a.mean(axis, where=mask))
    assert np.isnan(A.mean(where=np.zeros(3, bool)).item())
    with pytest.raises(ValueError, match="initial"):
        A.max(where=MASK)
    with pytest.raises(TypeError, match="mask"):
        A.sum(where=np.ones(3))
    with pytest.raises(ValueError):
        A[0].sum(where=MASK)


@pytest.mark.parametrize("format", FORMATS)
def test_places(format: str) -> None:
    A = stored(a, format)
    check(np.argwhere(A), np.argwhere(a))
    check(np.flatnonzero(A), np.flatnonzero(a))
    check(np.argwhere(A[0, 1]), np.argwhere(a[0, 1]))
    check(np.argwhere(A[0, 0]), np.argwhere(a[0, 0]))
    check(np.ptp(A, axis=0), np.ptp(a, axis=0))


def test_einsum_with_lists() -> None:
    A = tr.tensor(a, format="csr")
    check(np.einsum(A, [0, 1], [0]), a.sum(1))
    check(tr.einsum(A, [0, 1], a, [2, 1]), a @ a.T)
    check(tr.einsum(A, [1, 0]), a.T)
    check(tr.einsum(A, [30, 1]), np.einsum(a, [30, 1]))
    check(np.einsum(A, [Ellipsis, 1], [1, Ellipsis]), a.T)
    bad: list[tuple[object, ...]] = [(), (A,), (A, [0, 99]), (A, [0, -1])]
    for args in bad:
        with pytest.raises(ValueError, match="einsum"):
            tr.einsum(*args)
    with pytest.raises(TypeError, match="einsum"):
        tr.einsum(A, A)


def test_devices() -> None:
    for f in (lambda d: tr.zeros(3, device=d), lambda d: tr.asarray(a, device=d),
              lambda d: tr.astype(tr.asarray(a), "f4", device=d), lambda d: tr.eye(3, device=d),
              lambda d: tr.asarray(a).to_device(d), lambda d: tr.from_dlpack(a, device=d),
              lambda d: np.ones_like(tr.asarray(a), device=d),
              lambda d: tr.__array_namespace_info__().dtypes(device=d),
              lambda d: tr.__array_namespace_info__().default_dtypes(device=d)):
        f("cpu")  # type: ignore[no-untyped-call]
        with pytest.raises(ValueError, match="cpu") as error:
            f("gpu")  # type: ignore[no-untyped-call]
        assert isinstance(error.value, TensorelError)


def test_like() -> None:
    A = tr.asarray(a)
    check(np.zeros_like(A, shape=(4,)), np.zeros(4))
    check(tr.ones_like(A, shape=(2, 2), dtype="i8"), np.ones((2, 2), int))
    check(np.full_like(A, 7, shape=3), np.full(3, 7.0))
    assert np.empty_like(A, shape=(5, 1)).shape == (5, 1)
    check(np.zeros((2, 2), "i4", like=A), np.zeros((2, 2), "i4"))
    check(np.eye(2, 3, k=1, like=A), np.eye(2, 3, k=1))
    check(np.asarray([1, 2], like=A), np.array([1, 2]))


def test_where_needs_both_branches() -> None:
    A = tr.asarray(a)
    for f in (lambda: tr.where(A > 1, A), lambda: tr.where(A > 1, y=1.0),
              lambda: np.where(A > 1, A)):
        with pytest.raises(ValueError, match="both"):
            f()  # type: ignore[no-untyped-call]


def test_numpy_testing_takes_tensors() -> None:
    ones = tr.asarray([1, 1, 1])
    np.testing.assert_equal(ones, np.ones(3))
    np.testing.assert_almost_equal(ones, [1, 1, 1])
    np.testing.assert_almost_equal(tr.tensor(a, format="csr"), a)
    with pytest.raises(AssertionError):
        np.testing.assert_equal(ones, np.array([1, 1, 2]))
    assert np.iscomplexobj(tr.asarray([1j])) and np.isrealobj(tr.asarray([1]))


def test_roll_by_several() -> None:
    A = tr.tensor(a, format="csr")
    check(np.roll(A, (1, 2)), np.roll(a, (1, 2)))
    check(np.roll(A, np.array([1, 2]), (0, 1)), np.roll(a, (1, 2), (0, 1)))
    check(np.roll(A, 1, (0, 1)), np.roll(a, 1, (0, 1)))
    with pytest.raises(ValueError, match="roll"):
        np.roll(A, [[0, 1], [0, 1]], [0, 1])


def test_methods() -> None:
    A = tr.tensor(a, format="csr")
    check(A.dot(a.T), a.dot(a.T))
    check(A.take([0, 2], axis=1), a.take([0, 2], axis=1))
    check(A.take([5, 1]), a.take([5, 1]))
    check(A.repeat(2, axis=0), a.repeat(2, axis=0))
    check(A.repeat([1, 0], 0), a.repeat([1, 0], 0))
    check(A[1].searchsorted([3.5, 9], side="right"), a[1].searchsorted([3.5, 9], side="right"))
    assert np.array_equal(tr.asarray(N), N, equal_nan=True) and not np.array_equal(tr.asarray(N), N)


def test_operands_by_name_and_options_by_place() -> None:
    A = tr.asarray(a)
    check(np.sum(a=A, axis=0), a.sum(0))
    check(np.sum(A, 0, None, None, True), a.sum(0, keepdims=True))
    check(np.searchsorted(a=A[0], v=1.0), np.searchsorted(a[0], 1.0))
    check(np.clip(A, a_min=1, a_max=3), a.clip(1, 3))
    check(np.concatenate((A, A), 1), np.concatenate((a, a), 1))
    with pytest.raises(ValueError, match="correction"):
        np.var(A, ddof=1, correction=1)
