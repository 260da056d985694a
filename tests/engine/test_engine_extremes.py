"""Empty tensors, zero-size axes, rank 0 to 8, and shapes too large to count linearly."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from engine_support import MATRIX_FORMATS, same

import tensorel as tr
from tensorel.errors import MemoryLimitError, ShapeError

SQUARE = ("tril", "triu", "symmetric")


@pytest.mark.parametrize("format", [f for f in MATRIX_FORMATS if f != "bitmap"])
def test_tensors_without_entries(format: str) -> None:
    """Nothing stored, and axes of no extent."""
    shapes = [(0, 0), (4, 4)] if format in SQUARE else [(0, 0), (0, 3), (3, 0), (4, 4), (1, 1)]
    for shape in shapes:
        x = np.zeros(shape)
        a = tr.tensor(x, format=format)
        assert a.nnz == 0
        for program in (
            lambda t: t + 1, lambda t: t * 2, lambda t: t.T, lambda t: t.sum(), lambda t: t @ t.T,
            lambda t: t.sum(axis=0), lambda t: t.sum(axis=1), lambda t: (t + 1).prod(axis=0),
            lambda t: np.concatenate([t, t]), lambda t: t[:0], lambda t: t[:, ::-1],
            lambda t: t.reshape(-1), lambda t: t.any(axis=1), lambda t: t == t,
            lambda t: np.einsum("ij,ij->i", t, t),
        ):
            same(program(a), program(x))
        if 0 in shape:
            for name in ("max", "min"):
                with pytest.raises(ValueError):
                    getattr(a, name)().compute()
        else:
            same(a.max(axis=0), x.max(axis=0))


ANY_RANK = ("dense", "dense_f", "coo", "csf", "dok", "trie", "zorder")
RANKS = [(f, r) for r in range(9) for f in ANY_RANK
         if r < 5 or f in ("dense", "coo", "csf") or (f, r) in (("dok", 8), ("zorder", 7))]


@pytest.mark.parametrize(("format", "rank"), RANKS)
def test_ranks(format: str, rank: int) -> None:
    rng = np.random.default_rng(rank)
    shape = (3, 2, 3, 2, 2, 3, 2, 2)[:rank]
    some = range(rank) if rank < 5 else (rank // 2,)
    x = np.where(rng.random(shape) < 0.3, rng.integers(1, 9, shape), 0).astype(float)
    y = np.where(rng.random(shape) < 0.3, rng.integers(1, 9, shape), 0).astype(float)
    a, b = tr.tensor(x, format=format), tr.tensor(y, format="coo")
    same(a, x)
    same(a + b, x + y)
    same(a * b + 1, x * y + 1)
    same(a.sum(), x.sum())
    same((a > b).compute(format="coo"), x > y)
    axes = tuple(reversed(range(rank)))
    same(tr.permute_dims(a, axes), x.transpose(axes))
    same(tr.permute_dims(a, axes).compute(format="coo"), x.transpose(axes))
    for axis in some:
        same(a.sum(axis=axis), x.sum(axis=axis))
        same((a - 5).max(axis=axis), (x - 5).max(axis=axis))
    if rank:
        same(a[::-1], x[::-1])
        same(a[..., 1], x[..., 1])
        same(np.concatenate([a, b]), np.concatenate([x, y]))
        same(tr.tensordot(a, b, axes=rank), np.tensordot(x, y, axes=rank))
        coords, values = a.to_coo()
        assert coords.shape == (rank, a.nnz)
        np.testing.assert_array_equal(x[tuple(coords)], values)


def test_scalars() -> None:
    a = tr.asarray(2.5)
    assert a.shape == () and a.item() == 2.5 and float(a) == 2.5
    same(a * tr.asarray(4), np.asarray(10.0))
    same(a + tr.asarray([1.0, 2.0]), np.array([3.5, 4.5]))
    same(tr.einsum(",->", a, a), np.asarray(6.25))
    for format in ("coo", "dok", "dense"):
        assert tr.tensor(7, format=format).item() == 7


# -- huge virtual shapes ---------------------------------------------------------------------

SIDE, RANK, COUNT = 10**6, 7, 1000
HUGE = (SIDE,) * RANK


def entries(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    coords = rng.integers(0, SIDE, (RANK, COUNT))
    coords[:, :3] = [[5], [6], [7], [8], [9], [10], [11]]
    coords[6, :3] = (0, SIDE - 1, 4)
    return coords, rng.integers(1, 9, COUNT).astype(float)


COORDS, VALUES = entries(0)
MORE, OTHERS = entries(1)


def as_dict(t: Any) -> dict[tuple[int, ...], float]:
    coords, found = t.to_coo()
    return {tuple(c): v for c, v in zip(coords.T.tolist(), found.tolist()) if v != t.fill}


def reference(coords: np.ndarray, found: np.ndarray) -> dict[tuple[int, ...], float]:
    return dict(zip(map(tuple, coords.T.tolist()), found.tolist()))


@pytest.fixture(params=["coo", "csf", "dok", "trie"])
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return (tr.from_coo(COORDS, VALUES, HUGE, format=request.param),
            tr.from_coo(MORE, OTHERS, HUGE, format=request.param))


@pytest.fixture(autouse=True)
def quick_and_small() -> Iterator[None]:
    """Nothing here may take long or hold more than a little memory."""

    def late(*_: object) -> None:
        raise AssertionError("took more than 20 seconds of the processor")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    previous = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, 20.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, previous)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_huge_elementwise(pair: tuple[Any, Any]) -> None:
    a, b = pair
    x, y = reference(COORDS, VALUES), reference(MORE, OTHERS)
    assert a.size == SIDE**RANK and a.nnz == COUNT
    assert as_dict(a) == x
    assert as_dict((a * 2).compute()) == {k: 2 * v for k, v in x.items()}
    assert as_dict((a + b).compute()) == {k: x.get(k, 0) + y.get(k, 0) for k in x | y}
    assert as_dict((a * b).compute()) == {k: x[k] * y[k] for k in x.keys() & y.keys()}
    shifted = (a + 1).compute()
    assert shifted.fill == 1 and as_dict(shifted) == {k: v + 1 for k, v in x.items()}
    assert (a > 4).compute().nnz == sum(v > 4 for v in x.values())
    assert (a == b).compute().fill


def test_huge_reductions(pair: tuple[Any, Any]) -> None:
    a, b = pair
    assert a.sum().item() == VALUES.sum()
    assert a.max().item() == VALUES.max()
    assert a.min().item() == 0
    assert (a * b).sum().item() == sum(
        v * reference(MORE, OTHERS).get(k, 0) for k, v in reference(COORDS, VALUES).items())
    kept = a.sum(axis=(1, 2, 3, 4, 5)).compute()
    assert kept.shape == (SIDE, SIDE)
    assert as_dict(kept) == summed(COORDS[[0, 6]])
    assert as_dict(a.sum(axis=6).compute()) == summed(COORDS[:6])
    assert as_dict(a.max(axis=(0, 1)).compute()).keys() == summed(COORDS[2:]).keys()
    rows = np.zeros(SIDE)
    np.add.at(rows, COORDS[3], VALUES)
    same(a.sum(axis=(0, 1, 2, 4, 5, 6)), rows)


def summed(coords: np.ndarray) -> dict[tuple[int, ...], float]:
    found: dict[tuple[int, ...], float] = {}
    for key, v in zip(map(tuple, coords.T.tolist()), VALUES.tolist()):
        found[key] = found.get(key, 0) + v
    return found


def test_huge_slices(pair: tuple[Any, Any]) -> None:
    a, _ = pair
    inside = (COORDS[0] < SIDE // 2) & (COORDS[6] % 2 == 0)
    half = a[: SIDE // 2, ..., ::2].compute()
    cut = COORDS[:, inside].copy()
    cut[6] //= 2
    assert half.shape == (SIDE // 2, *HUGE[1:6], SIDE // 2)
    assert as_dict(half) == reference(cut, VALUES[inside])
    fibre = a[5, 6, 7, 8, 9, 10].compute()
    assert fibre.shape == (SIDE,)
    assert as_dict(fibre) == {(0,): VALUES[0], (SIDE - 1,): VALUES[1], (4,): VALUES[2]}
    assert a[5, 6, 7, 8, 9, 10, 4].item() == VALUES[2]
    assert a[0, 0, 0, 0, 0, 0, 1].item() == 0
    flipped = a[::-1].compute()
    turned = COORDS.copy()
    turned[0] = SIDE - 1 - turned[0]
    assert as_dict(flipped) == reference(turned, VALUES)


def test_huge_transpose_and_concat(pair: tuple[Any, Any]) -> None:
    a, b = pair
    order = (6, 2, 0, 1, 5, 3, 4)
    assert as_dict(tr.permute_dims(a, order).compute()) == reference(COORDS[list(order)], VALUES)
    joined = tr.concat([a, b], axis=3).compute()
    assert joined.shape == (*HUGE[:3], 2 * SIDE, *HUGE[4:])
    moved = MORE.copy()
    moved[3] += SIDE
    assert as_dict(joined) == reference(COORDS, VALUES) | reference(moved, OTHERS)
    stacked = tr.stack([a, b]).compute()
    assert stacked.shape == (2, *HUGE) and stacked.nnz == 2 * COUNT


def test_huge_einsum(pair: tuple[Any, Any]) -> None:
    a, b = pair
    u, v = np.arange(SIDE) % 7 * 1.0, np.arange(SIDE) % 5 * 1.0
    found = tr.einsum("abcdefg,c,g->e", a, u, v)
    wanted = np.zeros(SIDE)
    np.add.at(wanted, COORDS[4], VALUES * u[COORDS[2]] * v[COORDS[6]])
    same(found, wanted)
    inner = tr.einsum("abcdefg,abcdefg->", a, a)
    assert inner.item() == (VALUES**2).sum()
    product = tr.einsum("abcdefg,zbcdefg->az", a, b).compute()
    assert product.shape == (SIDE, SIDE)
    keys = {k[1:]: (k[0], w) for k, w in reference(MORE, OTHERS).items()}
    expected = {(k[0], keys[k[1:]][0]): w * keys[k[1:]][1]
                for k, w in reference(COORDS, VALUES).items() if k[1:] in keys}
    assert set(as_dict(product)) == set(expected)


def test_huge_is_never_made_dense(pair: tuple[Any, Any]) -> None:
    a, _ = pair
    requests: list[Callable[[], Any]] = [
        a.to_numpy, lambda: np.asarray(a), lambda: a.compute(format="dense"),
        lambda: (a * 2).to_format("dense"), lambda: tr.tensor(a, format="dense")]
    for ask in requests:
        with pytest.raises(MemoryLimitError):
            ask().compute()
    with pytest.raises((ShapeError, MemoryLimitError)):
        a.reshape(-1).compute()
    assert "nnz=1000" in repr(a)
