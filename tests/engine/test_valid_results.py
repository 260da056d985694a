"""Every operator that moves cells, on every format: the result keeps the law of its format, equals
NumPy's, and serves as an operand again."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import TensorelError
from tensorel.storage import registry
from tensorel.testing.programs.own_storages import own_formats

Array = np.ndarray[Any, np.dtype[Any]]
SHAPES: dict[int, tuple[tuple[int, ...], ...]] = {
    1: ((5,), (1,)), 2: ((3, 4), (1, 3), (4, 4)), 3: ((2, 3, 4), (1, 1, 2), (3, 1, 2)),
    4: ((2, 1, 3, 2),),
}


def mixes(rank: int) -> Iterator[str]:
    """Dense axes, sparse axes, dense axes below them: all cuts, and some orders of axes."""
    orders = [tuple(range(rank)), tuple(reversed(range(rank)))] if rank < 4 else [(0, 1, 2, 3)]
    for order in dict.fromkeys(orders):
        axes = [str(a) for a in order]
        for a, b in itertools.combinations(range(rank + 1), 2):
            groups = axes[:a], axes[a:b], axes[b:]
            yield ";".join(",".join(g) for g in (groups if b < rank else groups[:2]))


def formats(rank: int, rng: np.random.Generator) -> list[str]:
    names = [n for n in registry.names() if n != "bitmap"]
    return [*names, *mixes(rank), *(["bsr(2,3)"] if rank == 2 else []), *own_formats(rank, rng)]


def data(shape: tuple[int, ...], format: str, rng: np.random.Generator) -> Array:
    """Few entries, and whole rows without any."""
    found = rng.integers(1, 5, shape) * (rng.random(shape) < 0.5)
    found = found * (rng.random(shape[:-1] + (1,)) < 0.7)
    lower = np.tri(*shape, dtype=int) if len(shape) == 2 else np.ones(shape, int)
    if format == "symmetric":
        found = (found * lower + (found * np.tri(*shape, -1, dtype=int)).T) if (
            shape[0] == shape[1]) else found
    if format == "triu":
        found = found * np.triu(np.ones(shape, int))
    return (found * lower if format == "tril" else found).astype(np.float64)


Operator = Callable[[Any, Any, int], Any]  # of the namespace, the tensor and an axis
ALONG: dict[str, Operator] = {
    "concat zeros": lambda xp, x, k: xp.concat([x, xp.zeros(_with(x, k, 3))], axis=k),
    "concat before": lambda xp, x, k: xp.concat([xp.zeros(_with(x, k, 2)), x, x], axis=k),
    "pad": lambda xp, x, k: xp.pad(x, [(1, 2) if a == k else (0, 0) for a in range(x.ndim)]),
    "pad end": lambda xp, x, k: xp.pad(x, [(0, 3) if a == k else (0, 0) for a in range(x.ndim)]),
    "repeat": lambda xp, x, k: xp.repeat(x, 3, axis=k),
    "roll": lambda xp, x, k: xp.roll(x, 1, axis=k),
    "flip": lambda xp, x, k: xp.flip(x, axis=k),
    "stack": lambda xp, x, k: xp.stack([x, xp.zeros(x.shape), x], axis=k),
    "tile": lambda xp, x, k: xp.tile(x, tuple(2 if a == k else 1 for a in range(x.ndim))),
    "step": lambda xp, x, k: x[_at(x, k, slice(None, None, 2))],
    "back": lambda xp, x, k: x[_at(x, k, slice(None, None, -2))],
    "from one": lambda xp, x, k: x[_at(x, k, slice(1, None))],
    "first": lambda xp, x, k: x[_at(x, k, 0 if x.ndim > 1 else slice(1))],
    "take": lambda xp, x, k: xp.take(x, np.array([0, 0, x.shape[k] - 1, 0]), axis=k),
    "new axis": lambda xp, x, k: xp.expand_dims(x, k) * xp.asarray(np.ones(_one(x, k, 3))),
    "spread": lambda xp, x, k: x[_at(x, k, slice(0, 1))] + xp.zeros(_with(x, k, 4)),
    "vector": lambda xp, x, k: x * xp.reshape(
        xp.arange(float(x.shape[k])), [-1 if a == k else 1 for a in range(x.ndim)]),
    "before": lambda xp, x, k: xp.where(xp.reshape(
        xp.arange(x.shape[k]), [-1 if a == k else 1 for a in range(x.ndim)]) < 2, x, 0.0),
    "diff": lambda xp, x, k: xp.diff(x, axis=k) if x.shape[k] > 1 else x,
}
WHOLE: dict[str, Operator] = {
    "kron": lambda xp, x, k: xp.kron(x, xp.reshape(xp.asarray([1.0, 0.0, 2.0]), [
        3 if a == x.ndim - 1 else 1 for a in range(x.ndim)])),
    "flat": lambda xp, x, k: xp.reshape(x, (-1,)),
    "merge": lambda xp, x, k: xp.reshape(x, (x.shape[0], -1)),
    "turn": lambda xp, x, k: xp.permute_dims(x, tuple(reversed(range(x.ndim)))),
    "broadcast": lambda xp, x, k: xp.broadcast_to(x, (3, *x.shape)),
    "where": lambda xp, x, k: xp.where(x > 2, x, 0.0),
    "where else": lambda xp, x, k: xp.where(x > 0, 1.0, x + 2.0),
    "add turned": lambda xp, x, k: x + xp.flip(x),
    "fill": lambda xp, x, k: x + 1.0,
    "triangle": lambda xp, x, k: xp.tril(x) if x.ndim > 1 else x * 2.0,
    "upper": lambda xp, x, k: xp.triu(x, 1) if x.ndim > 1 else -x,
    "nested": lambda xp, x, k: xp.concat([xp.roll(x, 1, axis=0), xp.pad(x, [(0, 0)] * x.ndim)]),
    "padded": lambda xp, x, k: xp.flip(xp.pad(x, [(1, 1)] * x.ndim), axis=-1) * 2.0,
}


def _with(x: Any, k: int, n: int) -> tuple[int, ...]:
    return (*x.shape[:k], n, *x.shape[k + 1 :])


def _one(x: Any, k: int, n: int) -> tuple[int, ...]:
    return tuple(n if a == k else 1 for a in range(x.ndim + 1))


def _at(x: Any, k: int, part: object) -> tuple[object, ...]:
    return (*[slice(None)] * k, part)


def check_case(array: Array, format: str, run: Operator, axis: int) -> None:
    """One operator on one tensor; what it gives is an operand again."""
    wanted = run(np, array, axis)
    found = run(tr, tr.tensor(array, format=format), axis).compute()
    np.testing.assert_array_equal(found.to_numpy(), wanted)
    weights = np.arange(1.0, wanted.shape[-1] + 1)
    again = (found @ weights, wanted @ weights) if axis % 2 == 0 else (
        found.sum(axis=0), wanted.sum(axis=0))
    np.testing.assert_allclose(again[0].to_numpy(), again[1], rtol=1e-12)


def _cases(rank: int) -> Iterator[tuple[str, str]]:
    rng = np.random.default_rng(rank)
    for format in formats(rank, rng):
        for shape in SHAPES[rank]:
            try:
                registry.resolve(format, shape, np.dtype(float))
            except TensorelError:
                continue
            yield format, ",".join(map(str, shape))


def _is_tail(format: str) -> bool:
    return format.count(";") == 2


#: One case in so many is tried, of formats with a dense tail and of the others.
SHARES = {True: 4, False: 13}


@pytest.mark.parametrize("rank", SHAPES)
def test_every_operator_keeps_the_law(rank: int) -> None:
    failed: list[str] = []
    with tr.options(verify=True, effort="quick", threads=1):
        for format, extents in _cases(rank):
            shape = tuple(map(int, extents.split(",")))
            axes = range(rank) if _is_tail(format) else [zlib.crc32(format.encode()) % rank]
            tried = [(f"{name} {k}", run, k) for name, run in ALONG.items() for k in axes]
            tried += [(name, run, 0) for name, run in WHOLE.items()]
            for name, run, k in tried:
                seed = zlib.crc32(f"{format} {extents} {name}".encode())
                if seed % SHARES[_is_tail(format)]:
                    continue
                array = data(shape, format, np.random.default_rng(seed))
                try:
                    check_case(array, format, run, k)
                except Exception as error:
                    text = f"{type(error).__name__}: {error}"
                    failed.append(f"{name} of {format} {shape}: {text[:300]}\n{array.tolist()}")
    assert not failed, f"{len(failed)} cases:\n" + "\n".join(failed[:20])


def test_found_by_hand() -> None:
    """Reads past a buffer: the tail of the result is longer than that of the operand."""
    ones = tr.tensor(np.ones((2, 2, 2)), format=";0,1;2")
    for longer in (tr.concat([ones, tr.zeros((2, 2, 3))], axis=2),
                   tr.pad(ones, ((0, 0), (0, 0), (0, 3)))):
        found = longer.compute() @ np.ones(5)
        np.testing.assert_array_equal(found.to_numpy(), np.full((2, 2), 2))
    none = tr.tensor(np.zeros((1, 1, 2)), format="0;1;2")
    assert tr.repeat(none, 3, axis=1).compute().to_numpy().tolist() == [[[0.0, 0.0]] * 3]


def test_formats_without_values() -> None:
    """A bitmap has no array of values: results are not sparsified, rows not fetched by it."""
    bits = tr.tensor(np.eye(3, dtype=bool), format="bitmap")
    found = tr.compute(bits, tr.eye(3) + tr.eye(3))
    assert [t.to_numpy().sum() for t in found] == [3, 6.0]
    many = np.zeros((200_000, 64), dtype=bool)
    many[::1000] = True
    chosen = np.random.default_rng(0).integers(0, len(many), 100_000)
    rows = tr.take(tr.tensor(many, format="bitmap"), chosen, axis=0)
    np.testing.assert_array_equal(tr.sum(rows * 1.0, axis=1).to_numpy(), many[chosen].sum(axis=1))


def test_dense_levels_of_a_wanted_format_are_the_leading_ones() -> None:
    """A tail is no reason for bounds over all rows of a long axis."""
    long = tr.from_coo([[5], [1]], [2.0], (2**40, 3))
    made = (long + long).compute(format=";0;1")
    assert made.nbytes < 1000 and made.nnz == 1
