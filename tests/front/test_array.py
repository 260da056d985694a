"""Construction, conversion, protocols, tracing, printing."""

from __future__ import annotations

import copy
import math
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
from front_support import check, sample

import tensorel as tr
from tensorel import errors

X = sample((4, 5), seed=2)


def test_asarray_shares_memory_and_is_idempotent() -> None:
    a = tr.asarray(X)
    assert np.shares_memory(a.to_numpy(), X)
    assert tr.asarray(a) is a
    assert tr.asarray(X, dtype="float64").dtype == tr.float64
    check(tr.asarray(X, dtype="float32"), X.astype("float32"))
    check(tr.asarray([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]]))
    check(tr.asarray(2.5), np.asarray(2.5))
    check(tr.asarray(X.astype(">f8")), X)


@pytest.mark.parametrize("bad", [["a"], np.zeros(2, "float16"), np.zeros(2, object),
                                 np.zeros(2, "M8[s]"), [[1], [1, 2]]])
def test_unsupported_input(bad: object) -> None:
    with pytest.raises(errors.TypeError_):
        tr.asarray(bad)


def test_scipy_and_pydata() -> None:
    sp = pytest.importorskip("scipy.sparse")
    s = sp.csr_array(X)
    a = tr.asarray(s)
    assert a.format == "csr" and a.nnz == s.nnz
    check(a, X)
    assert np.shares_memory(a.stored.arrays["val"], s.data)
    assert (a.to_scipy("coo").toarray() == X).all()
    check(a + s, X + X)
    pd = pytest.importorskip("sparse")
    check(tr.asarray(pd.COO(X)), X)


def test_from_coo_properties_and_formats() -> None:
    a = tr.from_coo([[0, 2], [1, 0]], [5.0, 7.0], (3, 2))
    assert (a.shape, a.ndim, a.size, a.dtype, a.nnz) == ((3, 2), 2, 6, np.dtype("f8"), 2)
    assert a.fill == 0 and a.nbytes > 0
    coords, values = a.to_coo()
    assert coords.tolist() == [[0, 2], [1, 0]] and values.tolist() == [5.0, 7.0]
    assert a.to_format("csc").format == "csc"
    check(tr.from_coo([[1, 1]], [1, 2], (2,), duplicates="sum"), np.array([0, 3]))
    b = tr.tensor(X, format="csr")
    assert b.format == "csr" and b.nnz == np.count_nonzero(X)
    c = tr.tensor(X, format="coo", fill=1)
    assert c.fill == 1 and tr.tensor(c, format="csr").fill == 1
    check(tr.tensor(b, format="csr", fill=1), X)
    with pytest.raises(errors.StorageError):
        tr.tensor(X, format="nothing")


def test_fill_follows_the_algebra() -> None:
    a = tr.tensor(X, format="csr")
    assert tr.exp(a).fill == 1 and (a + 1).fill == 1 and (a * 3).fill == 0
    assert (a + 1).sum(0).fill == 4


def test_scalars() -> None:
    a = tr.asarray([[3]])
    assert (float(a), int(a), bool(a), complex(a), a.item()) == (3.0, 3, True, 3 + 0j, 3)
    assert [10, 20, 30][tr.asarray(1)] == 20
    assert tr.asarray(X).item(1, 2) == X[1, 2]
    assert len(tr.asarray(X)) == 4 and 99.0 not in tr.asarray(X)
    for f in (float, int, bool, complex):
        with pytest.raises(errors.ShapeError):
            f(tr.asarray(X))
    with pytest.raises(errors.TypeError_):
        len(tr.asarray(1))


def test_pickle_and_copy() -> None:
    a = tr.tensor(X, format="csr")
    b = pickle.loads(pickle.dumps(a))
    assert b.format == "csr" and not b.is_lazy
    check(b, X)
    check(pickle.loads(pickle.dumps(a + 1)), X + 1)
    assert copy.copy(a) is a and copy.deepcopy(a) is a


def test_lists_of_tensors() -> None:
    a = tr.asarray([1.0, 2.0])
    check(tr.asarray([a.sum(), a.max()]), np.array([3.0, 2.0]))


def test_files(tmp_path: pathlib.Path) -> None:
    a = tr.tensor(X, format="csr")
    tr.write(tmp_path / "a.npz", a + 0)
    check(tr.read(tmp_path / "a.npz"), X)


def test_printing() -> None:
    a = tr.tensor(X, format="csr")
    assert repr(a + 1) == "Tensor(shape=(4, 5), dtype=float64, lazy)"
    assert "format='csr'" in repr(a) and "nnz=" in repr(a)
    assert str(a + 1) == str(X + 1)
    assert str(tr.zeros((10**6,) * 3)).endswith("lazy)")


def test_densify_limit() -> None:
    a = tr.from_coo([[5], [7]], [1.0], (2000, 2000))
    with tr.options(densify="1MB"):
        with pytest.raises(errors.MemoryLimitError, match="32000000 bytes") as caught:
            np.asarray(a)
        assert "to_numpy" in str(caught.value)
        assert a.to_numpy().sum() == 1
    with tr.options(memory="1MB"), pytest.raises(errors.MemoryLimitError):
        a.to_numpy()


def test_compute_several() -> None:
    a = tr.asarray(X)
    s, p = tr.compute(a.sum(), a @ a.T, threads=1)
    assert s.item() == X.sum() and not s.is_lazy
    check(p, X @ X.T)
    with pytest.raises(errors.TypeError_, match="unknown option"):
        a.sum().compute(nothing=1)


