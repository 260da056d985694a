"""scipy.sparse, PyData/Sparse and DLPack, in and out, with and without copies."""

from __future__ import annotations

import numpy as np
import pytest

from tensorel.errors import StorageError, TypeError_
from tensorel.io.libraries import dlpack, scipy_, sparse_
from tensorel.storage import convert
from tensorel.storage.stored import Stored

sp = pytest.importorskip("scipy.sparse")
LAYOUTS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")


def sample(shape: tuple[int, int] = (8, 12), dtype: str = "float64") -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.integers(1, 9, shape) * (rng.random(shape) < 0.3)).astype(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("dtype", ["float64", "int8", "bool", "complex64"])
def test_scipy_round_trip(layout: str, kind: str, dtype: str) -> None:
    for shape in ((8, 12), (1, 1), (0, 3), (3, 0)):
        if 0 in shape and layout == "bsr":
            continue
        dense = sample(shape, dtype)
        x = getattr(sp, f"{layout}_{kind}")(dense)
        stored = scipy_.from_scipy(x)
        assert stored.dtype == dense.dtype
        assert np.array_equal(convert.to_dense(stored), dense)
        for out in (None, *LAYOUTS):
            if 0 in shape and out == "bsr":
                continue
            y = scipy_.to_scipy(stored, out)
            assert out is None or y.format == out
            assert y.dtype == dense.dtype and np.array_equal(y.toarray(), dense)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_compressed_is_not_copied(layout: str, index: type) -> None:
    x = sp.csr_array(sample()).asformat(layout)
    x.indices, x.indptr = x.indices.astype(index), x.indptr.astype(index)
    stored = scipy_.from_scipy(x)
    for name, own in (("val", x.data), ("idx1", x.indices), ("pos1", x.indptr)):
        assert np.shares_memory(stored.arrays[name], own)
    y = scipy_.to_scipy(stored)
    assert np.shares_memory(y.data, x.data)
    if index is np.int32:
        assert np.shares_memory(y.indices, x.indices) and np.shares_memory(y.indptr, x.indptr)


def test_coo_and_dia_are_not_copied() -> None:
    x = sp.coo_array(sample())
    stored = scipy_.from_scipy(x)
    assert np.shares_memory(stored.arrays["val"], x.data)
    assert np.shares_memory(stored.arrays["idx0"], x.coords[0])
    y = scipy_.to_scipy(stored)
    assert np.shares_memory(y.data, x.data) and np.shares_memory(y.coords[0], x.coords[0])
    d = sp.dia_array(sample())
    held = scipy_.from_scipy(d)
    assert np.shares_memory(held.arrays["val"], d.data)
    assert np.shares_memory(scipy_.to_scipy(held).data, d.data)


def test_disorder_is_put_right_in_a_copy() -> None:
    indices = np.array([2, 0, 2, 1, 1], dtype=np.int32)
    x = sp.csr_array((np.arange(1.0, 6.0), indices, np.array([0, 3, 5], np.int32)), shape=(2, 3))
    before, flags = x.indices.copy(), dict(x.__dict__)
    stored = scipy_.from_scipy(x)
    assert np.array_equal(convert.to_dense(stored), [[2, 0, 4], [0, 9, 0]])
    assert np.array_equal(x.indices, before) and set(x.__dict__) == set(flags)
    assert stored.arrays["idx1"].dtype == np.int32
    c = sp.coo_array(([1, 2, 3], ([1, 0, 1], [1, 0, 1])), shape=(2, 2))
    assert np.array_equal(convert.to_dense(scipy_.from_scipy(c)), [[2, 0], [0, 4]])
    b = sp.bsr_array((np.ones((3, 2, 2)), [1, 0, 0], [0, 3]), shape=(2, 4))
    assert np.array_equal(convert.to_dense(scipy_.from_scipy(b)), b.toarray())
    d = sp.dia_array((np.arange(1.0, 9.0).reshape(2, 4), [1, -1]), shape=(5, 6))
    assert np.array_equal(convert.to_dense(scipy_.from_scipy(d)), d.toarray())


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("spoil", ["index", "negative", "bounds", "short", "values", "descending"])
def test_corrupt_objects(layout: str, spoil: str) -> None:
    x = sp.csr_array(np.ones((4, 4))).asformat(layout)
    if spoil == "index":
        x.indices[-1] = 99
    elif spoil == "negative":
        x.indices[0] = -1
    elif spoil == "bounds":
        x.indptr[-1] = 999
    elif spoil == "short":
        x.indptr = x.indptr[:-1]
    elif spoil == "values":
        x.data = x.data[:-1]
    elif x.indptr.size < 3:
        x.indptr[0] = 7
    else:
        x.indptr[1] = x.indptr[-1] + 1
    with pytest.raises(StorageError):
        scipy_.from_scipy(x)


def test_corrupt_coo() -> None:
    x = sp.coo_array(np.ones((3, 3)))
    x.coords[0][0] = 7
    with pytest.raises(StorageError, match="corrupt"):
        scipy_.from_scipy(x)


def test_other_ranks() -> None:
    x = sp.coo_array(np.array([0.0, 2.0, 0.0, 3.0]))
    stored = scipy_.from_scipy(x)
    assert stored.shape == (4,)
    assert np.array_equal(scipy_.to_scipy(stored).toarray(), x.toarray())
    vector = scipy_.from_scipy(sp.csr_array(np.array([0.0, 2.0])))
    assert np.array_equal(convert.to_dense(vector), [0, 2])
    cube = np.zeros((2, 3, 4))
    cube[1, 2, 3] = 5
    held = convert.to_format(convert.from_dense(cube), "csf")
    assert np.array_equal(scipy_.to_scipy(held).toarray(), cube)
    assert np.array_equal(convert.to_dense(scipy_.from_scipy(sp.coo_array(cube))), cube)
    with pytest.raises(StorageError):
        scipy_.to_scipy(held, "csr")


def test_refusals() -> None:
    with pytest.raises(StorageError, match="fill"):
        scipy_.to_scipy(convert.from_dense(np.ones((2, 2)), 1.0))
    with pytest.raises(StorageError):
        scipy_.to_scipy(convert.from_dense(np.ones((2, 2))), "ell")
    with pytest.raises(TypeError_):
        scipy_.from_scipy(np.ones(3))
    with pytest.raises(TypeError_):
        scipy_.from_scipy(sp.csr_array(np.ones((2, 2), dtype=np.longdouble)))


def test_slices_of_rows_go_out() -> None:
    dense = sample()
    whole = scipy_.from_scipy(sp.csr_array(dense))
    arrays = whole.arrays | {"pos1": whole.arrays["pos1"][2:6]}
    part = Stored(whole.format, (3, 12), whole.dtype, whole.fill, arrays)
    for out in LAYOUTS:
        assert np.array_equal(scipy_.to_scipy(part, out).toarray(), dense[2:5])


@pytest.mark.parametrize("fill", [0.0, 2.0, np.nan])
def test_pydata(fill: float) -> None:
    sparse = pytest.importorskip("sparse")
    for shape in ((7,), (4, 5), (3, 4, 2)):
        dense = np.where(np.random.default_rng(1).random(shape) < 0.4, 7.0, fill)
        coo = sparse.COO.from_numpy(dense, fill_value=fill)
        for layout in ("coo", "gcxs", "dok"):
            x = coo.asformat(layout)
            stored = sparse_.from_pydata(x)
            assert np.array_equal(convert.to_dense(stored), dense, equal_nan=True)
            for out in {stored.format.name, "coo", *(("csr", "csc") if len(shape) == 2 else ())}:
                back = sparse_.to_pydata(convert.to_format(stored, out))
                assert np.array_equal(back.todense(), dense, equal_nan=True)
                assert np.array_equal(back.fill_value, fill, equal_nan=True)
    matrix = sparse.GCXS.from_numpy(np.eye(4), compressed_axes=(1,))
    held = sparse_.from_pydata(matrix)
    assert held.format.name == "csc" and np.shares_memory(held.arrays["val"], matrix.data)
    with pytest.raises(TypeError_):
        sparse_.from_pydata(np.ones(3))


def test_dlpack() -> None:
    array = np.arange(6.0).reshape(2, 3)
    stored = dlpack.from_dlpack(array)
    assert np.shares_memory(stored.arrays["val"], array)
    with pytest.raises(TypeError_):
        dlpack.from_dlpack(object())
