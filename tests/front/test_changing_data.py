"""Arrays that were handed in and change: indices that come from data are those of the moment when a
program is written, and none is ever used beyond what was allocated for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import IndexError_, MemoryLimitError, ParseError

Array = np.ndarray[Any, np.dtype[Any]]
COUNTS = "sum(<i,k> in C(0:{n})) {{ k -> 1 }}"


def test_keys_that_grow_beyond_the_first_result() -> None:
    lab = np.array([0, 1, 1])
    keys = tr.asarray(lab)

    def q() -> Any:
        return tr.sdql(COUNTS.format(n=3), C=keys)

    assert q().to_numpy().tolist() == [1, 2]
    before = q()
    lab[:] = [4, 0, 4]
    assert q().to_numpy().tolist() == [1, 0, 0, 0, 2]
    assert before.to_numpy().tolist() == [1, 2]  # of the data that it was written for
    lab[:] = 10**12
    found = q()
    assert found.shape == (10**12 + 1,) and found.nnz == 1
    assert [c.tolist() for c in found.to_coo()[0]] == [[10**12]]
    with pytest.raises(MemoryLimitError):
        found.to_numpy()
    lab[:] = [-1, 0, 0]
    with pytest.raises(ParseError, match="negative"):
        q()
    lab[:] = [0, 1, 1]
    assert q().to_numpy().tolist() == [1, 2]


def test_every_index_is_read_when_it_is_written() -> None:
    x, at = tr.asarray(np.arange(5.0)), np.array([0, 2, 4])
    lazy = [x[at], tr.take(x, at), tr.take_along_axis(x, at, 0), x[tr.asarray(at)]]
    rows = tr.tensor(np.arange(25.0).reshape(5, 5), format="csr")[at]
    at[:] = 10**12
    for found in lazy:
        assert found.to_numpy().tolist() == [0, 2, 4]
    assert rows.to_numpy()[:, 1].tolist() == [1, 11, 21]
    for again in (lambda: x[at], lambda: tr.take(x, at), lambda: tr.take_along_axis(x, at, 0)):
        with pytest.raises(IndexError_, match="out of range"):
            again()


#: What reads a vector at an array of positions.
PICKING: tuple[Callable[[Any, Array], Any], ...] = (
    lambda x, at: x[at], lambda x, at: tr.take(x, at), lambda x, at: tr.take_along_axis(x, at, 0),
    lambda x, at: x[tr.asarray(at)], lambda x, at: tr.expand_dims(x, 1)[at, 0],
    lambda x, at: tr.stack([x, x])[1, at], lambda x, at: tr.take(x[:, None] + 0, at, axis=0)[:, 0],
    lambda x, at: tr.tensor(x[:, None], format="csr")[at].sum(axis=1),
)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4", ">u2"])
@pytest.mark.parametrize("extent", [3, 100, 128, 129, 200, 256, 300, 40_000])
def test_index_arrays_of_every_dtype(dtype: str, extent: int) -> None:
    """Inside, negative and outside, as NumPy takes or refuses them; as they were when they were
    given, and never written to."""
    rng = np.random.default_rng(extent)
    x = np.arange(float(extent))
    info = np.iinfo(dtype)
    low, high = max(int(info.min), -extent - 3), min(int(info.max), extent + 3)
    for size in (4, 70_000):
        for first, last in ((0, min(high, extent - 1)), (max(low, -extent), 0), (low, high)):
            at = rng.integers(first, last, size, endpoint=True).astype(dtype)
            try:
                want = x[at]
            except IndexError:
                with pytest.raises(IndexError_, match="out of range"):
                    tr.asarray(x)[at]
                continue
            ways = PICKING if size == 4 else PICKING[:3]
            lazy = [pick(tr.asarray(x), at) for pick in ways]
            at[...] = np.roll(at, 1)
            at[0] = high
            for k, found in enumerate(lazy):
                assert np.array_equal(found.to_numpy(), want), k


# -- programs over keys that change between computes -----------------------------------------------
N = 12


def _table(keys: Array, values: Array) -> dict[int, float]:
    found: dict[int, float] = {}
    for k, v in zip(keys.tolist(), values.tolist()):
        found[k] = found.get(k, 0) + v
    return {k: v for k, v in found.items() if v}


def _pairs(keys: Array, other: Array) -> dict[int, float]:
    return _table(*(np.array(p).reshape(-1) for p in (
        [k for k in keys for o in other if o == k], [1 for k in keys for o in other if o == k])))


def _looked_up(keys: Array, y: Array, x: Array) -> dict[int, float]:
    inside = [(i, y[k] * x[i]) for i, k in enumerate(keys.tolist()) if 0 <= k < len(y)]
    return {i: v for i, v in inside if v}


Case = tuple[str, Callable[..., dict[int, float]]]
CASES: dict[str, Case] = {
    "counts": (COUNTS.format(n=N), lambda c, d, x, y: _table(c, np.ones(N))),
    "sums": ("sum(<i,v> in X) { C(i) -> v }", lambda c, d, x, y: _table(c, x)),
    "shifted": ("sum(<i,v> in X) { C(i) + 2 -> v }", lambda c, d, x, y: _table(c + 2, x)),
    "joined": (f"sum(<i,k> in C(0:{N})) sum(<j,l> in D(0:{N})) if (k == l) then {{ k -> 1 }}",
               lambda c, d, x, y: _pairs(c, d)),
    "guarded": (f"sum(<i,k> in C(0:{N})) if (k < 7) then {{ k -> 1 }}",
                lambda c, d, x, y: _table(c[c < 7], np.ones(N))),
    "looked up": ("sum(<i,v> in X) { i -> Y(C(i)) * v }",
                  lambda c, d, x, y: _looked_up(c, y, x)),
}


def _changes(rng: np.random.Generator, dtype: np.dtype[Any], huge: int) -> list[Array]:
    """Keys that are larger, smaller, the same, huge; unsigned and narrow as far as they go."""
    most = int(np.iinfo(dtype).max)
    tops = [5, 5, 40, 3, 120, min(most, 60_000), min(most, huge), 4]
    return [rng.integers(0, top, N, endpoint=True).astype(dtype) for top in tops]


@pytest.mark.parametrize("dtype", ["i1", "u1", "u2", "i4", "i8"])
@pytest.mark.parametrize("name", CASES)
def test_programs_over_keys_that_change(name: str, dtype: str) -> None:
    """Every compute after a change gives what the data say then, or is refused; kernels are
    checked, so that none leaves its arrays."""
    rng = np.random.default_rng(7)
    text, meaning = CASES[name]
    c, d = np.zeros(N, dtype), np.zeros(N, dtype)
    x, y = rng.integers(1, 5, N).astype(float), rng.integers(0, 5, 9).astype(float)
    given = {"C": tr.asarray(c), "D": tr.asarray(d), "X": tr.asarray(x), "Y": tr.asarray(y)}
    used = {k: t for k, t in given.items() if f"{k}(" in text or f" {k})" in text}
    held: list[tuple[Any, dict[int, float]]] = []
    with tr.options(bounds=True, effort="quick"):
        huge = 10**5 if name == "shifted" else 10**12  # compares at every key of its result
        for keys, other in zip(*(_changes(rng, c.dtype, huge) for _ in range(2))):
            c[:], d[:] = keys, other
            want = meaning(keys.astype(np.int64), other.astype(np.int64), x, y)
            program = tr.sdql(text, **used)
            held.append((program, want))
            if len(held) % 2:  # the others are computed after the data have changed
                _compare(program, want)
        for program, want in held:
            _compare(program, want)


def _compare(program: Any, want: dict[int, float]) -> None:
    coords, values = program.compute(format="coo").to_coo()
    found = {k: v for k, v in zip(np.asarray(coords[0]).tolist(), values.tolist()) if v}
    assert found == want


def test_keys_in_a_file_that_others_write(tmp_path: Path) -> None:
    """Nobody here can write to them: they are looked at once, and copied."""
    theirs = np.memmap(tmp_path / "keys", "i8", "w+", shape=(3,))
    theirs[:] = [0, 1, 1]
    keys = tr.asarray(np.memmap(tmp_path / "keys", "i8", "r", shape=(3,)))
    text = "sum(<i, k> in C(0:3)) { k -> 1 }"
    before = tr.sdql(text, C=keys)
    for value in (0, 10**9, -5, 2**62):
        theirs[:] = value
        theirs.flush()
        for program in (before, tr.sdql(text, C=keys)):
            assert program.compute().to_numpy().sum() == 3


def test_one_comparison_and_no_copy_while_nothing_changes() -> None:
    """Programs over the same keys share one copy of them."""
    lab = np.array([0, 3, 1])
    keys = tr.asarray(lab)
    first, second = (tr.sdql(COUNTS.format(n=3), C=keys).node for _ in range(2))
    assert first is second  # nodes are interned: the same program over the same data
    lab[0] = 2
    assert tr.sdql(COUNTS.format(n=3), C=keys).node is not first