def test_numpy_protocols_stay_lazy() -> None:
    a = tr.asarray(X)
    for found, wanted in [
        (np.exp(a), np.exp(X)), (np.add(a, 1), X + 1), (np.sum(a, axis=0), X.sum(0)),
        (X + a, X + X), (X.T @ a, X.T @ X), (np.matmul(X.T, a), X.T @ X),
        (np.add.reduce(a), X.sum(0)), (np.maximum.reduce(a, axis=1), X.max(1)),
        (np.multiply.outer(a[0], a[1]), np.multiply.outer(X[0], X[1])),
        (np.add.accumulate(a, axis=1), np.add.accumulate(X, axis=1)),
        (np.concatenate([a, X]), np.concatenate([X, X])), (np.where(a > 0, a, 0), X.clip(0)),
        (np.einsum("ij->j", a), X.sum(0)), (np.mean(a), X.mean()), (np.transpose(a), X.T),
        (np.clip(a, 0, 1), X.clip(0, 1)), (np.tensordot(a, X.T, 1), X @ X.T),
        (np.float64(2) * a, 2 * X), (np.stack([a, a]), np.stack([X, X])),
        (np.fmin(a, 0), np.fmin(X, 0)), (np.var(a, axis=1, ddof=1), X.var(1, ddof=1)),
        (np.round(a), X.round()), (np.zeros_like(a), X * 0), (np.argmax(a, 1), X.argmax(1)),
    ]:
        assert isinstance(found, tr.Tensor) and found.is_lazy
        check(found, wanted)
    assert np.shape(a) == (4, 5) and np.ndim(a) == 2
    with pytest.raises(errors.UnsupportedError, match="svd"):
        np.linalg.svd(a)
    with pytest.raises(errors.TypeError_, match="never written"):
        np.exp(a, out=np.empty_like(X))


def test_array_api() -> None:
    a = tr.asarray(X)
    assert a.__array_namespace__() is tr
    assert tr.__array_api_version__
    assert a.device == "cpu" and a.to_device("cpu") is a
    assert np.from_dlpack(a).sum() == X.sum()
    assert tr.result_type(tr.int8, tr.float32) == np.float32
    assert tr.result_type(a, 1) == np.float64
    assert tr.isdtype(tr.int8, "integral") and not tr.isdtype(tr.int8, ("bool", tr.float32))
    assert tr.can_cast(tr.int8, tr.int16) and not tr.can_cast(tr.int16, tr.int8)
    assert tr.iinfo(tr.int8).max == 127 and tr.finfo(a).bits == 64
    assert tr.__array_namespace_info__().dtypes(kind="bool") == {"bool": tr.bool}
    assert tr.e == math.e and tr.newaxis is None
    for name in tr.__all__:
        assert hasattr(tr, name), name


def test_map() -> None:
    a, y = tr.asarray(X), sample((5,), "int32", 3)
    check(tr.map(lambda x: x * x + 1, a), X * X + 1)
    check(tr.map(lambda x, w: np.exp(-x) * w, a, y), np.exp(-X) * y)
    check(tr.map(lambda x: tr.where(x > 0, np.sqrt(abs(x)), 0), a),
          np.where(X > 0, np.sqrt(abs(X)), 0))
    check(tr.map(lambda x: tr.maximum(x, 0.5) ** 2, a), np.maximum(X, 0.5) ** 2)
    check(tr.map(lambda x: (x > 1) & ~(x < 2) | (x == 0), a), (X > 1) & ~(X < 2) | (X == 0))
    check(tr.map(lambda x: 1, a), np.ones((4, 5), np.int64))
    check(tr.map(lambda x: np.where(x > 0, x, -1), a), np.where(X > 0, X, -1))
    check(tr.map(lambda x: math.floor(x / 2), a), np.floor(X / 2))


def test_what_cannot_be_traced() -> None:
    a = tr.asarray(X)
    with pytest.raises(errors.TypeError_, match="cannot branch"):
        tr.map(lambda x: x if x > 0 else 0, a)
    with pytest.raises(errors.TypeError_, match="math functions"):
        tr.map(lambda x: math.exp(x), a)
    with pytest.raises(errors.TypeError_, match="not a scalar"):
        tr.map(lambda x: [x], a)
    with pytest.raises(errors.UnsupportedError, match=r"np\.sort"):
        tr.map(lambda x: np.sort(x), a)


def test_reduce() -> None:
    a = tr.asarray(X)
    check(tr.reduce(tr.min, a, 1), X.min(1))
    check(tr.reduce(np.add, a), X.sum())
    check(tr.reduce(lambda p, q: p + q, a, 0), X.sum(0))
    check(tr.reduce(lambda p, q: tr.maximum(p, q), a, 0, keepdims=True), X.max(0, keepdims=True))
    half = np.abs(X) / 8
    check(tr.reduce(lambda p, q: p + q - p * q, tr.asarray(half), 1, identity=0),
          1 - np.prod(1 - half, axis=1))
    with pytest.raises(errors.TypeError_, match="must be given"):
        tr.reduce(lambda p, q: p + q - p * q, a)
    first = tr.reduce(lambda p, q: p + q - p * q, a, identity=0).node
    again = tr.reduce(lambda p, q: p + q - p * q, a, identity=0).node
    assert first is again


def test_tensors_are_unhashable_like_arrays() -> None:
    with pytest.raises(TypeError):
        hash(tr.asarray(1))


def test_import_leaves_scipy_alone() -> None:
    code = "import sys, tensorel; assert not {'scipy', 'sparse', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
