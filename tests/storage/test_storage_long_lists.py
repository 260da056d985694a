"""Long coordinate lists: the native sorter against a loop over entries, and against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorel import config
from tensorel.errors import MemoryLimitError, StorageError
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.native import sorter
from tensorel.kernels.native.notation import compiled
from tensorel.kernels.native.sorter import Layout, NativeSorter, layout
from tensorel.kernels.native.sorter_kernels import digits_kernel
from tensorel.kernels.runtime.compiled import Control
from tensorel.storage import sorting
from tensorel.storage.convert import pack, to_coo
from tensorel.storage.entries import IndexArray, ValueArray
from tensorel.storage.ingest import arrays_of, inspect, settle
from tensorel.storage.registry import resolve

DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float32", "float64", "complex64",
          "complex128")


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sorting, "MIN_NATIVE_ENTRIES", 0)
    yield


def _entries(
    rng: np.random.Generator, shape: tuple[int, ...], count: int, dtype: str, width: str
) -> tuple[tuple[IndexArray, ...], ValueArray]:
    coords = tuple(rng.integers(0, n, count).astype(width) for n in shape)
    values = rng.standard_normal(count) * 100
    if dtype.startswith("complex"):
        values = values + 1j * rng.standard_normal(count)
    return coords, values.astype(dtype) if dtype != "bool" else values > 0


def _loop(
    coords: tuple[IndexArray, ...], values: ValueArray, how: str
) -> tuple[list[tuple[int, ...]], list[np.generic]]:
    """Cells in order; values combined one after another."""
    cells: dict[tuple[int, ...], np.generic] = {}
    with np.errstate(all="ignore"):
        for k, cell in enumerate(zip(*(c.tolist() for c in coords))):
            known = how == "sum" and cell in cells
            cells[cell] = values[k] + cells[cell] if known else values[k]
    return sorted(cells), [cells[c] for c in sorted(cells)]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["sum", "last"])
@pytest.mark.parametrize("shape", [(30,), (20, 9), (4, 1, 5), (3, 2, 3, 2), (2**40, 3)])
def test_entries(dtype: str, how: str, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(len(dtype) + len(shape))
    width = "int32" if max(shape) < 2**31 and dtype != "int8" else "int64"
    coords, values = _entries(rng, shape, 60, dtype, width)
    made = settle(inspect(coords, values, shape, 0, how, keep_width=True))
    cells, expected = _loop(coords, values, how)
    assert list(zip(*(c.tolist() for c in made.coords))) == cells
    assert made.values.dtype == dtype and made.values.tolist() == [v.item() for v in expected]
    assert all(c.dtype == width for c in made.coords)


@pytest.mark.usefixtures("always")
@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(1, 40), n=st.integers(1, 40), count=st.integers(0, 300), seed=st.integers(0, 99),
    name=st.sampled_from(["csr", "csc", "coo"]), how=st.sampled_from(["sum", "last"]),
    arrangement=st.sampled_from(["any", "rows", "columns", "strict"]),
)
def test_lines(
    m: int, n: int, count: int, seed: int, name: str, how: str, arrangement: str
) -> None:
    coords, values = _entries(np.random.default_rng(seed), (m, n), count, "float64", "int32")
    if arrangement != "any" and count:
        keys = coords if arrangement == "columns" else coords[::-1]
        order = np.lexsort(keys)
        coords = tuple(c[order] for c in coords)
    if arrangement == "strict" and count:
        flat = np.unique(coords[0].astype(np.int64) * n + coords[1])
        coords, values = (flat // n, flat % n), values[: flat.size]
    given_entries = inspect(coords, values, (m, n), 0, how)
    made = resolve(name, (m, n), values.dtype)
    found = arrays_of(given_entries, made)
    expected = pack(settle(given_entries), made).arrays
    assert found is not None and found.keys() == expected.keys()
    for key, array in found.items():
        assert array.dtype == expected[key].dtype and np.array_equal(array, expected[key])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(500, 400), (300_000, 3), (3, 300_000), (1, 1), (60, 50, 40)])
@pytest.mark.parametrize("how", ["sum", "last"])
def test_native_is_numpy(
    threads: int, shape: tuple[int, ...], how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    coords, values = _entries(np.random.default_rng(1), shape, 150_000, "float64", "int32")
    given_entries = inspect(coords, values, shape, 0, how)
    with config.options(threads=threads):
        native = settle(given_entries)
        perm = sorting.sort_coords(coords, tuple(range(len(shape))), shape)
        back = sorting.sort_coords(coords, tuple(range(len(shape)))[::-1], shape)
    monkeypatch.setattr(sorting, "MIN_NATIVE_ENTRIES", 2**62)
    numpy = settle(given_entries)
    assert all(np.array_equal(a, b) for a, b in zip(native.coords, numpy.coords))
    assert np.array_equal(native.values, numpy.values)
    if max(shape) > 1:
        assert perm is not None and np.array_equal(perm, np.lexsort(coords[::-1]))
        assert back is not None and np.array_equal(back, np.lexsort(coords))


def test_groups_lengthen_words() -> None:
    """50 bits of cell and 18 of entry: 5 bits number the group. 60 bits of cell would take 15:
    too few entries per group."""
    shape, count = (2**18, 2**18, 2**14), 2**17 + 1
    assert layout((2**20,) * 3, count, 1, whole_lines=False) is None
    assert layout(shape, count, 1, whole_lines=False) == Layout((18, 18, 14), 18, 5)
    assert layout((2**62, 2**62), count, 1, whole_lines=False) is None
    coords, values = _entries(np.random.default_rng(2), shape, count, "float64", "int32")
    made = settle(inspect(coords, values, shape, 0, "sum"))
    perm = np.lexsort(coords[::-1])
    assert all(np.array_equal(a, b[perm]) for a, b in zip(made.coords, coords))
    assert np.array_equal(made.values, values[perm])


def test_words_too_short_for_cells() -> None:
    rng = np.random.default_rng(3)
    coords = tuple(rng.integers(0, 10**6, 70_000) for _ in range(7))
    assert NativeSorter().permutation(coords, (10**6,) * 7) is None
    made = settle(inspect(coords, np.ones(70_000), (10**6,) * 7))
    assert np.array_equal(made.coords[0], np.sort(coords[0]))


@pytest.mark.parametrize("name", ["coo", "csr", "csc", "csf", "dok"])
def test_duplicates_are_named(name: str) -> None:
    coords = np.random.default_rng(4).permutation(10**6)[:80_000]
    again = np.concatenate([coords, coords[:1]])
    rows, columns = again // 1000, again % 1000
    entries = inspect((rows, columns), 1.0, (1000, 1000))
    made = resolve(name, (1000, 1000), entries.values.dtype)
    assert name == "coo" or arrays_of(entries, made) is None
    with pytest.raises(StorageError, match=rf"cell \({rows[0]}, {columns[0]}\) is given more"):
        settle(entries)
    assert to_coo(pack(settle(inspect((rows, columns), 1.0, (1000, 1000), 0, "sum")), made)
                  ).values.sum() == 80_001


def test_results_own_their_memory() -> None:
    """Entries that were dropped do not stay behind as memory."""
    rng = np.random.default_rng(5)
    coords = tuple(rng.integers(0, 50, 100_000).astype(np.int32) for _ in range(2))
    made = settle(inspect(coords, np.ones(100_000), (50, 50), 0, "sum"))
    assert made.count == 2500 and made.values.sum() == 100_000
    for array in (*made.coords, made.values):
        held = array if array.base is None else array.base
        assert isinstance(held, np.ndarray) and held.nbytes <= array.nbytes + 8


def test_inputs_are_left_alone() -> None:
    coords, values = _entries(np.random.default_rng(6), (900, 900), 90_000, "float64", "int32")
    before = [c.copy() for c in coords]
    for array in (*coords, values):
        array.flags.writeable = False
    entries = inspect(coords, values, (900, 900), 0, "sum")
    arrays_of(entries, resolve("csr", (900, 900), values.dtype))
    assert all(np.array_equal(a, b) for a, b in zip(before, coords))


def test_bounds_are_refused_above_the_limit() -> None:
    coords, values = _entries(np.random.default_rng(7), (2**31, 9), 70_000, "float64", "int32")
    entries = inspect(coords, values, (2**31, 9), 0, "sum")
    with config.options(memory="1GB"), pytest.raises(MemoryLimitError, match="segment bounds"):
        arrays_of(entries, resolve("csr", (2**31, 9), values.dtype))


def test_ascent() -> None:
    rng = np.random.default_rng(8)
    for _ in range(300):
        count = int(rng.integers(0, 12))
        coords = tuple(rng.integers(0, 3, count).astype(np.int32) for _ in range(2))
        if rng.random() < 0.6:
            order = np.lexsort(coords[::-1])
            coords = tuple(c[order] for c in coords)
        cells = list(zip(*(c.tolist() for c in coords)))
        pairs = list(pairwise(cells))
        expected = (sorting.RISING if all(a < b for a, b in pairs) else
                    sorting.REPEATING if all(a <= b for a, b in pairs) else sorting.UNSORTED)
        assert sorting.ascent(coords, (0, 1)) == expected


def test_ascent_across_blocks() -> None:
    rising = np.arange(200_000, dtype=np.int32)
    for at in (32_767, 32_768, 32_769, 199_999):
        fallen = rising.copy()
        fallen[at] = fallen[at - 1] - 1
        tied = rising.copy()
        tied[at] = tied[at - 1]
        assert sorting.ascent((fallen,), (0,)) == sorting.UNSORTED
        assert sorting.ascent((tied,), (0,)) == sorting.REPEATING


@pytest.mark.parametrize(("bits", "count"), [
    (0, 40), (1, 3000), (5, 5000), (17, 20_000), (28, 40_000), (40, 3000), (63, 5000)])
def test_digit_by_digit(bits: int, count: int) -> None:
    """Words sorted by some of their bits; those with the same keep their order."""
    rng = np.random.default_rng(bits)
    below = max(min(63 - bits, 8), 0)
    keys = rng.integers(0, 1 << bits, count, dtype=np.int64) if bits else np.zeros(count, np.int64)
    words = keys << below | rng.integers(0, 1 << below, count)
    width = sorter.digit_bits(bits, count)
    spare, counts = np.empty(count, np.int64), np.empty(1 << width, np.int64)
    wanted = words[np.argsort(words >> below, kind="stable")]
    around = np.concatenate([[-5], words, [-7]])
    status = compiled(digits_kernel).run(
        [around, spare, counts], (), (below, below + bits, width, 1 << width), 1, count + 1,
        Control())
    assert status is Status.DONE and width <= 11
    np.testing.assert_array_equal(around, [-5, *wanted, -7])


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("workers", [1, 2])
def test_however_words_are_sorted(slow: bool, workers: int,
                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorter, "is_slow", lambda: slow)
    rng = np.random.default_rng(4)
    count, shape = 600_000, (3000, 5000)
    coords = tuple(rng.integers(0, n, count).astype("int32") for n in shape)
    values = rng.integers(1, 9, count).astype("float64")
    with config.options(threads=workers):
        made = settle(inspect(coords, values, shape, 0, "sum", keep_width=True))
    flat, at = np.unique(coords[0].astype(np.int64) * shape[1] + coords[1], return_inverse=True)
    np.testing.assert_array_equal(made.coords[0] * shape[1] + made.coords[1].astype(np.int64), flat)
    np.testing.assert_array_equal(made.values, np.bincount(at, values))
