"""Statistics against counting by NumPy, in every format; huge shapes; the cache."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from stats_support import KINDS, random_pattern, stored_pattern

from tensorel.stats.collected.collect import collect, known, tile_size
from tensorel.storage.convert import from_coo, from_dense, pack, to_coo, to_format
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.stack import Stack

MATRIX = ("coo", "csr", "csc", "dcsr", "dcsc", "csf", "csf(1,0)", "dok", "trie", "trie(1,0)",
          "0;1", "1;0", ";0,1")
PADDED = ("bsr(2,2)", "bsr(3,2)", "dia", "band")
CUBE = ("coo", "csf", "csf(2,0,1)", "trie(1,2,0)", "0;1,2", "0,1;2", "2;0,1")


def check_degrees(stats, pattern):
    for (given, counted), d in stats.degrees.items():
        gone = tuple(a for a in range(pattern.ndim) if a not in given + counted)
        pairs = pattern.any(axis=gone)
        left = sorted(given + counted)
        degrees = np.count_nonzero(pairs, axis=tuple(left.index(a) for a in counted)).ravel()
        true = (np.count_nonzero(degrees), degrees.max(initial=0), degrees.sum(),
                np.linalg.norm(degrees.astype(float)))
        found = (d.distinct, d.largest, d.l1, d.l2)
        if d.exact:
            assert found == pytest.approx(true)
        assert all(f >= t - 1e-9 for f, t in zip(found, true))
    for axes, value in stats.distinct.items():
        gone = tuple(a for a in range(pattern.ndim) if a not in axes)
        assert value >= np.count_nonzero(pattern.any(axis=gone))


def check_vectors(stats, pattern):
    for axis, v in enumerate(stats.vectors):
        if v is not None:
            gone = tuple(a for a in range(pattern.ndim) if a != axis)
            true = np.count_nonzero(pattern, axis=gone)
            whole = np.zeros(pattern.shape[axis])
            whole[slice(None) if v.keys is None else v.keys] = v.counts
            assert (whole == true).all()
            held = np.flatnonzero(true)
            span = (held[0], held[-1]) if held.size else None
            assert stats.spans[axis] == span


@pytest.mark.parametrize("fmt", MATRIX + PADDED)
def test_matrices(fmt):
    rng = np.random.default_rng(1)
    for kind, shape in itertools.product(KINDS, ((9, 12), (7, 7), (1, 5), (6, 0))):
        pattern = random_pattern(rng, shape, kind)
        stored = stored_pattern(pattern, fmt)
        stats = collect(stored)
        if fmt not in PADDED:
            assert stats.count == stored.count == np.count_nonzero(pattern)
            assert stats.all_ones is bool(stats.count) or stats.full
        assert stats.nnz == np.count_nonzero(pattern)
        if stats.full:
            continue
        where = pattern if fmt not in PADDED else tile_mask(stats)
        assert stats.count == np.count_nonzero(where) >= np.count_nonzero(pattern)
        check_degrees(stats, where)
        check_vectors(stats, where)
        i, j = np.nonzero(where)
        band = ((i - j).max(), (j - i).max()) if i.size else None
        assert stats.bandwidth == band
        assert collect(stored) is stats


def tile_mask(stats):
    """Tiles of one cell each tell which cells are stored, padding included."""
    assert stats.tiles.size == (1, 1) or not stats.size
    return stats.tiles.counts > 0


def test_triangles():
    rng = np.random.default_rng(9)
    for fmt, shape in itertools.product(("tril", "triu"), ((6, 6), (4, 7), (7, 4))):
        cut = np.tril if fmt == "tril" else np.triu
        stats = collect(stored_pattern(cut(random_pattern(rng, shape, "uniform")), fmt))
        check_degrees(stats, cut(np.ones(shape, bool)))
        check_vectors(stats, cut(np.ones(shape, bool)))


def test_dense_rows_below_sparse_ones():
    rng = np.random.default_rng(10)
    fmt = Stack("csf+dense", (0, 1, 2), (Compressed(0), Compressed(1), Dense(2)))
    for kind in KINDS:
        pattern = random_pattern(rng, (6, 5, 3), kind)
        stats = collect(pack(to_coo(from_dense(pattern.astype(float))), fmt))
        rows = np.repeat(pattern.any(axis=2)[:, :, None], 3, axis=2)
        assert stats.count == np.count_nonzero(rows) and stats.nnz == np.count_nonzero(pattern)
        check_degrees(stats, rows)
        check_vectors(stats, rows)


@pytest.mark.parametrize("fmt", CUBE)
def test_cubes(fmt):
    rng = np.random.default_rng(2)
    for kind in KINDS:
        pattern = random_pattern(rng, (6, 5, 7), kind)
        stored = stored_pattern(pattern, fmt)
        light = known(stored)
        if light.degrees:
            check_degrees(light, pattern)
        stats = collect(stored)
        check_degrees(stats, pattern)
        check_vectors(stats, pattern)


def test_tiles():
    rng = np.random.default_rng(3)
    pattern = random_pattern(rng, (200, 150), "skewed")
    for fmt in ("coo", "csr", "csc", "dcsr", "bsr(2,2)"):
        stats = collect(stored_pattern(pattern, fmt))
        (r, c), counts = stats.tiles.size, stats.tiles.counts
        assert counts.shape == (-(-200 // r), -(-150 // c))
        if fmt != "bsr(2,2)":
            true = np.add.reduceat(np.add.reduceat(pattern.astype(int), range(0, 200, r), 0),
                                   range(0, 150, c), 1)
            assert (counts == true).all() and stats.tiles.counts.shape == true.shape
    for rank in range(1, 9):
        size = tile_size((10**6,) * rank)
        assert np.prod([-(-(10**6) // s) for s in size], dtype=float) <= 65536


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8", "bool", "complex128"])
def test_values(dtype):
    def facts(values, fill=0):
        made = from_coo([np.arange(len(values))], np.asarray(values, dtype), (10,), fill=fill)
        return collect(made)

    assert facts([1, 1, 1]).all_ones and facts([1, 1]).constant == 1
    assert not facts([1, 0]).all_ones and facts([1, 0]).constant is None
    assert facts([1, 0]).nnz == 1 and facts([1, 0]).count == 2
    assert not facts([]).all_ones and facts([]).has_nan is False
    if dtype in ("float64", "float32"):
        odd = facts([np.nan, 2, -np.inf, 3])
        assert odd.has_nan and odd.has_inf and (odd.values.least, odd.values.greatest) == (2, 3)
        assert not facts([2, 3]).has_inf and facts([np.inf]).has_inf
        assert facts([np.nan, 1], fill=np.nan).nnz == 1
    if dtype == "complex128":
        assert facts([1j, complex(0, np.inf)]).has_inf and facts([2j, 2j]).constant == 2j
    elif dtype != "bool":
        assert (facts([3, 7]).values.least, facts([3, 7]).values.greatest) == (3, 7)


def test_long_lists_are_chunked():
    rng = np.random.default_rng(4)
    values = rng.integers(1, 9, 200_000).astype(float)
    values[150_000] = np.nan
    rows = np.sort(rng.integers(0, 1000, 200_000))
    columns = rng.integers(0, 10**6, 200_000)
    made = from_coo([rows, columns], values, (1000, 10**6), duplicates="last", format="coo")
    for fmt in ("coo", "csr", "dcsr", "csc"):
        stats = collect(to_format(made, fmt))
        assert stats.has_nan and (stats.values.least, stats.values.greatest) == (1, 8)
        assert stats.degrees_of(0).l1 == stats.count == stats.degrees_of(1).l1
        pairs = made.arrays["idx1"].astype(int) - made.arrays["idx0"]
        assert stats.bandwidth == (-pairs.min(), pairs.max())


def test_huge_virtual_shapes():
    rng = np.random.default_rng(5)
    coords = rng.integers(0, 10**6, (7, 300))
    coords[0, :100] = 5
    for fmt in ("coo", "csf", "csf(6,5,4,3,2,1,0)"):
        stored = from_coo(coords, np.ones(300), (10**6,) * 7, duplicates="last", format=fmt)
        stats = collect(stored)
        assert stats.degrees_of(0).largest >= 100
        assert all(v is None or v.counts.size <= 300 for v in stats.vectors)


def test_dense_formats_are_full():
    for fmt in ("dense", "dense_f", "zorder", "symmetric"):
        stats = collect(to_format(from_dense(np.ones((4, 4))), fmt))
        assert stats.full and stats.count == 16 and stats.degrees_of(0).largest == 4
        assert stats.all_ones
    scalar = collect(from_dense(np.float64(3.0)))
    assert scalar.count == 1 and scalar.rank == 0 and scalar.constant == 3


def test_one_hot():
    hot = np.zeros((5, 9))
    hot[np.arange(5), [3, 1, 1, 8, 0]] = 1
    stats = collect(to_format(from_dense(hot), "csr"))
    assert stats.one_hot(0) is True and stats.one_hot(1) is False
