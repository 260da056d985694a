"""Whole-tensor operators give NumPy's result on the dense equivalent, from any storage."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from storage_support import formats_for, same

from tensorel import config
from tensorel.engines import bulk
from tensorel.errors import IndexError_, MemoryLimitError, ShapeError
from tensorel.reference.bulk import BULK
from tensorel.storage import convert

I8 = np.dtype("int64")


def random_case(rng: np.random.Generator) -> tuple[np.ndarray, Any]:
    shape = tuple(int(n) for n in rng.integers(0, 6, rng.integers(1, 4)))
    dtype = np.dtype(rng.choice(["float64", "int64", "bool", "complex128", "float32", "uint8"]))
    fill: Any = rng.choice([0, 1, 2, np.nan, -1, np.inf])
    if dtype.kind not in "fc" and not (np.isfinite(fill) and fill >= 0):
        fill = 1
    fill = np.asarray(fill).astype(dtype)[()]
    values = rng.integers(0, 4, shape).astype(dtype)
    if dtype.kind in "fc":
        values = np.where(rng.random(shape) < 0.1, np.nan, values - 1)
    dense = np.where(rng.random(shape) < rng.random(), values, fill).astype(dtype)
    return dense, fill


def calls(rng: np.random.Generator, dense: np.ndarray) -> list[tuple[Any, ...]]:
    """(operator, further arguments, parameters, shape, dtype)."""
    shape, dtype = dense.shape, dense.dtype
    axis, down = int(rng.integers(0, dense.ndim)), bool(rng.integers(0, 2))
    n = shape[axis]
    k = int(rng.integers(0, n + 1))
    picked = rng.integers(-n, n, rng.integers(0, 8)) if n else np.empty(0, np.int64)

    def instead(m: int) -> tuple[int, ...]:
        return (*shape[:axis], m, *shape[axis + 1 :])

    mixed = tuple(int(n) for n in rng.permutation(shape))
    wide = dtype if dtype.kind == "c" else np.dtype("float64" if dtype.kind == "f" else "int64")
    found: list[tuple[Any, ...]] = [
        ("reshape", [], (mixed,), mixed, dtype),
        ("reshape", [], ((dense.size,),), (dense.size,), dtype),
        ("take", [picked], (axis,), instead(len(picked)), dtype),
        ("sort", [], (axis, down), shape, dtype),
        ("argsort", [], (axis, down, True), shape, I8),
        ("topk_values", [], (k, axis, down), instead(k), dtype),
        ("topk_indices", [], (k, axis, down), instead(k), I8),
        ("cumulative_sum", [], (axis,), shape, wide),
        ("cumulative_prod", [], (axis,), shape, wide),
    ]
    for op in ("argmin", "argmax"):
        if n:
            found.append((op, [], (axis,), shape[:axis] + shape[axis + 1 :], I8))
        if dense.size:
            found.append((op, [], (None,), (), I8))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_bulk_operators(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        dense, fill = random_case(rng)
        name = str(rng.choice(formats_for(dense.shape, dense.dtype)))
        stored = convert.to_format(convert.from_dense(dense, fill), name)
        for op, more, params, shape, dtype in calls(rng, dense):
            with np.errstate(all="ignore"):
                want = np.asarray(BULK[op]([dense, *more], params, dtype))
            args = [stored, *(convert.from_dense(m) for m in more)]
            result = bulk.run(op, args, params, shape, dtype)
            got = convert.to_dense(result)
            assert got.dtype == want.dtype and got.shape == want.shape, op
            equal = np.array_equal(got, want, equal_nan=dtype.kind in "fc")
            assert equal, (op, name, params, fill, dense, got, want)


def test_reshape_of_huge_shapes() -> None:
    rng = np.random.default_rng(0)
    coords = rng.integers(0, 10**6, (6, 50))
    t = convert.from_coo(coords, np.arange(50.0), (10**6,) * 6)
    merged = bulk.run("reshape", [t], ((10**12,) * 3,), (10**12,) * 3, t.dtype)
    back = bulk.run("reshape", [merged], ((10**6,) * 6,), (10**6,) * 6, t.dtype)
    for a, b in zip(convert.to_coo(back).coords, convert.to_coo(t).coords):
        assert np.array_equal(a, b)
    odd = (2**40, 2**40)
    u = convert.from_coo([[2**39 + 5], [2**40 - 1]], [1.0], odd)
    turned = bulk.run("reshape", [u], ((2**39, 2**41),), (2**39, 2**41), u.dtype)
    flat = (2**39 + 5) * 2**40 + 2**40 - 1
    assert [int(c[0]) for c in convert.to_coo(turned).coords] == [flat >> 41, flat % 2**41]


def test_views_and_layouts() -> None:
    a = np.arange(6.0)
    made = bulk.run("reshape", [convert.from_dense(a)], ((2, 3),), (2, 3), a.dtype)
    assert np.shares_memory(made.arrays["val"], a)
    csr = convert.to_format(convert.from_dense(np.eye(4)), "csr")
    rows = convert.from_dense(np.array([3, 3, 0]))
    taken = bulk.run("take", [csr, rows], (0,), (3, 4), csr.dtype)
    assert taken.format.name == "csr" and same(convert.to_dense(taken), np.eye(4)[[3, 3, 0]])


def test_cost_follows_entries() -> None:
    n = 10**9
    t = convert.from_coo([[5, 10**8, 3], [7, 7, 9]], [3.0, -1.0, 2.0], (n, n))
    started = time.perf_counter()
    top = bulk.run("topk_values", [t], (2, 0, True), (2, n), t.dtype)
    assert convert.to_coo(top).values.tolist() == [3.0, 2.0]
    down = bulk.run("sort", [t], (0, False), (n, n), t.dtype)
    assert [c.tolist() for c in convert.to_coo(down).coords] == [[0, n - 1, n - 1], [7, 7, 9]]
    best = bulk.run("argmax", [t], (0,), (n,), I8)
    assert convert.to_coo(best).values.tolist() == [5, 3]
    least = bulk.run("argmin", [t], (None,), (), I8)
    assert int(convert.to_dense(least)) == 10**8 * n + 7
    assert time.perf_counter() - started < 2


def test_refusals() -> None:
    t = convert.from_coo([[5], [7]], [3.0], (10**5, 10**5))
    for op, params in (("argsort", (0, False, True)), ("topk_indices", (10**5, 0, True))):
        with pytest.raises(MemoryLimitError, match="dense result"):
            bulk.run(op, [t], params, t.shape, I8)
    filled = convert.from_coo([[5], [7]], [3.0], (10**5, 10**5), fill=1.0)
    with pytest.raises(MemoryLimitError):
        bulk.run("cumulative_sum", [filled], (0,), filled.shape, filled.dtype)
    running = bulk.run("cumulative_sum", [t], (0,), t.shape, t.dtype)
    assert convert.to_coo(running).count <= 10**5
    with config.options(memory="1kB"), pytest.raises(MemoryLimitError):
        bulk.run("cumulative_sum", [t], (0,), t.shape, t.dtype)
    with pytest.raises(IndexError_):
        bulk.run("take", [t, convert.from_dense(np.array([10**5]))], (0,), (1, 10**5), t.dtype)
    with pytest.raises(ShapeError):
        bulk.run("reshape", [t], ((7,),), (7,), t.dtype)
