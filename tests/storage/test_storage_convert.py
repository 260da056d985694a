"""Any format to any other, for all dtypes, fills and shapes; limits and clashes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_support import FILLS, formats_for, random_array, same

from tensorel import config
from tensorel.algebra.ops import DTYPES
from tensorel.errors import MemoryLimitError, StorageError, TypeError_
from tensorel.storage import convert, registry
from tensorel.storage.entries import Coo
from tensorel.storage.stored import Stored

shapes = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=4).map(tuple) | st.just((2,) * 8)


@st.composite
def tensors(draw: st.DrawFn) -> tuple[np.ndarray, object]:
    shape, dtype = draw(shapes), draw(st.sampled_from(DTYPES))
    fill = draw(st.sampled_from(FILLS[dtype.kind]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    density = draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))
    return random_array(rng, shape, dtype, fill, density), fill


def nonfill(dense: np.ndarray, fill: object) -> int:
    value = np.asarray(fill, dense.dtype)
    alike = (dense == value) | ((dense != dense) & (value != value))
    return int(dense.size - np.count_nonzero(alike))


def check_coo(coo: Coo) -> None:
    keys = list(zip(*(coo.coords[a].tolist() for a in coo.order))) if coo.coords else []
    assert keys == sorted(set(keys))
    assert all(c.dtype in (np.int32, np.int64) and c.flags.c_contiguous for c in coo.coords)


@settings(max_examples=120, deadline=None)
@given(tensors(), st.data())
def test_any_to_any(given_: tuple[np.ndarray, object], data: st.DataObject) -> None:
    dense, fill = given_
    stored = convert.from_dense(dense, fill)
    names = formats_for(dense.shape, dense.dtype)
    for name in (data.draw(st.sampled_from(names)) for _ in range(4)):
        stored = convert.to_format(stored, name)
        assert stored.fill.dtype == dense.dtype
        assert same(convert.to_dense(stored), dense), name
        assert convert.count_nonfill(stored) == nonfill(dense, fill), name
        assert convert.to_format(stored, name) is stored
        again = registry.resolve(stored.format.text, stored.shape, stored.dtype)
        assert again == stored.format and hash(again) == hash(stored.format)
        check_coo(convert.to_coo(stored))


@settings(max_examples=100, deadline=None)
@given(tensors(), st.data())
def test_from_coo_in_any_order(given_: tuple[np.ndarray, object], data: st.DataObject) -> None:
    dense, fill = given_
    kept = np.random.default_rng(0).random(dense.shape) < 0.5
    expected = np.where(kept, dense, np.asarray(fill, dense.dtype)).astype(dense.dtype)
    coords = np.argwhere(kept).T
    count = coords.shape[1] if dense.ndim else int(kept)
    mixed = np.random.default_rng(1).permutation(count)
    values = dense[kept].reshape(-1)[mixed]
    name = data.draw(st.sampled_from(formats_for(dense.shape, dense.dtype)))
    coords = coords[:, mixed].astype(data.draw(st.sampled_from(["i4", "i8", "u1", "u8"])))
    found = convert.from_coo(coords, values, dense.shape, fill=fill, format=name)
    assert same(convert.to_dense(found), expected)


@pytest.mark.parametrize("count", [0, 1, 2000])
def test_huge_shapes_are_never_linearized(count: int) -> None:
    rng = np.random.default_rng(3)
    shape = (10**6,) * 7
    coords = rng.integers(0, 10**6, (7, count))
    values = rng.random(count)
    first = convert.from_coo(coords, values, shape, duplicates="sum")
    for name in ("csf", "csf(6,5,4,3,2,1,0)", "dok", "trie", "0;1,2,3,4,5,6", ";6,0,1,2,3,4,5"):
        back = convert.to_coo(convert.to_format(first, name))
        expected = convert.to_coo(first)
        assert np.array_equal(back.values, expected.values), name
        for a, b in zip(back.coords, expected.coords):
            assert np.array_equal(a, b) and a.dtype == np.int32


def test_index_width() -> None:
    small = convert.from_coo(np.array([[1], [2]]), [1.0], (5, 2**31 - 1))
    assert [small.arrays[f"idx{d}"].dtype for d in (0, 1)] == [np.int32, np.int32]
    large = convert.from_coo(np.array([[1], [2**40]]), [1.0], (5, 2**41), format="csr")
    assert large.arrays["idx1"].dtype == np.int64
    given32 = np.array([3, 4], dtype=np.int32)
    kept = convert.from_coo([given32], np.ones(2), (10**12,))
    assert np.shares_memory(kept.arrays["idx0"], given32)


def test_dense_is_not_copied() -> None:
    c, f = np.zeros((3, 4)), np.zeros((3, 4), order="F")
    for array, name in ((c, "dense"), (f, "dense_f")):
        stored = convert.from_dense(array)
        assert stored.format.name == name
        assert np.shares_memory(stored.arrays["val"], array)
        assert np.shares_memory(convert.to_dense(stored), array)
    assert same(convert.to_dense(convert.from_dense(c[::2, ::3])), c[::2, ::3])
    swapped = np.arange(3, dtype=">i4")
    assert convert.from_dense(swapped).dtype == np.dtype("int32")


def test_explicit_fills_stay() -> None:
    stored = convert.from_coo([[0, 1], [0, 1]], [0.0, 2.0], (2, 2), format="csr")
    assert stored.count == 2 and convert.count_nonfill(stored) == 1
    for name in ("csc", "coo", "csf", "dok", "trie", "dcsr"):
        assert convert.to_format(stored, name).count == 2


def test_dense_results_above_the_limit_are_refused() -> None:
    stored = convert.from_coo([[5], [7]], [1.0], (10**6, 10**6))
    for name in ("dense", "dense_f", "tril", "zorder", "symmetric"):
        with config.options(memory="1MB"), pytest.raises(MemoryLimitError, match="1 MB"):
            if name == "symmetric":
                empty = convert.empty_result((10**6, 10**6), np.dtype(float), 0, "coo")
                convert.to_format(empty, name)
            elif name == "tril":
                convert.to_format(convert.from_coo([[7], [5]], [1.0], (10**6, 10**6)), name)
            else:
                convert.to_format(stored, name)
    with pytest.raises(MemoryLimitError):
        convert.to_dense(convert.from_coo([[1]] * 7, [1.0], (10**6,) * 7))
    with pytest.raises(MemoryLimitError):
        convert.to_format(convert.from_coo([[1]] * 4, [1.0], (10**6,) * 4), "0,1,2;3")


@pytest.mark.parametrize("name,cell", [("tril", (0, 2)), ("triu", (2, 0))])
def test_cells_outside_the_triangle_clash(name: str, cell: tuple[int, int]) -> None:
    dense = np.zeros((3, 3))
    dense[cell] = 5.0
    with pytest.raises(StorageError, match=rf"\({cell[0]}, {cell[1]}\)"):
        convert.to_format(convert.from_dense(dense), name)


def test_asymmetric_matrices_are_refused() -> None:
    dense = np.eye(4)
    dense[3, 1] = 2.0
    with pytest.raises(StorageError, match=r"\(3, 1\)"):
        convert.to_format(convert.from_dense(dense), "symmetric")
    nan = np.full((2, 2), np.nan)
    assert same(convert.to_dense(convert.to_format(convert.from_dense(nan), "symmetric")), nan)


def test_block_shape_is_chosen_from_the_data() -> None:
    dense = np.kron(np.eye(6), np.ones((4, 4)))
    stored = convert.to_format(convert.from_dense(dense), "bsr")
    assert stored.format.text == "bsr(4,4)" and stored.format.name == "bsr"
    assert convert.to_format(convert.from_dense(np.eye(8)), "bsr").format.text == "bsr(1,1)"
    assert stored.arrays["val"].size == 6 * 16


@pytest.mark.parametrize("fill,dtype", [(np.nan, "int64"), (0.5, "int32"), (-1, "uint8"),
                                        (300, "uint8"), (1j, "float64"), ("x", "float64")])
def test_fills_that_do_not_fit(fill: object, dtype: str) -> None:
    with pytest.raises(TypeError_):
        convert.from_dense(np.zeros(3, dtype), fill)


def test_empty_result() -> None:
    for shape in ((), (0,), (3, 4), (2, 0, 3)):
        for name in formats_for(shape, bool):
            made: Stored = convert.empty_result(shape, np.dtype(bool), True, name)
            assert same(convert.to_dense(made), np.ones(shape, bool))
