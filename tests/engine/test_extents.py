"""Extents up to their limit: structural operators against dictionaries of Python's whole numbers.

A tensor is a dictionary from coordinates to values. Python's numbers do not wrap, so whatever
index arithmetic loses near the end of 64 bits is seen here."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import MemoryLimitError, ShapeError, TensorelError, UnsupportedError
from tensorel.ir.extents import MAX_EXTENT

Cells = dict[tuple[int, ...], float]
Shape = tuple[int, ...]
LAST = MAX_EXTENT.bit_length() - 1
POWERS = (2, 31, 32, 40, 53, LAST - 1, LAST, LAST + 1)


def extent(draw: random.Random) -> int:
    return max(min(2 ** draw.choice(POWERS) + draw.randint(-2, 2), MAX_EXTENT), 2)


def coordinate(draw: random.Random, n: int) -> int:
    near = draw.choice((0, n // 2, n - 1))
    return min(max(near + draw.randint(-2, 2), 0), n - 1)


def cells(draw: random.Random, shape: Shape) -> Cells:
    return {tuple(coordinate(draw, n) for n in shape): float(draw.randint(1, 9))
            for _ in range(4)}


def tensor(found: Cells, shape: Shape, format: str) -> Any:
    coords = [np.array([c[a] for c in found], np.int64) for a in range(len(shape))]
    return tr.from_coo(coords, np.array(list(found.values())), shape, format=format)


def as_cells(t: Any) -> Cells:
    coords, values = t.compute().to_coo()
    return {c: v for c, v in zip(map(tuple, coords.T.tolist()), values.tolist()) if v}


def moved(found: Cells, axis: int, to: Callable[[int], int | None]) -> Cells:
    """Each coordinate of an axis replaced; None: the cell is gone."""
    made = {}
    for c, v in found.items():
        k = to(c[axis])
        if k is not None:
            made[(*c[:axis], k, *c[axis + 1:])] = v
    return made


class Case:
    """A tensor of few cells, and the draws of its program."""

    def __init__(self, draw: random.Random, shape: Shape | None = None) -> None:
        self.draw = draw
        self.shape = shape or tuple(extent(draw) for _ in range(draw.choice((1, 2, 2, 3))))
        self.cells = cells(draw, self.shape)
        self.tensor = tensor(self.cells, self.shape, draw.choice(("coo", "csf", "dok")))
        self.axis = draw.randrange(len(self.shape))
        self.n = self.shape[self.axis]
        self.other = cells(draw, self.shape)

    def offset(self) -> int:
        return self.draw.choice((0, 1, -1, self.n - 1, 1 - self.n, self.n // 2, 2**60, -(2**60),
                                 2**63 - 1, -(2**63), 2**70, -(2**70)))


Answer = tuple[Any, Cells | int, Shape]


def roll(c: Case) -> Answer:
    s = c.offset()
    return (tr.roll(c.tensor, s, axis=c.axis),
            moved(c.cells, c.axis, lambda i: (i + s) % c.n), c.shape)


def triangle(c: Case) -> Answer:
    k, lower = c.offset(), c.draw.random() < 0.5
    if len(c.shape) < 2:
        return flip(c)
    found = {x: v for x, v in c.cells.items()
             if (x[-1] <= x[-2] + k if lower else x[-1] >= x[-2] + k)}
    return (tr.tril if lower else tr.triu)(c.tensor, k), found, c.shape


def flip(c: Case) -> Answer:
    return tr.flip(c.tensor, c.axis), moved(c.cells, c.axis, lambda i: c.n - 1 - i), c.shape


def cut(c: Case) -> Answer:
    ends = [c.draw.choice((None, 0, 1, c.n // 2, c.n - 1, c.n, -1, -c.n, 2**62, -(2**62), 2**70))
            for _ in range(2)]
    part = slice(*ends, c.draw.choice((None, 1, 2, 3, -1, -2, c.n - 1, c.n, -(2**62), 2**70)))
    start, stop, step = part.indices(c.n)
    steps = range(start, stop, step)
    count = max(-((start - stop) // step), 0)
    found = moved(c.cells, c.axis,
                  lambda i: (i - start) // step if i in steps else None)
    at = (*(slice(None),) * c.axis, part)
    return c.tensor[at], found, (*c.shape[:c.axis], count, *c.shape[c.axis + 1:])


def pad(c: Case) -> Answer:
    lo, hi = (c.draw.choice((0, 1, 5, c.n, MAX_EXTENT - c.n)) for _ in range(2))
    widths = [(lo, hi) if a == c.axis else (0, 0) for a in range(len(c.shape))]
    shape = (*c.shape[:c.axis], lo + c.n + hi, *c.shape[c.axis + 1:])
    return tr.pad(c.tensor, widths), moved(c.cells, c.axis, lambda i: i + lo), shape


def concat(c: Case) -> Answer:
    other = tensor(c.other, c.shape, "coo")
    shape = (*c.shape[:c.axis], 2 * c.n, *c.shape[c.axis + 1:])
    return (tr.concat([c.tensor, other], axis=c.axis),
            c.cells | moved(c.other, c.axis, lambda i: i + c.n), shape)


def repeat(c: Case) -> Answer:
    times = c.draw.choice((1, 2, 3))
    made: Cells = {}
    for k in range(times):
        made |= moved(c.cells, c.axis, lambda i, k=k: i * times + k)  # type: ignore[misc]
    shape = (*c.shape[:c.axis], times * c.n, *c.shape[c.axis + 1:])
    return tr.repeat(c.tensor, times, axis=c.axis), made, shape


def tile(c: Case) -> Answer:
    times = c.draw.choice((1, 2, 3))
    reps = [times if a == c.axis else 1 for a in range(len(c.shape))]
    made: Cells = {}
    for k in range(times):
        made |= moved(c.cells, c.axis, lambda i, k=k: i + k * c.n)  # type: ignore[misc]
    shape = (*c.shape[:c.axis], times * c.n, *c.shape[c.axis + 1:])
    return tr.tile(c.tensor, reps), made, shape


def reshape(c: Case) -> Answer:
    bits = [c.draw.choice((1, 7, 13, 20, 29, 31)) for _ in range(2)]
    c = Case(c.draw, tuple(c.draw.choice((1, 3)) * 2**b - c.draw.choice((0, 1)) for b in bits))
    size = 1
    for n in c.shape:
        size *= n
    flat = {}
    for x, v in c.cells.items():
        at = 0
        for i, n in zip(x, c.shape):
            at = at * n + i
        flat[at] = v
    part = next((d for d in (2, 3, 5, 7) if size % d == 0), 1)
    shape = c.draw.choice(((size,), (size // part, part), (part, size // part)))
    found = {(at,) if len(shape) == 1 else divmod(at, shape[1]): v for at, v in flat.items()}
    return tr.reshape(c.tensor, shape), found, shape


def diagonal(c: Case) -> Answer:
    if len(c.shape) != 2:
        k = c.draw.choice((0, 1, -1, c.n, -c.n))
        if len(c.shape) == 3:
            return flip(c)
        found = {(i + max(-k, 0), i + max(k, 0)): v for (i,), v in c.cells.items()}
        return tr.diag(c.tensor, k), found, (c.n + abs(k),) * 2
    k = c.offset()
    down, right = max(-k, 0), max(k, 0)
    count = max(min(c.shape[0] - down, c.shape[1] - right), 0)
    line = {(i - down,): v for (i, j), v in c.cells.items() if j - i == k}
    return tr.diagonal(c.tensor, k), line, (count,)


def kron(c: Case) -> Answer:
    m = c.draw.choice((1, 2, 3))
    small = {(k,) * len(c.shape): 2.0 for k in range(m)}
    shape = tuple(n * m for n in c.shape)
    found = {tuple(i * m + k for i, k in zip(x, y)): v * w
             for (x, v), (y, w) in product(c.cells.items(), small.items())}
    return tr.kron(c.tensor, tensor(small, (m,) * len(c.shape), "coo")), found, shape


def take(c: Case) -> Answer:
    at = [coordinate(c.draw, c.n) for _ in range(3)] + [x[c.axis] for x in c.cells]
    made: Cells = {}
    for place, i in enumerate(at):
        made |= moved(c.cells, c.axis,
                      lambda j, i=i, place=place: place if j == i else None)  # type: ignore[misc]
    signed = [i - c.n if c.draw.random() < 0.3 else i for i in at]
    shape = (*c.shape[:c.axis], len(at), *c.shape[c.axis + 1:])
    return tr.take(c.tensor, signed, axis=c.axis), made, shape


def turn(c: Case) -> Answer:
    order = list(range(len(c.shape)))
    c.draw.shuffle(order)
    found = {tuple(x[a] for a in order): v for x, v in c.cells.items()}
    return tr.permute_dims(c.tensor, order), found, tuple(c.shape[a] for a in order)


def total(c: Case) -> Answer:
    found: Cells = {}
    for x, v in c.cells.items():
        at = (*x[:c.axis], *x[c.axis + 1:])
        found[at] = found.get(at, 0.0) + v
    return tr.sum(c.tensor, axis=c.axis), found, (*c.shape[:c.axis], *c.shape[c.axis + 1:])


def argmax(c: Case) -> Answer:
    best = max(c.cells.values())
    at = []
    for x, v in c.cells.items():
        flat = 0
        for i, n in zip(x, c.shape):
            flat = flat * n + i
        at += [flat] if v == best else []
    if min(at) >= 2**63:
        with pytest.raises(UnsupportedError):
            tr.argmax(c.tensor).item()
        return flip(c)
    return tr.argmax(c.tensor), min(at), ()


def sort(c: Case) -> Answer:
    fibers: dict[tuple[int, ...], list[float]] = {}
    for x, v in c.cells.items():
        fibers.setdefault((*x[:c.axis], *x[c.axis + 1:]), []).append(v)
    found = {(*y[:c.axis], c.n - len(vs) + k, *y[c.axis:]): v
             for y, vs in fibers.items() for k, v in enumerate(sorted(vs))}
    return tr.sort(c.tensor, axis=c.axis), found, c.shape


def count(c: Case) -> Answer:
    return tr.count_nonzero(c.tensor), len(c.cells), ()


def shifted_view(c: Case) -> Answer:
    """Views of views: offsets add up before the last condition."""
    s = c.draw.choice((1, c.n // 2, c.n - 1))
    at = (*(slice(None),) * c.axis, slice(None, None, -1))
    found = moved(c.cells, c.axis, lambda i: c.n - 1 - (i + s) % c.n)
    found = moved(found, c.axis, lambda i: (i - s) % c.n)
    return tr.roll(tr.roll(c.tensor, s, axis=c.axis)[at], -s, axis=c.axis), found, c.shape


OPERATORS: tuple[Callable[[Case], Answer], ...] = (
    roll, triangle, flip, cut, pad, concat, repeat, tile, reshape, diagonal, kron, take, turn,
    total, argmax, sort, count, shifted_view)
ROUNDS = 20


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda f: f.__name__)
def test_structural_operators_near_the_limit(operator: Callable[[Case], Answer]) -> None:
    answered = 0
    for seed in range(ROUNDS):
        draw = random.Random(f"{operator.__name__} {seed}")
        case = Case(draw)
        about = f"seed {seed}, shape {case.shape}, {case.tensor.format}, {case.cells}"
        try:
            found, wanted, shape = operator(case)
            with tr.options(memory="100MB"):
                got = as_cells(found) if isinstance(wanted, dict) else found.item()
        except (ShapeError, MemoryLimitError) as error:
            # The limit of extents, or a plan that walks the axis: refused, never a wrong answer.
            assert isinstance(error, MemoryLimitError) or "too long" in str(error), about
            continue
        assert found.shape == shape and max(shape, default=0) <= MAX_EXTENT, about
        assert got == wanted, about
        answered += 1
    assert answered, "all refused: that says nothing"


def test_extents_have_one_limit() -> None:
    """Whichever way a shape is made."""
    v = tr.from_coo([[5]], [1.0], (MAX_EXTENT,))
    m = tr.from_coo([[5], [6]], [1.0], (2**40, 2**40))
    over = MAX_EXTENT + 1
    small = tr.asarray(np.ones(3))
    ways: list[Callable[[], Any]] = [
        lambda: tr.zeros((2**63,)), lambda: tr.ones(over), lambda: tr.full((1, over), 3),
        lambda: tr.empty(over), lambda: tr.eye(over), lambda: tr.arange(over),
        lambda: tr.arange(0.0, 1e30), lambda: tr.linspace(0, 1, over),
        lambda: tr.from_coo([[0]], [1.0], (over,)), lambda: tr.broadcast_to(1.0, (over,)),
        lambda: tr.concat([v, v]), lambda: tr.pad(v, 1), lambda: tr.pad(small, 2**70),
        lambda: tr.repeat(v, 2), lambda: tr.repeat(small, np.array([2**60, 2**60, 1])),
        lambda: tr.tile(v, 2), lambda: tr.kron(v, small), lambda: tr.diag(v, 1), lambda: m.ravel(),
        lambda: tr.reshape(m, (2**61, -1)), lambda: tr.stack([v, v]).ravel(),
        lambda: tr.diag(small, 2**70), lambda: tr.diff(small, append=tr.zeros(MAX_EXTENT)),
        lambda: tr.outer(m, small), lambda: tr.zeros((2**60,) * 20),
        lambda: tr.sdql("sum(<i,v> in x) { i -> v }", x=tr.from_coo([[0]], [1.0], (over,)))]
    for k, way in enumerate(ways):
        with pytest.raises(ShapeError):
            way()
            pytest.fail(f"way {k} made a longer axis")
    assert v.sum().item() == 1.0 and tr.roll(v, -6).compute().to_coo()[0].tolist() == [
        [MAX_EXTENT - 1]]


def test_counts_that_do_not_fit_are_errors() -> None:
    ones = tr.ones((2**40, 2**40))
    few = tr.from_coo([[0, 1], [2, 3]], [1.0, 5.0], (2**40, 2**40))
    assert tr.count_nonzero(few).item() == 2 and few.nnz == 2
    assert tr.count_nonzero(tr.ones((2**40, 2**20))).item() == 2**60
    assert tr.count_nonzero(ones, axis=1)[:3].to_numpy().tolist() == [2**40] * 3
    for ask in (lambda: tr.count_nonzero(ones), lambda: tr.count_nonzero(few + 1),
                lambda: tr.unique_counts(few), lambda: tr.unique_counts(few * 2),
                lambda: (few == 0).sum(), lambda: tr.sum(few < 1, axis=(0, 1))):
        with pytest.raises(ShapeError, match="does not fit"):
            ask()
    assert tr.unique_values(few).to_numpy().tolist() == [0.0, 1.0, 5.0]
    assert (few > 1).sum().item() == 1 and (few == 0).sum(dtype=float).item() == 2.0**80
    assert (few == 0).sum(axis=1)[:3].to_numpy().tolist() == [2**40 - 1] * 2 + [2**40]


def test_statistics_of_more_cells_than_are_counted() -> None:
    few = tr.from_coo([[0, 7], [2, 3]], [1.0, 2.0], (2**40, 2**40))
    size = float(2**80)
    mean = 3 / size
    assert few.mean().item() == mean
    assert few.var().item() == pytest.approx(5 / size, rel=1e-12)
    assert few.std().item() == pytest.approx((5 / size) ** 0.5, rel=1e-12)
    assert few.var(correction=1).item() == pytest.approx(5 / size, rel=1e-12)


def test_offsets_beyond_64_bits() -> None:
    a = np.arange(12.0).reshape(3, 4)
    t = tr.asarray(a)
    for k in (2**62, 2**63 - 1, 2**63, 2**70, -(2**63), -(2**70)):
        np.testing.assert_array_equal(tr.tril(t, k).to_numpy(), a if k > 0 else a * 0)
        np.testing.assert_array_equal(tr.triu(t, k).to_numpy(), a if k < 0 else a * 0)
        assert tr.diagonal(t, k).shape == (0,) and not tr.eye(3, 4, k=k).to_numpy().any()
        assert tr.trace(t, k).item() == 0
        np.testing.assert_array_equal(tr.roll(t, k, 1).to_numpy(), np.roll(a, k % 4, 1))
        np.testing.assert_array_equal(t[::k].to_numpy(), a[::k])
        np.testing.assert_array_equal(t[k:].to_numpy(), a[k:])
    assert tr.diff(t, 10**9).shape == (3, 0)


def test_python_numbers_that_do_not_fit() -> None:
    """NumPy's laws: bounds of clip beyond the dtype bound nothing; all else is an error."""
    u = np.array([1, 2, 255], np.uint8)
    t = tr.asarray(u)
    for bounds in ((-1, 1), (0, 300), (-1, None), (None, 300), (-(2**70), 2**70), (3, 300)):
        np.testing.assert_array_equal(tr.clip(t, *bounds).to_numpy(), np.clip(u, *bounds))
        assert tr.clip(t, *bounds).dtype == np.uint8
    asks: list[Callable[[], Any]] = [
        lambda: tr.clip(t, 300, 400), lambda: tr.clip(t, -5, -1),
        lambda: tr.full(2, 300, dtype="u1"), lambda: tr.full(2, 2**70, dtype=tr.int64),
        lambda: tr.sum(t, initial=2**70),
        lambda: tr.prod(t, initial=-1), lambda: tr.arange(2**63, 2**63 + 3), lambda: t + 300,
        lambda: tr.pad(t, 1, constant_values=256), lambda: tr.where(t > 1, t, -1)]
    for ask in asks:
        with pytest.raises(OverflowError) as caught:
            ask()
        assert isinstance(caught.value, TensorelError)
