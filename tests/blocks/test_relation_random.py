"""Random relations against dictionaries of NumPy arrays: formats, dtypes, fills, uneven tiles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.front.functions.relations import TensorRelation
from tensorel.storage.convert import to_dense

Plain = dict[tuple[int, ...], np.ndarray]
FORMATS = ["dense", "dense_f", "coo", "csr", "csc", "dcsr", "dok", "csf", "bsr", "bitmap", "0;1"]
DTYPES = ["bool", "int8", "uint8", "int32", "int64", "uint64", "float32", "float64", "complex128"]


def edges(rng: np.random.Generator, n: int) -> list[int]:
    inner = rng.choice(np.arange(1, n), size=rng.integers(0, min(n, 4)), replace=False)
    return [0, *sorted(inner.tolist()), n]


def cut(a: np.ndarray, at: list[list[int]]) -> Plain:
    return {key: a[tuple(slice(e[k], e[k + 1]) for e, k in zip(at, key))]
            for key in product(*[range(len(e) - 1) for e in at])}


def sample(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, fill: int,
           density: float) -> np.ndarray:
    low = 0 if np.dtype(dtype).kind in "bu" else -3
    values = rng.integers(low, 4, shape).astype(dtype)
    return np.where(rng.random(shape) < density, values, np.array(fill).astype(dtype))


def same(R: TensorRelation, wanted: Plain, exact: bool = True) -> None:
    """All blocks of the domain, absent ones too."""
    full = R.relation.filled()
    found = {tuple(k): to_dense(b) for k, b in zip(full.keys.tolist(), full.blocks)}
    assert sorted(found) == sorted(wanted)
    for key, block in wanted.items():
        assert found[key].shape == block.shape, (key, found[key].shape, block.shape)
        assert found[key].dtype == R.dtype == block.dtype, (key, found[key].dtype, block.dtype)
        np.testing.assert_allclose(found[key], block, rtol=1e-6 if not exact else 0, atol=0)
    held = dict(R.items())
    for key in wanted:
        np.testing.assert_array_equal(held.get(key, R.fill), found[key])


def cases(count: int, formats: list[str] = FORMATS) -> list[Any]:
    found = []
    rng = np.random.default_rng(0)
    for n in range(count):
        format, dtype = formats[n % len(formats)], DTYPES[rng.integers(len(DTYPES))]
        if format == "bitmap":
            dtype = "bool"
        fill = 0 if format in ("bsr", "bitmap") else int(rng.choice([0, 0, 1]))
        found.append(pytest.param(format, dtype, fill, n, id=f"{format}-{dtype}-{fill}-{n}"))
    return found


def drawn(rng: np.random.Generator, format: str, dtype: str, fill: int, shape: tuple[int, ...],
          at: list[list[int]] | None = None) -> tuple[TensorRelation, Plain, np.ndarray]:
    a = sample(rng, shape, dtype, fill, float(rng.choice([0.03, 0.2, 1.0])))
    at = at or [edges(rng, n) for n in shape]
    T = tr.tensor(a, format=format if len(shape) == 2 or format in ("coo", "csf") else None,
                  fill=fill)
    return tr.relation(T, tile=at), cut(a, at), a


@pytest.mark.parametrize("format, dtype, fill, seed", cases(44))
def test_cutting_and_putting_together(format: str, dtype: str, fill: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    R, plain, a = drawn(rng, format, dtype, fill, (9, 7))
    same(R, plain)
    back = R.to_tensor()
    np.testing.assert_array_equal(back.to_numpy(), a)
    assert back.dtype == a.dtype and (len(R) < 2 or back.fill == fill)
    axis, size = int(rng.integers(2)), int(rng.integers(1, 5))
    tiled = R.tile(axis, size)
    same(tiled, {(*k, n): part for k, b in plain.items() for n, part in enumerate(
        np.split(b, range(size, b.shape[axis], size), axis))})
    same(tiled.stack(-1, axis), plain)
    np.testing.assert_array_equal(tiled.stack(2, axis).to_tensor().to_numpy(), a)
    whole = R.stack(0, 0).stack(0, 1)
    assert whole.key_arity == 0
    np.testing.assert_array_equal(whole.to_tensor().to_numpy(), a)


KERNELS: list[tuple[object, Callable[[Any], Any]]] = [
    ("negative", np.negative), ("transpose", np.transpose), (np.square, np.square),
    (lambda a: a + a, lambda a: a + a), ("ij->j", lambda a: np.einsum("ij->j", a)),
    (lambda a: np.array(a[::-1].tolist(), a.dtype), lambda a: a[::-1]),
    ("equal_to_itself", lambda a: a == a), ("ravel", np.ravel), (lambda a: a, lambda a: a),
]


@pytest.mark.parametrize("format, dtype, fill, seed", cases(44))
def test_maps_of_keys_and_blocks(format: str, dtype: str, fill: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    R, plain, _ = drawn(rng, format, dtype, fill, (8, 6))
    kernel, meaning = KERNELS[seed % len(KERNELS)]
    if kernel == "negative" and dtype == "bool":
        return
    if kernel == "equal_to_itself":
        kernel = lambda a: a == a  # noqa: E731
    same(R.transform(kernel), {k: np.asarray(meaning(b)) for k, b in plain.items()})
    n = R.key_extents[1]
    flat = R.rekey(lambda i, j: n * i + j)
    same(flat, {(n * i + j,): b for (i, j), b in plain.items()})
    some = R.filter(lambda i, j: (i + j) % 2 == 0)
    kept = {k: b for k, b in plain.items() if sum(k) % 2 == 0}
    same(some, kept)
    assert some.key_extents == R.key_extents
    same(some.transform(kernel), {k: np.asarray(meaning(b)) for k, b in kept.items()})
    same(some.rekey(lambda i, j: (j, i + 1)), {(j, i + 1): b for (i, j), b in kept.items()})


JOINS: list[tuple[object, Callable[[Any, Any], Any]]] = [
    ("add", np.add), ("multiply", np.multiply), ("max", np.maximum),
    (lambda a, b: a * b + a, lambda a, b: a * b + a), ("equal", np.equal),
    ("ij,ij->i", lambda a, b: np.einsum("ij,ij->i", a, b)),
    (lambda a, b: np.array((a + b).tolist(), a.dtype), np.add),
    (lambda a, b: tr.where(b > 1, a, b), lambda a, b: np.where(b > 1, a, b)),
]


def joined(a: Plain, b: Plain, on: list[tuple[int, int]], f: Callable[[Any, Any], Any]) -> Plain:
    right = [q for _, q in on]
    return {(*k, *[c for d, c in enumerate(m) if d not in right]): np.asarray(f(x, y))
            for k, x in a.items() for m, y in b.items() if all(k[p] == m[q] for p, q in on)}


@pytest.mark.parametrize("format, dtype, fill, seed", cases(66))
def test_joins(format: str, dtype: str, fill: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, meaning = JOINS[seed % len(JOINS)]
    if dtype == "complex128" and kernel not in ("add", "multiply", "ij,ij->i"):
        dtype = "float64"
    if kernel == "ij,ij->i" and dtype == "bool":
        dtype = "int8"
    if callable(kernel) and dtype == "bool":
        dtype = "int64"
    at = [edges(rng, 8), edges(rng, 6)]
    R, a, _ = drawn(rng, format if dtype == "bool" or format != "bitmap" else "coo", dtype, fill,
                    (8, 6), at)
    S, b, _ = drawn(rng, "coo", dtype, int(rng.integers(2)), (8, 6), at)
    both = [(0, 0), (1, 1)]
    for X, x, Y, y in [(R, a, S, b), (S, b, R, a)]:
        same(X.join(Y, [0, 1], [0, 1], kernel), joined(x, y, both, meaning))
        some = X.filter(lambda i, j: i <= j), {k: v for k, v in x.items() if k[0] <= k[1]}
        same(some[0].join(Y, [1, 0], [1, 0], kernel), joined(some[1], y, both, meaning))


@pytest.mark.parametrize("format, dtype, fill, seed", cases(66))
def test_products(format: str, dtype: str, fill: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    if format == "bitmap":
        format = "csr"
    inner = edges(rng, 7)
    R, a, A = drawn(rng, format, dtype, fill, (9, 7), [edges(rng, 9), inner])
    S, b, B = drawn(rng, "csr", dtype, int(rng.integers(2)), (7, 5), [inner, edges(rng, 5)])
    found = R.join(S, 1, 0, ["matmul", "ij,jk->ik", lambda x, y: x @ y][seed % 3])
    same(found, joined(a, b, [(1, 0)], np.matmul))
    product = found.aggregate([0, 2], "any" if dtype == "bool" else "add").to_tensor()
    np.testing.assert_array_equal(product.to_numpy(), A @ B)
    assert product.dtype == (A @ B).dtype


FOLDS: list[tuple[object, Callable[[Any, Any], Any]]] = [
    ("add", np.add), ("max", np.maximum), ("multiply", np.multiply), (tr.min, np.minimum),
    (lambda a, b: a + b, np.add), (lambda a, b: a + b - a * b, lambda a, b: a + b - a * b),
    (lambda a, b: np.array(b.tolist(), a.dtype), lambda a, b: b),
]


@pytest.mark.parametrize("format, dtype, fill, seed", cases(77))
def test_aggregation(format: str, dtype: str, fill: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel, meaning = FOLDS[seed % len(FOLDS)]
    if dtype == "complex128" and seed % 7 in (1, 3):
        dtype = "float64"
    if dtype == "bool" and seed % 7 == 5:  # NumPy subtracts no booleans
        format, dtype = "coo", "int8"
    R, plain, _ = drawn(rng, format, dtype, fill, (8, 9), [[0, 2, 4, 6, 8], [0, 3, 6, 9]])
    some = R.filter(lambda i, j: i != 2 or j > 0), {
        k: v for k, v in plain.items() if k[0] != 2 or k[1] > 0}
    for X, x in [(R, plain), some]:
        for kept in ([], [0], [1], [0, 1], [1, 0]):
            wanted: Plain = {}
            for key in sorted(x):
                at = tuple(key[d] for d in kept)
                wanted[at] = meaning(wanted[at], x[key]) if at in wanted else x[key]
            same(X.aggregate(kept, kernel), wanted)


def test_aggregation_of_uneven_tiles() -> None:
    rng = np.random.default_rng(5)
    for fill in (0, 1):
        R, plain, a = drawn(rng, "csr", "int64", fill, (9, 8), [[0, 2, 6, 9], [0, 4, 8]])
        found = R.aggregate([0], "add")
        same(found, {(i,): plain[i, 0] + plain[i, 1] for i in range(3)})
        np.testing.assert_array_equal(found.to_tensor(axes=[0]).to_numpy(), a[:, :4] + a[:, 4:])


def test_results_do_not_depend_on_what_is_stored() -> None:
    """A kernel whose value on blocks of fill depends on both extents."""
    T = tr.tensor(np.ones((5, 5)), format="coo", fill=1)
    R = tr.relation(T, tile=([2, 3], [2, 3]))
    assert len(R) == 0
    same(R.transform("trace"), {(i, j): np.array(float(min(i, j) + 2)) for i in range(2)
                                for j in range(2)})
    positions = tr.relation(tr.zeros((4, 6)).compute(format="coo"), tile=(2, 3))
    same(positions.transform(lambda a: a.argsort(axis=1)),
         {(i, j): np.argsort(np.zeros((2, 3)), axis=1) for i in range(2) for j in range(2)})
    same(positions.join(positions, [0, 1], [0, 1], lambda a, b: (a + b).argsort(axis=1)),
         {(i, j): np.argsort(np.zeros((2, 3)), axis=1) for i in range(2) for j in range(2)})


def test_higher_ranks_and_scalars() -> None:
    rng = np.random.default_rng(3)
    R, plain, a = drawn(rng, "csf", "float64", 0, (5, 4, 6))
    same(R, plain)
    np.testing.assert_array_equal(R.to_tensor().to_numpy(), a)
    scalar = tr.relation(3.5, tile=2)
    assert scalar.keys() == [()] and scalar.to_tensor().item() == 3.5
    empty = tr.relation(np.ones((0, 3)), tile=2)
    assert len(empty) == 0 and empty.to_tensor().shape == (0, 3)
    vector = tr.relation(np.arange(5), tile=[[2, 3]])
    assert vector.aggregate([0], "add").keys() == [(0,), (1,)]


@pytest.mark.parametrize("format", ["tril", "symmetric", "dia", "zorder", "dense"])
def test_formats_that_blocks_cannot_have(format: str) -> None:
    a = np.tril(np.arange(1.0, 26).reshape(5, 5))
    if format == "symmetric":
        a = a + a.T
    R = tr.relation(tr.tensor(a, format=format), tile=2)
    same(R, cut(a, [[0, 2, 4, 5]] * 2))
    np.testing.assert_array_equal(R.to_tensor().to_numpy(), a)
    np.testing.assert_array_equal(
        R.join(R, 1, 0, "matmul").aggregate([0, 2], "add").to_tensor().to_numpy(), a @ a)


def test_strict_programs_annihilate_nothing() -> None:
    T = tr.from_coo([[0], [0]], [1.0], (4, 4), format="csr")
    holds = tr.relation(np.full((4, 4), np.nan), tile=2)
    with tr.options(strict=True):
        found = tr.relation(T, tile=2).join(holds, [0, 1], [0, 1], "multiply")
        assert np.isnan(found[1, 1].to_numpy()).all()
    with pytest.warns(tr.errors.NonFiniteWarning, match="absent blocks"):
        found = tr.relation(T, tile=2).join(holds, [0, 1], [0, 1], "multiply")
    assert found.keys() == [(0, 0)]
